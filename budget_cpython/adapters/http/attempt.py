"""One HTTP attempt to a model: what is sent in its place, and what its answer used."""

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from budget_core.errors import BudgetError, DeadlineExceeded
from budget_core.usage_estimate import bytes_in
from budget_cpython.adapters.account import BudgetAccount
from budget_cpython.adapters.call import BudgetedCall
from budget_cpython.adapters.http.streams import sent_stream, watched_streams
from budget_cpython.adapters.provider_errors import EXTENSION, UnbilledError, as_settled
from budget_cpython.adapters.refusals import refusal
from budget_cpython.context.deadline import current_or_none
from budget_cpython.prices.listed_prices import provider_at
from budget_cpython.vendors.answers import Reader, WholeReader, whole_answer
from budget_cpython.vendors.body import LARGE
from budget_cpython.vendors.format import WireBody, WireFormat
from budget_cpython.vendors.registry import VENDORS, find_format
from budget_cpython.vendors.request import Admitted, UnreadableRequestError

COUNTED = "microbudget_counted"  # an attribute of what is sent in a request's place
_MOST_MODELS = 20
_LONGEST_NAME = 500  # bytes
_TIMEOUTS = ("connect", "read", "write", "pool")


@dataclass(frozen=True)
class Terms:
    """The accounts of one request: its extension `microbudget`, in the place of its client's own.

    `observer` and `as_asked` are those of `BudgetedCall`. `body` reads and writes a request's body:
    `WireBody`, or what does the same in another process.
    """

    accounts: Sequence[BudgetAccount]
    observer: Any = None
    as_asked: bool = False
    body: Callable[[WireFormat, bytes, str], Any] = WireBody


class HttpAttempt:
    """An HTTP attempt in a known wire format, and its model call.

    `httpx` is the package that the request is of: httpx or httpx2. `timeout` is its client's.
    """

    def __init__(
        self,
        httpx: Any,
        wire: WireFormat,
        request: Any,
        accounts: Sequence[BudgetAccount],
        timeout: Any,
    ) -> None:
        self._httpx = httpx
        self._wire = wire
        self._request = request
        self._timeout = timeout
        self._terms = request.extensions.get(EXTENSION) or Terms(accounts)
        self._deadline = current_or_none()
        self._reader: Reader | None = None

    def parse(self) -> None:
        """Read the request's body, in any thread; raises `UnreadableRequestError`."""
        request, url = self._request, self._request.url
        headers, content = request.headers, request.content
        if headers.get("authorization", "").startswith("AWS4-"):
            raise UnreadableRequestError("the request is signed, so that a budget cannot change it")
        kind = headers.get("content-type", "") if content.startswith(b"--") else ""  # of a form
        self._body = self._terms.body(self._wire, content, kind)
        self._asked = asked = self._body.read()
        _check_names((asked.model, *asked.models))
        place = f"{url.scheme}://{url.netloc.decode('ascii')}"
        vendor = provider_at(place + url.path)
        asked.vendor = vendor or asked.vendor
        if asked.deployment is not None or (
            vendor in VENDORS and VENDORS[vendor].names_deployments
        ):
            asked.deployed_at = place
        asked.identity = (url.host, url.path, content)

    def open(self) -> BudgetedCall:
        """Return the call that the request's body asks for."""
        terms = self._terms
        self.call = BudgetedCall(
            terms.accounts, self._asked, observer=terms.observer, as_asked=terms.as_asked
        )
        return self.call

    def sent(self, admitted: Admitted, streamed: bool) -> Any:
        """Return the request to send; a streamed answer has to come uncompressed.

        Raises `TooLittleLeftError` if the API does not take what is admitted.
        """
        request, url = self._request, self._request.url
        self._wire.check(admitted, self._asked)
        content = self._body.write(admitted, self._asked)
        if admitted.model != self._asked.model:
            _, mark, query = url.raw_path.partition(b"?")
            path = self._wire.path_for(admitted.model).encode()
            url = url.copy_with(raw_path=path + mark + query)
        sent = object.__new__(type(request))  # its constructor would read all headers again
        vars(sent).update(vars(request))
        sent.url = url
        sent.extensions = {**request.extensions, **self._timeouts()}
        sent.extensions.pop(EXTENSION, None)
        streamed = streamed or self._asked.stream
        if streamed or content is not request.content or "transfer-encoding" in request.headers:
            sent.headers = request.headers.copy()
            sent.headers["content-length"] = str(len(content))
            sent.headers.pop("transfer-encoding", None)
            if streamed:
                sent.headers["accept-encoding"] = "identity"
        if content is not request.content or len(content) > LARGE:
            sent.stream = sent_stream(self._httpx)(content)
            sent._content = content  # the client's hooks may ask for it
        setattr(sent, COUNTED, True)
        return sent

    def _timeouts(self) -> dict[str, Any]:
        """Return the request's timeouts, none of which ends after the deadline."""
        if self._deadline is None:
            return {}
        self._deadline.check_or_raise()
        left = max(0.001, self._deadline.remaining_seconds())  # zero would not wait at all
        known = self._request.extensions.get("timeout") or self._timeout.as_dict()
        given = {name: known.get(name) for name in _TIMEOUTS}
        lower = {name: left if given[name] is None else min(left, given[name]) for name in given}
        return {"timeout": lower}

    def refused(self, error: BudgetError) -> Any:
        """Return the answer in the model's place; its extension `microbudget` is the error."""
        answer = refusal(self._wire.vendor, error)
        return self._httpx.Response(
            answer.status,
            headers=answer.headers,
            content=json.dumps(answer.body).encode(),
            request=self._request,
            extensions={EXTENSION: error},
        )

    def late(self, error: Exception) -> DeadlineExceeded | None:
        """Return the deadline's error if the deadline is why a call ended with this one."""
        is_late = isinstance(error, (DeadlineExceeded, self._httpx.TimeoutException))
        if not is_late or self._deadline is None or not self._deadline.is_expired():
            return None
        late = error if isinstance(error, DeadlineExceeded) else DeadlineExceeded(self._deadline)
        late.sent = getattr(as_settled(error), "sent", True)  # type: ignore[attr-defined]
        return late

    def raise_if_late(self, error: Exception) -> None:
        """Raise the deadline's error if the deadline is why a stream ended with another one."""
        late = self.late(error)
        if late is not None and late is not error:
            raise late from error

    def count_read(self, response: Any, streamed: bool) -> bool:
        """Count a stream that a hook of the client, or its transport, has read already.

        Return whether it has.
        """
        try:
            content = response.content
        except self._httpx.ResponseNotRead:
            return False
        if not (streamed or self._asked.stream):
            return False  # a whole answer is read when it is there
        self._reader = self._reader_of(response)
        passed = self._counted(self._reader.feed(content))
        response._content = b"".join([*passed, *self.rest()])
        return True

    def begin_reading(self, response: Any, streamed: bool) -> None:
        """Have an answer's bytes pass through here.

        Those of a stream are read as they come; a whole answer may be compressed, and is read when
        it is there.
        """
        if streamed or self._asked.stream:
            self._reader = self._reader_of(response)
            if response.headers.get("content-encoding", "identity") != "identity":
                self._reader = WholeReader(self._wire.answer)  # unread: it was asked not to be
            response.headers.pop("content-length", None)  # not all is passed on
        kinds = watched_streams(self._httpx)
        is_async = isinstance(response.stream, self._httpx.AsyncByteStream)
        response.stream = kinds[is_async](response.stream, self)

    def pass_on(self, data: bytes) -> list[bytes]:
        """Count the next bytes and return those to pass on; raises `DeadlineExceeded`."""
        if self._deadline is not None:
            self._deadline.check_or_raise()
        if self._reader is None:
            return [data]
        return self._counted(self._reader.feed(data))

    def rest(self) -> list[bytes]:
        """Return the bytes that are left at the end."""
        return [] if self._reader is None else self._counted(self._reader.end())

    def _counted(self, pieces: Any) -> list[bytes]:
        for piece in pieces:
            self.call.on_text(piece.text)
        if self._reader is not None and self._reader.report is not None:
            self.call.report = self._reader.report
        return [piece.raw for piece in pieces if piece.passed]

    @property
    def is_streamed(self) -> bool:
        """Whether the answer is read as it comes."""
        return self._reader is not None

    @property
    def is_complete(self) -> bool:
        """Whether all of a stream that matters has come."""
        return self._reader is not None and self._reader.final

    def answer(self, response: Any = None) -> Any:
        """Return the answer: that of the stream that was read, or of a whole response."""
        if self._reader is not None:
            return self._reader.response()
        found = whole_answer(response.content, self._wire.answer)
        if found is None:  # a stream that was not asked for, or no answer of a model
            reader = self._reader_of(response)
            reader.feed(response.content)
            reader.end()
            found = reader.response()
        return found

    def _reader_of(self, response: Any) -> Reader:
        return self._wire.reader(self._asked, response.headers.get("content-type", ""))

    @staticmethod
    def unbilled(response: Any) -> UnbilledError:
        """Return the error by which a refused call is settled."""
        return UnbilledError(f"refused with status {response.status_code}")


def _check_names(models: Sequence[str]) -> None:
    """Raise `UnreadableRequestError` for names of models that would take long to look up."""
    if len(models) > _MOST_MODELS:
        raise UnreadableRequestError(f"the request names more than {_MOST_MODELS} models")
    if max(map(bytes_in, models)) > _LONGEST_NAME:
        raise UnreadableRequestError(
            f"the request names a model by more than {_LONGEST_NAME} bytes"
        )


def format_of(request: Any) -> WireFormat | None:
    """Return the format of a request that is to be held; `None` for all others.

    What a request costs something for is known by its path, and at a vendor's server for any path.
    A request that names its own accounts is for a vendor.
    """
    path = request.url.raw_path.partition(b"?")[0].decode("ascii")
    url = request.url
    at_vendor = EXTENSION in request.extensions or (
        request.method == "POST" and _is_models(f"{url.scheme}://{url.host}{url.path}")
    )
    wire = find_format(request.method, path, at_vendor)
    return wire if wire is not None and wire.held else None


def _is_models(url: str) -> bool:
    """Tell whether a URL is one of a vendor of models, and not one of its other services."""
    vendor = provider_at(url)
    known = VENDORS.get(vendor or "")
    models_at = None if known is None else known.models_at
    return vendor is not None and (models_at is None or models_at.match(url) is not None)


def package_of(client: Any) -> Any:
    """Return the package that a client is of: httpx or httpx2."""
    for kind in type(client).__mro__:
        root = kind.__module__.partition(".")[0]
        if root in ("httpx", "httpx2"):
            return sys.modules[root]
    raise ValueError(f"client must be one of httpx or httpx2, not {client!r}")
