"""Read a request's JSON: little, soon, and nothing that two readers could read two ways."""

import asyncio
import json
from typing import Any

from starlette.requests import ClientDisconnect, Request

from budget_core.ledger.limit import MOST
from budget_cpython.serve.refusals import Refusal

MAX_BYTES = 16_384
_MAX_DIGITS = 20


async def read_object(request: Request, timeout_s: float) -> dict[str, Any]:
    """Return the JSON object in a request's body; `Refusal` where there is anything else."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Refusal(415, "send JSON, with the header Content-Type: application/json")
    return parse_object(await _read(request, timeout_s))


async def _read(request: Request, timeout_s: float) -> bytes:
    length = request.headers.get("content-length", "0")
    if not (length.isascii() and length.isdigit() and len(length) < 16):
        raise Refusal(400, "Content-Length must be a number")
    data = b""
    try:
        async with asyncio.timeout(timeout_s):
            if int(length) > MAX_BYTES:
                raise _too_large()
            async for piece in request.stream():
                data += piece
                if len(data) > MAX_BYTES:
                    raise _too_large()
    except TimeoutError as error:
        text = f"the request was not there within {timeout_s:g} s"
        raise Refusal(408, text, Connection="close") from error
    except ClientDisconnect as error:
        raise Refusal(400, "the request broke off") from error
    return data


def _too_large() -> Refusal:
    return Refusal(413, f"a request has at most {MAX_BYTES} bytes", Connection="close")


def parse_object(data: bytes) -> dict[str, Any]:
    """Return the object that some JSON is; `Refusal` for what is none, or says a name twice."""
    try:
        found = json.loads(
            data.decode(),
            object_pairs_hook=_once,
            parse_constant=_no_number,
            parse_int=_whole_number,
            parse_float=_number,
        )
    except RecursionError as error:
        raise Refusal(400, "the request's JSON is nested too deeply") from error
    except ValueError as error:
        raise Refusal(400, f"the request is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise Refusal(400, "the request must be a JSON object")
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("an object says a name twice")
    return found


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is no number in JSON")


def _whole_number(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise ValueError(f"a number of {len(digits)} digits")
    return int(digits)


def _number(text: str) -> float:
    """Return 5.0 as 5: to JSON, and to languages with one kind of number, they are the same."""
    value = float(text)
    return int(value) if value.is_integer() and abs(value) <= MOST else value
