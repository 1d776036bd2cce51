"""Root certificates for a board: those of an endpoint, from this machine's store, or a file's.

An endpoint may have a chain for each kind of key, and a board offers both kinds: each is tried. The
handshakes are TLS 1.2, as those of most firmware.
"""

import re
import socket
import ssl
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from budget_cpython.board.errors import BoardError, UsageError

PATIENCE_S = 10.0
_KINDS = ("aECDSA", "aRSA")
_IN_DER = 2  # OpenSSL's encoding, as CPython numbers it
_PEM = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)


def endpoint_roots(url: str) -> dict[bytes, str]:
    """Return the root certificates that verify an https endpoint, with the name of each.

    Raises `BoardError` if the endpoint cannot be reached, or this machine does not trust it.
    """
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or 443
    found: dict[bytes, str] = {}
    trouble = ""
    for kind in _KINDS:
        try:
            found |= _root(host, port, kind)
        except ssl.SSLCertVerificationError as error:
            trouble = f"this machine does not trust it: {error.verify_message}"
        except ssl.SSLError as error:  # it may have no key of this kind
            trouble = trouble or f"TLS 1.2 failed: {error.reason}"
        except OSError as error:
            trouble = f"it cannot be reached: {error.strerror or error}"
            break
    if not found:
        raise BoardError(f"no root certificate was found for {host}:{port}: {trouble}")
    return found


def file_roots(path: Path) -> dict[bytes, str]:
    """Return the certificates in a file of PEM or DER; `UsageError` if it has none."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"--ca {path}: {error.strerror}") from None
    texts = _PEM.findall(data.decode("latin-1"))
    found = [ssl.PEM_cert_to_DER_cert(text) for text in texts] or [data]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(cadata=b"".join(found))
    except (ssl.SSLError, ValueError):
        raise UsageError(f"--ca {path}: there are no certificates in it, in PEM or DER") from None
    return _named(context, context.get_ca_certs(binary_form=True) or found)


def _root(host: str, port: int, kind: str) -> dict[bytes, str]:
    """Return the last certificate of the chain that this machine verifies."""
    context = _store()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(kind)
    with (
        socket.create_connection((host, port), PATIENCE_S) as plain,
        context.wrap_socket(plain, server_hostname=host) as connection,
    ):
        return _named(context, [_verified_chain(connection)[-1]])


def _verified_chain(connection: Any) -> list[bytes]:
    if hasattr(connection, "get_verified_chain"):  # from 3.13 on
        return list(connection.get_verified_chain())
    return [link.public_bytes(_IN_DER) for link in connection._sslobj.get_verified_chain()]


def _store() -> ssl.SSLContext:
    """Return a context that trusts what this machine trusts, or certifi where it has no store."""
    context = ssl.create_default_context()
    if not context.cert_store_stats()["x509_ca"] and find_spec("certifi"):
        import certifi

        context.load_verify_locations(certifi.where())
    return context


def _named(context: ssl.SSLContext, roots: list[bytes]) -> dict[bytes, str]:
    known = zip(context.get_ca_certs(binary_form=True), context.get_ca_certs(), strict=True)
    subjects = {der: _name(fields) for der, fields in known}
    return {der: subjects.get(der, "a root certificate") for der in roots}


def _name(certificate: Any) -> str:
    fields = dict(pair for part in certificate["subject"] for pair in part)
    for field in ("commonName", "organizationalUnitName", "organizationName"):
        if field in fields:
            return str(fields[field])
    return "a certificate without a name"
