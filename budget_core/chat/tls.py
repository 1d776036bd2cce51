"""Make TLS contexts."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_DER = b"\x30"


def tls_context(ca_file: str | None = None) -> "Any":
    """Return a TLS client context that verifies servers against the certificates in `ca_file`.

    They are in DER, one after another, or in PEM, which only some firmware reads. Without `ca_file`
    CPython trusts the system's certificates; MicroPython then trusts no server. Raises `ValueError`
    where the firmware has no TLS, or cannot read the certificates.
    """
    data = b""
    if ca_file is not None:
        with open(ca_file, "rb") as file:
            data = file.read()
        if not data:
            raise ValueError(f"{ca_file} is empty: it has no certificates")
    in_der = data[:1] == _DER
    try:
        import ssl

        create: Any = getattr(ssl, "create_default_context", None)  # CPython's
    except ImportError:
        create = None
    if create is not None:
        return create(cadata=data) if in_der else create(cafile=ca_file)
    try:
        tls = __import__("tls")  # MicroPython's `ssl` is a layer above it that verifies no server
    except ImportError:
        raise ValueError("this firmware has no TLS: use an http URL, or a build with tls")
    context = tls.SSLContext(tls.PROTOCOL_TLS_CLIENT)
    context.verify_mode = tls.CERT_REQUIRED
    while data:
        size = _der_size(data) if in_der else len(data)
        try:
            context.load_verify_locations(data[:size] if in_der else data + b"\0")
        except (OverflowError, ValueError):  # a damaged size may be beyond any file
            raise ValueError(f"{ca_file} has no certificates that this firmware reads: try DER")
        data = data[size:]
    return context


def _der_size(data: bytes) -> int:
    """Return the size of the first certificate in `data`."""
    size = int.from_bytes(data[1:2], "big")
    if size < 128:
        return 2 + size
    start = 2 + size - 128  # so many bytes have the size
    return start + int.from_bytes(data[2:start], "big")
