"""The requests and answers of the service as types: they read, write and describe its JSON."""

from typing import Annotated, Any

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from budget_core.ledger.bucket import COMMITTED, EXPIRED, HELD, RELEASED
from budget_core.ledger.checks import MAX_LIMITS
from budget_cpython.ledger.error_answers import LEDGER_ERRORS
from budget_cpython.ledger.http_batches import MOST
from budget_cpython.serve.field_types import (
    AMOUNT,
    AXIS,
    BY_AXIS,
    DIGITS,
    LIMIT_KINDS,
    Actual,
    Asked,
    At,
    Axis,
    Count,
    Counted,
    Hour,
    Id,
    Json,
    Key,
    Left,
    Name,
    Next,
    Path,
    Text,
    Ttl,
    Used,
    Wait,
    Window,
    like,
)
from budget_cpython.web.error_responses import HTTP_ERRORS


class Fields(Struct, forbid_unknown_fields=True):
    """The fields of a request, or of an object in it: another one is refused."""


class NoFields(Fields):
    """A request without fields."""


class ReserveRequest(Fields):
    """Amounts to hold."""

    amounts: Asked
    key: Key = None
    ttl: Ttl = None
    wait: Wait = None


class ChargeRequest(Fields):
    """Amounts that were spent."""

    amounts: Used
    key: Key = None


class CommitRequest(Fields):
    """A hold and what its call used."""

    id: Id
    actual: Actual = None


class RenewRequest(Fields):
    """A hold, what its call used, and the amounts of the next one."""

    id: Id
    amounts: Asked
    actual: Actual = None
    key: Key = None
    ttl: Ttl = None


class HoldRequest(Fields):
    """The name of a hold."""

    id: Id


class ExtendRequest(Fields):
    """A hold and how long it lives on."""

    id: Id
    ttl: Ttl = None


class HoldReply(Struct):
    """A hold, or a charge."""

    path: Path
    id: Annotated[Id, Meta(description="its key, or the one that the service made")]
    amounts: Counted
    state: Annotated[str, like(enum=[HELD, COMMITTED, RELEASED, EXPIRED])]
    expires_at: Annotated[At | None, Meta(description="Unix seconds; null for a charge")]
    actual: Annotated[
        Counted | None,
        Meta(description="the amounts that count as spent; null while it is held"),
    ]


class LimitRow(Fields):
    """What an account may use of one axis in one window."""

    axis: Axis
    cap: Annotated[Any, like("null for unlimited, 0 for nothing; usd is shown as nano_usd")]
    window: Window = "run"


Limits = Annotated[
    list[Annotated[LimitRow, like(anyOf=LIMIT_KINDS)]],
    like("no two with the same axis and window", maxItems=MAX_LIMITS, uniqueItems=True),
]


class LimitsRequest(Fields):
    """All limits of an account."""

    limits: Limits


class LimitsReply(Struct):
    """All limits of an account."""

    limits: Limits


class BalanceRow(Struct):
    """What is spent, held and left of a limit."""

    account: Path
    axis: Axis
    window: str
    limit: Annotated[Count | None, Meta(description="null for unlimited")]
    spent: Count
    held: Count
    left: Left
    debt: Annotated[Count, Meta(description="the amount used above the limit")]
    begins_at: At
    resets_at: Annotated[At | None, Meta(description="null for a window that never ends")]


class BalancesReply(Struct):
    """Balances of an account."""

    balances: list[BalanceRow]


class BalancesPage(Struct):
    """Balances of many accounts."""

    balances: list[BalanceRow]
    next: Next


class AfterQuery(Fields):
    """Where a page begins."""

    after: Annotated[str, like("the `next` of the previous page")] = ""


class AccountsReply(Struct):
    """Paths of accounts."""

    accounts: list[Path]
    next: Next


class DeviceRow(Struct):
    """A device's last report."""

    account: Path
    seen_at: Annotated[At, Meta(description="its last contact, in Unix seconds, to a minute")]
    spent: Annotated[Count, Meta(description="the tokens that its own day had used then")]
    cap: Annotated[Count | None, Meta(description="of its own day; null for unlimited")]
    resets_at: Annotated[At, Meta(description="the end of its own day; 0 if it is not known")]
    left: Annotated[
        dict[Axis, Count],
        Meta(description="the least that its account has left of each axis that is limited"),
    ]


class DevicesReply(Struct):
    """Devices that reported."""

    devices: list[DeviceRow]
    next: Next


class MostQuery(Fields):
    """How much is asked for."""

    most: Annotated[str, like("how many at most, up to 1,000", pattern=DIGITS)] = "1000"


class OpenHoldRow(Struct):
    """A hold that is not settled."""

    path: Path
    id: Annotated[str, Meta(description="the id by which the ledger knows it")]
    amounts: Counted
    taken_at: Annotated[At, Meta(description="Unix seconds; 0 if it is not known")]
    expires_at: At


class OpenHoldsReply(Struct):
    """Holds that are not settled."""

    holds: list[OpenHoldRow]


_AFTER = "a number: the first events above it; else the last ones"


class EventsQuery(MostQuery):
    """Which events are asked for."""

    kinds: Annotated[str, like("with commas between; else all", pattern=r"^[^\x00]*$")] = ""
    after: Annotated[str, like(_AFTER, pattern=DIGITS)] | UnsetType = UNSET


class EventRow(Struct):
    """Something that happened to an account."""

    kind: str
    account: Annotated[str, Meta(description="a path; empty for the whole ledger")]
    details: Json
    name: Annotated[str, Meta(description="one that only one event has; empty for none")]
    at: At
    number: Annotated[Count, Meta(description="its place in the log")]


class EventsReply(Struct):
    """Events of accounts."""

    events: list[EventRow]


class NewEvent(Fields):
    """An event to note."""

    kind: Name
    details: Json = {}
    name: Annotated[Text, Meta(description="one that only one event of the ledger has")] = ""


class EventsRequest(Fields):
    """Events to note."""

    events: list[NewEvent]


class NumbersReply(Struct):
    """The places of events in the log."""

    numbers: list[Annotated[Count, Meta(description="0 for a name that is known already")]]


class UsageQuery(Fields):
    """Where a page of usage begins."""

    since: Annotated[
        str,
        like("the Unix second of the first hour; later the `next` of a page", pattern=DIGITS),
    ] = "0"


class UsageRow(Struct):
    """The usage of one model, or of one tool, on a path within an hour."""

    hour: Hour
    path: Path
    model: str
    tool: str
    amounts: Counted


class UsageReply(Struct):
    """Usage of accounts."""

    usage: list[UsageRow]
    next: Annotated[At | None, Meta(description="`since` for the next page; null on the last")]


class NewUsage(Fields):
    """Usage to add."""

    hour: Hour
    amounts: Annotated[Json, like(BY_AXIS, propertyNames=AXIS, additionalProperties=AMOUNT)]
    model: Text = ""
    tool: Text = ""


class UsageRequest(Fields):
    """Usage to add."""

    rows: list[NewUsage]


class AddedReply(Struct):
    """How many rows were added."""

    added: Count


class ExpiredReply(Struct):
    """How many holds were counted as spent."""

    expired: Count


_OPERATIONS = "each with `operation`, its name, `path`, its account, and the fields of its own \
request but `wait`; a malformed one is answered 422 in its place"


class BatchRequest(Fields):
    """Operations to do."""

    operations: Annotated[list[Raw], like(_OPERATIONS, maxItems=MOST)]


class OperationAnswer(Struct):
    """The answer that a single request would have had."""

    status: int
    answer: Any


class BatchReply(Struct):
    """An answer to each operation, in their order."""

    answers: list[OperationAnswer]


class StatusReply(Struct):
    """Whether the service, or its engine, answers."""

    status: Annotated[str, like(enum=["ok", "unavailable"])]


_WORDS = {word for _, word, _ in LEDGER_ERRORS.values()} | {*HTTP_ERRORS.values()}
_APPLIED = "of `ledger_unavailable`: false if nothing was done, null if that is unknown; the same \
request with the same key is safe to repeat"


class ErrorReply(Struct):
    """Why a request was refused; a refusal by a limit has the figures of that limit too."""

    error: Annotated[str, like(enum=sorted(_WORDS | {"ledger_error", "refused"}))]
    message: Annotated[str, Meta(description="for people")]
    applied: Annotated[Any, like(_APPLIED, enum=[False, None])] = UNSET
