"""Make TLS contexts."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def tls_context(ca_file: str | None = None) -> "Any":
    """Return a TLS client context that verifies servers against the certificates in `ca_file`.

    Without `ca_file` CPython trusts the system's certificates; MicroPython then trusts no server.
    Raises `ValueError` where the firmware has no TLS.
    """
    try:
        import ssl
    except ImportError:
        try:
            ssl = __import__("tls")  # what small ports have of it
        except ImportError:
            raise ValueError("this firmware has no TLS: use an http URL, or a build with tls")
    if hasattr(ssl, "create_default_context"):
        return ssl.create_default_context(cafile=ca_file)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if ca_file is not None:
        with open(ca_file, "rb") as file:
            data = file.read()
        context.load_verify_locations(data + b"\0" if data.startswith(b"-----") else data)
    return context
