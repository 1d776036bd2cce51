"""The servers that answer in the end, and which of them a request is for."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from urllib.parse import unquote

import httpx
from starlette.exceptions import HTTPException

from budget_cpython.files.settings_file import read_secret
from budget_cpython.vendors.google import GOOGLE_MODELS

ANTHROPIC, GOOGLE, OPENAI = "anthropic", "google", "openai"
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
_VERSION = re.compile(r"v[0-9]+[A-Za-z0-9]*")


@dataclass(frozen=True)
class Upstream:
    """A server by its name; `url` is its base URL as an SDK takes it, `key` what it wants to see.

    Without a `key` the client's own is passed through.
    """

    name: str
    url: str
    key: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Raise `ValueError` for a bad name or URL."""
        if not _NAME.fullmatch(self.name) or _VERSION.fullmatch(self.name):
            raise ValueError(
                f"an upstream's name must be letters, digits, _ and -, unlike v1: not {self.name!r}"
            )
        url = _parse(self.name, self.url)
        if url.scheme not in ("http", "https") or not url.host or url.query or url.fragment:
            raise ValueError(
                f"the URL of upstream {self.name} must be like https://HOST/PATH, without ? and #"
            )
        if url.userinfo:
            raise ValueError(
                f"the URL of upstream {self.name} must have no password: use a key, which is hidden"
            )

    def target(self, path: bytes, query: bytes) -> httpx.URL:
        """Return the URL of a request's path.

        The path's `/v1` is left out where the base URL has a version, as in `…/api/v1` and
        `…/paas/v4`. Raises `HTTPException` for a path that no URL can have.
        """
        base, has_version = self._base
        if has_version:
            path = re.sub(rb"^/v1(?=/|$)", b"", path)
        root = base.raw_path.rstrip(b"/")
        try:
            return base.copy_with(raw_path=root + path + (b"?" + query if query else b""))
        except httpx.InvalidURL as error:
            raise HTTPException(400, f"the path is not valid: {error}") from error

    @cached_property
    def _base(self) -> tuple[httpx.URL, bool]:
        """The base URL, and whether it has a version."""
        base = httpx.URL(self.url)
        return base, any(_VERSION.fullmatch(part) for part in base.path.split("/"))


def _parse(name: str, url: str) -> httpx.URL:
    try:
        return httpx.URL(url)
    except httpx.InvalidURL as error:
        raise ValueError(f"the URL of upstream {name} is not valid: {error}") from error


def read_upstreams(rows: Iterable[str], keys: Iterable[str]) -> list[Upstream]:
    """Return the upstreams of `NAME=URL`, with the keys of `NAME=@FILE` and `NAME=env:VARIABLE`."""
    found: dict[str, str] = {}
    for row in rows:
        name, mark, url = row.partition("=")
        if not mark:
            raise ValueError(f"an upstream is NAME=URL, as in openai=https://…, not {row!r}")
        if found.setdefault(name, url) != url:
            raise ValueError(f"two upstreams have the name {name!r}")
    secrets = dict(map(_read_key, keys))
    for name in secrets:
        if name not in found:
            raise ValueError(f"there is a key for {name!r}, but no upstream of that name")
    return [Upstream(name, url, secrets.get(name)) for name, url in found.items()]


def _read_key(row: str) -> tuple[str, str]:
    name, mark, source = row.partition("=")
    what = f"the key of upstream {name!r}" if mark else "an upstream's key, after NAME=,"
    return name, read_secret(what, source)


def choose(
    upstreams: Mapping[str, Upstream], path: bytes, headers: Mapping[str, str]
) -> tuple[Upstream, bytes]:
    """Return the upstream for a path, and the path that it is asked for; `HTTPException`.

    A first segment that is an upstream's name chooses it and is removed. A single upstream gets
    everything else; of several, the format decides.
    """
    first, _, rest = path[1:].partition(b"/")
    named = upstreams.get(first.decode("latin-1"))
    if named is not None:
        return named, b"/" + rest
    if len(upstreams) == 1:
        return next(iter(upstreams.values())), path
    vendor = vendor_of(path.decode("latin-1"), headers)
    if vendor in upstreams:
        return upstreams[vendor], path
    places = ", ".join(f"/{name}/..." for name in upstreams)
    raise HTTPException(
        404, f"no upstream is named {vendor!r}: begin the path with one of {places}"
    )


def vendor_of(path: str, headers: Mapping[str, str]) -> str:
    """Return the vendor whose format a request has, as far as its path and headers tell."""
    if "anthropic-version" in headers or re.search(r"/v1/(messages|complete)\b", path):
        return ANTHROPIC
    if "x-goog-api-key" in headers or re.search(rf"/{GOOGLE_MODELS}/[^/]+(:|%3[Aa])", path):
        return GOOGLE
    return OPENAI


def check_plain(path: bytes) -> None:
    """Raise `HTTPException` for a path that the proxy and a server might read in two ways."""
    text = path.decode("latin-1")
    parts = text.split("/")
    doubled = "" in parts[1:-1] or "\\" in text
    if doubled or {".", ".."} & {unquote(part) for part in parts} or _hides(text):
        raise HTTPException(400, "write the path plainly: without //, /../ and %-encoded letters")


def _hides(text: str) -> bool:
    """Tell whether a character that needs no %-encoding, or a separator, is encoded."""
    codes = re.findall(r"%(..)?", text)
    if not all(re.fullmatch("[0-9A-Fa-f]{2}", code) for code in codes):
        return True
    return any(re.match(r"[\w.~/\\-]", chr(int(code, 16)), re.ASCII) for code in codes)
