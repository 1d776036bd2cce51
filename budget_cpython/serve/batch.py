"""Many operations in one request, each answered as if it came in a request of its own."""

import asyncio
import json
from typing import Any

from msgspec import DecodeError, Raw, ValidationError
from msgspec.json import Decoder
from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

from budget_core.errors import refuse
from budget_core.ledger.checks import root
from budget_cpython.ledger.http_batches import MOST
from budget_cpython.ledger.operations import TOGETHER
from budget_cpython.serve.field_types import Json
from budget_cpython.serve.messages import (
    BatchReply,
    BatchRequest,
    OperationAnswer,
    ReserveRequest,
)
from budget_cpython.serve.operations import SERVED, AuthorizedRequest
from budget_cpython.serve.reading import read
from budget_cpython.serve.service import LedgerService, authorize
from budget_cpython.web.error_responses import JsonReply
from budget_cpython.web.keys import Key
from budget_cpython.web.request_body import (
    MAX_BYTES,
    TOO_DEEP,
    check_type,
    headers_of,
    parse_object,
    read_batch,
    squeeze,
)

AT_ONCE = 25  # operations, after which requests of others have their turn
NAMES = (*TOGETHER, "hold")
_MOST_BYTES = MAX_BYTES + 1024  # a request's body, with the operation and its path
_FORM = '{"operations": [{"operation": "release", "path": "org/lab", …}, …]}'


class BatchEndpoint:
    """The ASGI app of batches."""

    def __init__(self, service: LedgerService) -> None:
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check the request's key, only then read its body, and answer each operation."""
        reply = await self._reply(scope, receive)
        if reply is not None:
            await reply(scope, receive, send)

    async def _reply(self, scope: Scope, receive: Receive) -> JsonReply | None:
        headers = headers_of(scope)
        key: Key | None = None
        is_read = False
        try:
            key = await self._service.enter(headers)
            body = await read_batch(scope, receive)
            is_read = True
            if body is None:
                return None
            if "idempotency-key" in headers:
                raise ValueError("give each operation of a batch its own key, not Idempotency-Key")
            check_type(headers)
            answers: list[OperationAnswer] = []
            rows = _operations(body)
            for begin in range(0, len(rows), AT_ONCE):  # others are answered in between
                answers += await self._answers(key, rows[begin : begin + AT_ONCE])
            return JsonReply(200, BatchReply(answers))
        except Exception as error:  # noqa: BLE001 - each becomes an answer
            reply = self._service.refused(error, key)
            if not is_read:
                reply.headers["Connection"] = "close"
            return reply

    async def _answers(self, key: Key | None, rows: list[Raw]) -> list[OperationAnswer]:
        """Return the answer of each operation; those of one root are done in their order.

        A ledger that keeps their order has all of them at once; else each root's wait in line.
        """
        parsed = list(map(_parse, rows))
        if self._service.ledger.keeps_order:
            return await asyncio.gather(*(self._one(key, row) for row in parsed))
        answers: list[Any] = [None] * len(rows)
        lines: dict[str, list[int]] = {}
        for number, row in enumerate(parsed):
            path = row.get("path") if isinstance(row, dict) else None
            lines.setdefault(root(path) if isinstance(path, str) else "", []).append(number)

        async def follow(line: list[int]) -> None:
            for number in line:
                answers[number] = await self._one(key, parsed[number])

        await asyncio.gather(*map(follow, lines.values()))
        return answers

    async def _one(self, key: Key | None, fields: Json | ValueError) -> OperationAnswer:
        try:
            if isinstance(fields, ValueError):
                raise fields
            name, path = fields.pop("operation", None), fields.pop("path", "")
            if not isinstance(name, str) or name not in NAMES:
                refuse("operation", f"one of {', '.join(NAMES)}", name)
            operation = SERVED[name]
            path = authorize(operation, key, path)
            asked = read(operation.request, fields)
            if isinstance(asked, ReserveRequest) and asked.wait is not None:
                raise ValueError("a batch does not wait: send `wait` in a request of its own")
            ledger, devices = self._service.ledger, self._service.devices
            call = AuthorizedRequest(ledger, key, path, devices)
            return OperationAnswer(200, await self._service.done(operation.handler(call, asked)))
        except Exception as error:  # noqa: BLE001 - each becomes an answer
            reply = self._service.refused(error, key)
            return OperationAnswer(reply.status, reply.answer)


def _operations(body: bytes) -> list[Raw]:
    """Return the JSON of each operation; the bodies of single requests are no larger."""
    try:
        rows = _decode(body).operations
    except ValidationError as error:
        raise ValueError(f"a batch must be like {_FORM}") from error
    except RecursionError as error:
        raise HTTPException(400, TOO_DEEP) from error
    except DecodeError:
        rows = _read_slowly(body)
    else:
        if squeeze(body) != squeeze(b'{"operations":[%s]}' % b",".join(rows)):
            raise HTTPException(400, f"a batch must have its name once, as in {_FORM}")
    if len(rows) > MOST:
        text = f"a batch must have at most {MOST} operations, not {len(rows)}"
        raise ValueError(text)
    return rows


def _read_slowly(body: bytes) -> list[Raw]:
    """Return the JSON of operations of which one has half a surrogate pair, or NaN.

    The body of a single request may have it too, and it is that operation's own fault.
    """
    fields = parse_object(body)
    rows = fields.get("operations")
    if len(fields) > 1 or not isinstance(rows, list):
        raise ValueError(f"a batch must be like {_FORM}")
    return [Raw(json.dumps(row).encode()) for row in rows]


def _parse(row: Raw) -> Json | ValueError:
    """Return an operation, or why it is none."""
    text = bytes(row)
    if len(text) > _MOST_BYTES:
        return ValueError(f"an operation must have at most {_MOST_BYTES} bytes")
    try:
        return parse_object(text)
    except HTTPException as error:
        return ValueError(error.detail)


_decode = Decoder(BatchRequest).decode
