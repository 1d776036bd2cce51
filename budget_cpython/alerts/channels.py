"""The channels of alerts: where each sends, in which format, and of which accounts and shares."""

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from budget_core.errors import refuse
from budget_core.ledger.checks import check_path
from budget_cpython.alerts.signature import signing_key
from budget_cpython.files.settings_file import read_secret, read_toml
from budget_cpython.ledger.journal import LedgerEvent
from budget_cpython.ledger.selection import is_below

FORMATS = ("cloudevents", "apprise")
EVERY_ACCOUNT = "**"
_BELOW = "/**"
MOST_PERCENT = 1000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_SOURCE = re.compile(r"[A-Za-z0-9_.~:/@+-]{1,200}")
_KEYS = ("to", "format", "name", "at", "accounts", "forecast", "secret", "source")


@dataclass(frozen=True)
class AlertChannel:
    """Where alerts go, and which do.

    - `name`: the same in all processes that watch a ledger: each alert goes once to each name.
    - `to`: a URL, in no repr, log or event; `key` signs what is sent there.
    - `format`: one of `FORMATS`.
    - `at`: whole percents of a limit, at whose crossing an alert is sent.
    - `accounts`: paths; `PATH/**` is a path and all below it, `**` is every account.
    - `forecast`: also send an alert when a limit will be spent before its window ends.
    - `source`: who sends, as a reference: the `source` of a CloudEvent.
    """

    name: str
    to: str = field(repr=False)
    format: str = "cloudevents"
    at: tuple[int, ...] = (80, 100)
    accounts: tuple[str, ...] = (EVERY_ACCOUNT,)
    forecast: bool = True
    key: bytes | None = field(default=None, repr=False)
    source: str = "microbudget"

    def is_for(self, account: str) -> bool:
        """Tell whether the channel wants alerts of an account."""
        return any(_matches(account, one) for one in self.accounts)

    def wants(self, event: LedgerEvent) -> bool:
        """Tell whether the channel wants an event, which is a `threshold` or a `forecast`."""
        if event.kind == "forecast":
            return self.forecast and self.is_for(event.account)
        return event.details.get("percent") in self.at and self.is_for(event.account)


def _matches(account: str, selected: str) -> bool:
    if selected == EVERY_ACCOUNT:
        return True
    above = selected.removesuffix(_BELOW)
    return is_below(account, above) if above != selected else account == selected


def read_alerts(path: str, needed: bool = True) -> list[AlertChannel]:
    """Return the channels of a TOML file, at least one if any are `needed`.

    Its other tables are left unread.

    ```toml
    [[alerts]]
    to = "https://example.com/budgets"
    secret = "env:ALERTS_SECRET"    # whsec_…, which signs what is sent
    accounts = "org/**"
    at = [50, 80, 100]
    ```

    Raises `ValueError` for what is malformed, `ImportError` without what a format needs, and
    `OSError`.
    """
    channels = alert_channels(read_toml(path))
    if needed and not channels:
        raise ValueError(f"{path!r} has no [[alerts]]")
    return channels


def alert_channels(said: Mapping[str, Any]) -> list[AlertChannel]:
    """Return the channels of the `[[alerts]]` of settings; raise as `read_alerts` does."""
    rows = said.get("alerts", [])
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError("alerts must be tables, each headed [[alerts]]")
    channels = [_channel(number, row) for number, row in enumerate(rows, 1)]
    names = [channel.name for channel in channels]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"two [[alerts]] are named {name!r}: give each a name of its own")
    return channels


def _channel(number: int, row: Mapping[str, Any]) -> AlertChannel:
    what = f"[[alerts]] {number}"
    for name in row:
        if name not in _KEYS:
            raise ValueError(f"{what} has {name!r}: known are {', '.join(_KEYS)}")
    form = row.get("format", "cloudevents")
    if form not in FORMATS:
        refuse(f"format of {what}", f"one of {', '.join(FORMATS)}", form)
    to = _address(f"to of {what}", row.get("to"), form)
    name = row.get("name", _name_of(to))
    if not (isinstance(name, str) and _NAME.fullmatch(name)):
        refuse(f"name of {what}", "up to 64 letters, digits and _.-", name)
    more: dict[str, Any] = {}
    for key, read in _READERS.items():
        if key in row:
            more[key] = read(f"{key} of {what}", row[key])
    if "secret" in row:
        if form == "apprise":
            raise ValueError(f"secret of {what}: apprise signs nothing; its URL has what it needs")
        more["key"] = signing_key(f"secret of {what}", _hidden(f"secret of {what}", row["secret"]))
    return AlertChannel(name, to, form, **more)


def _address(what: str, source: Any, form: str) -> str:
    """Return a channel's URL; no error shows it, since a token may be in it."""
    if not isinstance(source, str):
        raise ValueError(f"{what} must be a URL, or @FILE or env:VARIABLE where one is hidden")
    url = _hidden(what, source) if source.startswith(("@", "env:")) else source
    if form == "apprise":
        _check_apprise(what, url)
        return url
    try:
        parts = urlsplit(url)
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        fits = False
    if not (fits and url.isascii() and url.isprintable() and " " not in url):
        raise ValueError(f"{what} must be a URL such as https://HOST/PATH")
    return url


def _hidden(what: str, source: Any) -> str:
    return read_secret(what, source if isinstance(source, str) else "")


def _check_apprise(what: str, url: str) -> None:
    try:
        import apprise
    except ModuleNotFoundError as error:
        raise ImportError(f"{what} needs apprise: pip install apprise") from error
    if apprise.Apprise.instantiate(url) is None:
        raise ValueError(f"{what} is no URL that apprise knows")


def _name_of(to: str) -> str:
    """Return the name of a channel that has none: its host or scheme, and a digest of its URL."""
    parts = urlsplit(to)
    place = parts.hostname if parts.scheme in ("http", "https") else parts.scheme
    plain = re.sub(r"[^A-Za-z0-9_.-]", "-", place or "").strip("-.")[:50]
    return f"{plain or 'channel'}-{hashlib.sha256(to.encode()).hexdigest()[:8]}"


def _percents(what: str, value: Any) -> tuple[int, ...]:
    values = value if isinstance(value, list) else [value]
    for one in values:
        if type(one) is not int or not 0 < one <= MOST_PERCENT:
            refuse(what, f"whole percents from 1 to {MOST_PERCENT}", one)
    return tuple(sorted(set(values)))


def _accounts(what: str, value: Any) -> tuple[str, ...]:
    values = value if isinstance(value, list) else [value]
    for one in values:
        if one != EVERY_ACCOUNT:
            try:
                check_path(one.removesuffix(_BELOW) if isinstance(one, str) else one)
            except ValueError as error:
                raise ValueError(f"{what}: {error}, or PATH/**, or **") from None
    return tuple(values)


def _of_type(kind: type, said: str, what: str, value: Any) -> Any:
    if not isinstance(value, kind):
        refuse(what, said, value)
    return value


def _source(what: str, value: Any) -> str:
    if not (isinstance(value, str) and _SOURCE.fullmatch(value)):
        refuse(what, "a URI, or a part of one", value)
    return value


_READERS: dict[str, Callable[[str, Any], Any]] = {
    "at": _percents,
    "accounts": _accounts,
    "forecast": partial(_of_type, bool, "true or false"),
    "source": _source,
}
