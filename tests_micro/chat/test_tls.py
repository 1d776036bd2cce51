"""TLS contexts: what they trust, and which of the port's modules makes them."""

import binascii
import sys

from budget_core.chat.tls import tls_context
from tests_micro.support import module_or_skip, raises, temp_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_REQUIRED = 2  # CERT_REQUIRED, on both runtimes
_ENDLESS = b"\x30\x88" + 8 * b"\xff"  # larger than any machine word
# Its size takes one byte, where those of most take two.
_SMALL = (
    "MIHtMIGbAgEBMAoGCCqGSM49BAMCMAwxCjAIBgNVBAMMAWEwHhcNMjYxMTIyMTgyMjUwWhcNMzYxMTE5MTgyMjUwWjAMMQow"
    "CAYDVQQDDAFhME4wEAYHKoZIzj0CAQYFK4EEACEDOgAEY07rlI5DjGhq2IOFYWRZ+dUVgXza93vwa9zbeNHRNxZVKBANA4MM"
    "hym5hEelidbjlrrWhwxM4UIwCgYIKoZIzj0EAwIDQQAwPgIdANSkBKE0Cth+rZ0XQfdaK3US41wIMhLolUx8joECHQDykmTd"
    "aQu0VxZUdMCOesz91jGMD8dDx0Zij1rm"
)


class _StockSsl:
    """As MicroPython's module `ssl`, whose contexts verify no server."""

    PROTOCOL_TLS_CLIENT = 0
    SSLContext = None


def test_servers_are_verified_whatever_the_ports_module_ssl_does() -> None:
    module_or_skip("ssl", "tls")
    before: Any = sys.modules.get("ssl")
    if not hasattr(before, "create_default_context"):
        sys.modules["ssl"] = _StockSsl()  # type: ignore[assignment]
    try:
        assert tls_context().verify_mode == _REQUIRED
    finally:
        if before is None:
            del sys.modules["ssl"]
        else:
            sys.modules["ssl"] = before


def test_a_file_with_other_bytes_is_refused() -> None:
    module_or_skip("ssl", "tls")
    with temp_folder() as folder:
        path = folder + "/ca.der"
        for data in (b"\x30", b"\x30\x82\xff\xff", b"\x30\x82\x00\x01\x00", b"text", _ENDLESS):
            with open(path, "wb") as file:
                file.write(data)
            assert isinstance(raises(Exception, tls_context, path), (ValueError, OSError)), data


def test_certificates_of_any_size_are_read_one_after_another() -> None:
    module_or_skip("ssl", "tls")
    with temp_folder() as folder:
        path = folder + "/ca.der"
        with open(path, "wb") as file:
            file.write(2 * binascii.a2b_base64(_SMALL))
        assert tls_context(path).verify_mode == _REQUIRED


def test_an_empty_file_is_refused_before_a_server_is() -> None:
    with temp_folder() as folder:
        path = folder + "/ca.der"
        with open(path, "wb"):
            pass
        assert f"{path} is empty" in str(raises(ValueError, tls_context, path))
