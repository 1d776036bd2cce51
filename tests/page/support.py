"""What the tests of the page share: a ledger with a day behind it, a reader, and what HTML says."""

import asyncio
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any, Self
from urllib.parse import urlencode

import httpx

from budget_core.ledger.limit import Limit
from budget_cpython.ledger import Ledger
from budget_cpython.ledger.journal import HourOfUsage, LedgerEvent
from budget_cpython.ledger.limit_parser import parse_limits
from budget_cpython.serve.app import make_app
from budget_cpython.web.keys import KeyFile
from tests_micro.support import FakeClock

NOON = 1_772_366_400  # 2026-03-01 12:00 UTC
HOUR = 3600
HOSTILE = "<script>alert(1)</script>"
VOID = {"meta", "link", "input", "br", "rect", "line", "polyline", "polygon", "path"}


class Node:
    """An element: its name, attributes, children and text."""

    def __init__(self, name: str, attributes: dict[str, str], parent: "Node | None") -> None:
        self.name, self.attributes, self.parent = name, attributes, parent
        self.children: list[Node | str] = []

    def walk(self) -> "Iterator[Node]":
        yield self
        for child in self.children:
            if isinstance(child, Node):
                yield from child.walk()

    def all(self, name: str, /, **attributes: str) -> "list[Node]":
        """Return the elements of a name that have these attributes."""
        return [
            one
            for one in self.walk()
            if one.name == name
            and all(one.attributes.get(key.rstrip("_")) == attributes[key] for key in attributes)
        ]

    def part(self, id: str) -> "Node":
        (found,) = [one for one in self.walk() if one.attributes.get("id") == id]
        return found

    @property
    def text(self) -> str:
        """All text in it, with blanks between elements and none beside one another."""
        parts = [child if isinstance(child, str) else f" {child.text} " for child in self.children]
        return re.sub(r"\s+", " ", "".join(parts)).strip()


class Document(HTMLParser):
    """A page of HTML; a tag that is not closed, or closes another, is an error."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.root = self._at = Node("", {}, None)
        self.feed(text)
        self.close()
        assert self._at is self.root, f"<{self._at.name}> is not closed"

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        node = Node(tag, {name: value or "" for name, value in attrs}, self._at)
        self._at.children.append(node)
        if tag not in VOID:
            self._at = node

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        self._at.children.append(Node(tag, {name: value or "" for name, value in attrs}, self._at))

    def handle_endtag(self, tag: str) -> None:
        assert self._at.name == tag, f"</{tag}> closes <{self._at.name}>"
        assert self._at.parent is not None
        self._at = self._at.parent

    def handle_data(self, data: str) -> None:
        self._at.children.append(data)


class Visitor:
    """A browser without script: it keeps cookies, and sends the headers that browsers send."""

    def __init__(self, app: Any, url: str = "http://localhost") -> None:
        self.app, self.url = app, url
        self.cookies = httpx.Cookies()
        self.base = "/microbudget/"

    def get(self, place: str = "", **headers: str) -> httpx.Response:
        return self.ask("GET", place, headers)

    def post(self, place: str, headers: Any = None, **fields: str) -> httpx.Response:
        """Send a form of the page."""
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        sent = {**kind, "Origin": self.url, "Sec-Fetch-Site": "same-origin", **(headers or {})}
        return self.ask("POST", place, sent, urlencode(fields).encode())

    def ask(self, method: str, place: str, headers: Any, body: bytes = b"") -> httpx.Response:
        return asyncio.run(self._ask(method, place, headers, body))

    async def _ask(self, method: str, place: str, headers: Any, body: bytes) -> httpx.Response:
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
        async with httpx.AsyncClient(
            transport=transport, base_url=self.url, cookies=self.cookies
        ) as client:
            target = place if place.startswith("/") else self.base + place
            answer = await client.request(method, target, headers=headers, content=body)
            self.cookies = client.cookies
        return answer

    def see(self, place: str = "") -> Node:
        """Return a page that is shown."""
        answer = self.get(place)
        assert answer.status_code == 200, answer.text
        return Document(answer.text).root

    def token(self, place: str = "account/acme") -> str:
        """Return what a form of the page has."""
        found = [one.attributes["value"] for one in self.see(place).all("input", name="token")]
        return found[0]

    def sign_in(self, key: str) -> Self:
        answer = self.post("sign-in", key=key)
        assert answer.status_code == 303, answer.text
        return self


def make_ledger(clock: Any = None) -> Ledger:
    """Return a ledger at noon: an organization, a team that spends too fast, an agent over."""
    ledger = Ledger(clock or FakeClock(NOON))
    ledger.set_limits("acme", parse_limits("$60/day + 20k calls/day"))
    ledger.set_limits("acme/lab", parse_limits("$10/day"))
    ledger.set_limits("acme/lab/ann", parse_limits("$1/day + 300 calls/hour"))
    ledger.set_limits("acme/ops", [*parse_limits("$4/day"), Limit("calls", None, "day")])
    ledger.set_limits("other", parse_limits("$7/month"))
    ledger.charge("acme/lab/ann", {"usd": "1.25", "tokens": 9000, "calls": 12}, "c1")
    ledger.charge("acme/lab", {"usd": "6.75"}, "c2")
    ledger.charge("other", {"usd": "3"}, "c3")
    ledger.reserve("acme/ops", {"usd": "0.50", "calls": 1}, "h1")
    return ledger


def note_a_day(ledger: Ledger, model: str = "gpt-5", tool: str = "search") -> None:
    """Have the ledger know the usage of four hours, refusals, and changes."""
    ledger.add_usage(
        [
            HourOfUsage(NOON - 2 * HOUR, "acme/lab/ann", model, "", used(1_000_000_000, 8000, 9)),
            HourOfUsage(NOON - HOUR, "acme/lab/ann", model, "", used(250_000_000, 1000, 3)),
            HourOfUsage(NOON - HOUR, "acme/lab", "small", "", used(6_750_000_000, 70_000, 40)),
            HourOfUsage(NOON, "acme/lab", "", tool, {"tool_calls": 4}),
            HourOfUsage(NOON - 30 * HOUR, "acme/ops", "yesterday", "", used(1, 1, 1)),
        ]
    )
    dead: dict[str, object] = {"of": "threshold/x", "number": 1, "to": "ops", "attempt": 7}
    dead |= {"state": "dead", "until": NOON, "reason": "HTTP 500"}
    limit = {"account": "acme/lab/ann", "axis": "nano_usd", "window": "day", "cap": 10**9}
    limit |= {"spent": 1_250_000_000, "held": 0, "resets_at": NOON + 12 * HOUR}
    above = {**limit, "account": "acme/lab", "cap": 10**10, "spent": 8 * 10**9}
    before, after = [["nano_usd", 3 * 10**9, "day"]], [["nano_usd", 4 * 10**9, "day"]]
    ledger.note(
        [
            LedgerEvent("refused", "acme/lab/ann", {"limit": limit, "asked": 30_000_000}),
            LedgerEvent("refused", "acme/lab/ann", {"limit": above, "asked": None, "times": 4}),
            LedgerEvent("limits", "acme/ops", {"before": before, "after": after, "by": "key eve"}),
            LedgerEvent("alert", "acme/lab", dead, "alert/1/ops/7/dead"),
        ]
    )


def used(nano_usd: int, tokens: int, calls: int) -> dict[str, int]:
    return {"nano_usd": nano_usd, "tokens": tokens, "calls": calls}


def visit(ledger: Any, keys: KeyFile | None = None, clock: Any = None) -> Visitor:
    """Return a visitor of a service of a ledger."""
    return Visitor(make_app(ledger, keys, clock=clock or FakeClock(NOON)))
