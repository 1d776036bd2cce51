"""Have the SDKs of a command find its proxy: by the variables from which they read their URLs."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

_VENDORS = {
    "openai": "https://api.openai.com/v1",
    "anthropic": "https://api.anthropic.com",
    "google": "https://generativelanguage.googleapis.com",
}
# What each variable's readers append to it begins after this path of the vendor's upstream.
VARIABLES = {
    "OPENAI_BASE_URL": ("openai", "/v1"),  # openai in Python and JavaScript, LiteLLM, the AI SDK
    "OPENAI_API_BASE": ("openai", "/v1"),  # LangChain, LiteLLM
    "ANTHROPIC_BASE_URL": ("anthropic", ""),  # anthropic in both, Claude Code, LiteLLM, the AI SDK
    "ANTHROPIC_API_URL": ("anthropic", ""),  # LangChain
    "ANTHROPIC_API_BASE": ("anthropic", ""),  # LiteLLM
    "GOOGLE_GEMINI_BASE_URL": ("google", ""),  # google-genai in both, LangChain
    "GEMINI_API_BASE": ("google", "/v1beta"),  # LiteLLM
}
# These have no URL that all users share, so they matter where they are set.
_WHERE_SET = ("AZURE_OPENAI_ENDPOINT", "AZURE_API_BASE", "GOOGLE_VERTEX_BASE_URL")
_LOOPBACK = "127.0.0.1"
_OURS = "MICROBUDGET_"
_ENGINE = "MICROBUDGET_ENGINE"
_PASSWORD = "PGPASSWORD"  # noqa: S105 - the variable from which libpq reads one


@dataclass
class Routes:
    """Which upstreams a proxy has, by name, and the path at the proxy that each variable gets."""

    upstreams: dict[str, str] = field(default_factory=dict)
    paths: dict[str, str] = field(default_factory=dict)

    def environment(self, before: Mapping[str, str], proxy: str) -> dict[str, str]:
        """Return an environment whose variables name the proxy at that URL.

        HTTP proxies that the environment names are not used on the way to it.
        """
        found = dict(before)
        for variable, path in self.paths.items():
            found[variable] = proxy + path
        return {**found, **direct_to_loopback(before)}


def for_command(
    before: Mapping[str, str], url: str | None = None, key: str | None = None
) -> dict[str, str]:
    """Return an environment without the variables of microbudget, and without a ledger's secrets.

    These are the variables whose value is the ledger's `url` or that of `$MICROBUDGET_ENGINE`, the
    one that `key` names as `env:NAME`, and libpq's password where such a ledger is on Postgres.
    """
    urls = {found for found in (url, before.get(_ENGINE)) if found}
    hidden = {(key or "").removeprefix("env:")}
    if any(found.startswith(("postgres:", "postgresql:")) for found in urls):
        hidden.add(_PASSWORD)
    return {
        name: value
        for name, value in before.items()
        if not name.startswith(_OURS) and name not in hidden and value not in urls
    }


def direct_to_loopback(before: Mapping[str, str]) -> dict[str, str]:
    """Return the variables by which a program uses no HTTP proxy on the way to this machine."""
    direct = before.get("no_proxy") or before.get("NO_PROXY") or ""
    if direct != "*":
        direct = ",".join(filter(None, (direct, _LOOPBACK)))
    return {"no_proxy": direct, "NO_PROXY": direct}


def plan_routes(
    before: Mapping[str, str], upstreams: Mapping[str, str], more: Iterable[str] = ()
) -> Routes:
    """Return the routes of the variables that SDKs read, and of `more`: `NAME=PATH` or `NAME`.

    A vendor's upstream is the one of `upstreams`, else the URL that a variable has `before`, else
    the vendor's own. A variable with another URL gets an upstream of its own, and so does a `NAME`
    without a path. Raises `ValueError` for such a name that has no URL, and for a path that does
    not begin with an upstream's name.
    """
    routes = Routes(dict(upstreams))
    for variable, (vendor, path) in VARIABLES.items():
        # Some SDKs read the next variable where one is not set: it then has the same URL.
        alike = [name for name, place in VARIABLES.items() if place == (vendor, path)]
        said = next(filter(None, map(before.get, (variable, *alike))), None)
        if vendor in upstreams:
            routes.paths[variable] = f"/{vendor}{path}"
        elif said:
            _route(routes, variable, vendor, said, _version(said))
        else:
            _route(routes, variable, vendor, _VENDORS[vendor], path)
    for row in (*filter(before.get, _WHERE_SET), *more):
        _add(routes, before, row)
    return routes


def check_upstreams(upstreams: Mapping[str, str]) -> None:
    """Raise `ValueError` for an upstream that the proxy refuses; without any that is not loaded."""
    others = {name: url for name, url in upstreams.items() if _VENDORS.get(name) != url}
    if others:
        from budget_cpython.proxy.upstreams import Upstream

        for name, url in others.items():
            Upstream(name, url)


def _route(routes: Routes, variable: str, name: str, url: str, path: str) -> None:
    """Lead a variable to a URL, through the upstream of that name if that is its URL or is free."""
    if routes.upstreams.setdefault(name, url) != url:
        name = variable.lower()
        routes.upstreams[name] = url
    routes.paths[variable] = f"/{name}{path}"


def _version(url: str) -> str:
    """Return what to keep of a URL's end: Anthropic's format is known by a path with its version.

    The proxy leaves it out where the upstream's URL has it.
    """
    return "/v1" if url.rstrip("/").endswith("/v1") else ""


def _add(routes: Routes, before: Mapping[str, str], row: str) -> None:
    variable, mark, path = row.partition("=")
    if not variable.isidentifier():
        raise ValueError(f"--set takes NAME=PATH, or the NAME of a variable, not {row!r}")
    if mark:
        name = path.strip("/").partition("/")[0]
        if name not in routes.upstreams:
            known = ", ".join(routes.upstreams)
            raise ValueError(
                f"the path of --set {row} must begin with an upstream: one of {known}, or another "
                "that --upstream NAME=URL gives"
            )
        routes.paths[variable] = "/" + path.strip("/")
    elif variable not in routes.paths:
        said = before.get(variable)
        if not said:
            raise ValueError(
                f"--set {variable} needs the URL that ${variable} has now, but it is not set: give "
                f"--upstream NAME=URL and --set {variable}=/NAME"
            )
        _route(routes, variable, variable.lower(), said, _version(said))
