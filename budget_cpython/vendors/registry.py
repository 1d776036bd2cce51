"""The registry of vendors, a module each, and the formats of their requests.

A vendor's module says its formats, the form of its errors and where it has models; another vendor
is one more module, and a name in `VENDORS`. A vendor that is not here speaks OpenAI's formats.
"""

import re
from functools import lru_cache
from typing import Final

from budget_cpython.vendors import anthropic, azure, google, openai
from budget_cpython.vendors.format import Vendor, WireFormat
from budget_cpython.vendors.other_calls import OtherCall, is_other_call

_KNOWN: Final = (openai.VENDOR, azure.VENDOR, anthropic.VENDOR, google.VENDOR)
VENDORS: Final[dict[str, Vendor]] = {vendor.name: vendor for vendor in _KNOWN}
_FORMATS: Final = [
    (re.compile(".*" + pattern), kind) for vendor in _KNOWN for pattern, kind in vendor.formats
]


def find_format(method: str, path: str, at_vendor: bool = False) -> WireFormat | None:
    """Return the format of a request by its method and its path without the query.

    The path may begin with anything: vendors' and proxies' base URLs differ. `None` if the request
    costs nothing. `at_vendor`: whether the server is known to be a vendor's, so that any other
    request costs something; else those do whose path says so, such as `images/generations`.
    """
    found = _kind_at(path, at_vendor) if method.upper() == "POST" else None
    return None if found is None else found[0](found[1])


@lru_cache(256)
def _kind_at(path: str, at_vendor: bool) -> tuple[type[WireFormat], str] | None:
    """Return the kind of format that a path has, and the path as servers read it."""
    path = re.sub("%3a", ":", path.rstrip("/"), flags=re.IGNORECASE)
    for pattern, kind in _FORMATS:
        if pattern.fullmatch(path):
            return kind, path
    return (OtherCall, path) if is_other_call(path, at_vendor) else None
