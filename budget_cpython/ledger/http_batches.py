"""Requests to a service that go together, as `POST /v1/batch`."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, NamedTuple

from budget_core.ledger.errors import LedgerUnavailableError
from budget_cpython.ledger.operations import TOGETHER

MOST = 1000  # operations of a batch
_MAX_BODY = 1_000_000  # bytes: the service reads 1 MiB
_ANSWER = 2048  # bytes that the answer of an operation may have
_START, _END = b'{"operations": [', b"]}"

Answer = tuple[int, Any]  # the status, and what it says
AnswerTo = Callable[[str, str, bytes, float], Awaitable[Answer]]


class BatchedRequest(NamedTuple):
    """A request that may go together with others."""

    path: str
    body: bytes
    row: bytes  # the same, as an operation of a batch


def asked_of(start: str, method: str, path: str, body: bytes) -> BatchedRequest | None:
    """Return a request that may go together with others, or `None`.

    `start` is what the URLs of all operations begin with.
    """
    operation, _, account = path.removeprefix(start).partition("/")
    if method != "POST" or operation not in TOGETHER or len(body) < len('{"":0}'):
        return None
    named = f'{{"operation": "{operation}", "path": "{account}", '.encode()
    return BatchedRequest(path, body, named + body[1:])


def most_within(max_answer: int) -> int:
    """Return how many operations a batch may have, for an answer of so many bytes."""
    return min(MOST, max(1, max_answer // _ANSWER))


async def answers_to(
    asked: Sequence[BatchedRequest], start: str, answer_to: AnswerTo
) -> list[Answer | Exception]:
    """Return the answers to requests in their order; an error in the place of a lost one."""
    found: list[Answer | Exception] = []
    for part in _parts(asked):
        try:
            if len(part) == 1:
                found.append(await answer_to("POST", part[0].path, part[0].body, 0))
            else:
                found += await _of_batch(part, start, answer_to)
        except LedgerUnavailableError as error:
            # Each is raised, and changed, where it was asked for.
            found += [LedgerUnavailableError(str(error), error.cause, error.applied) for _ in part]
    return found


async def _of_batch(
    part: Sequence[BatchedRequest], start: str, answer_to: AnswerTo
) -> list[Answer]:
    body = _START + b", ".join(one.row for one in part) + _END
    status, said = await answer_to("POST", f"{start}batch", body, 0)
    if status != 200:
        return [(status, said)] * len(part)
    try:
        answers = [(row["status"], row["answer"]) for row in said["answers"]]
    except (KeyError, TypeError):
        answers = []
    if len(answers) != len(part):
        text = "the ledger: what answered at its URL is something else"
        raise LedgerUnavailableError(text, None, None)
    return answers


def _parts(asked: Sequence[BatchedRequest]) -> Iterator[list[BatchedRequest]]:
    """Yield requests in parts that fit into a body each."""
    part: list[BatchedRequest] = []
    size = 0
    for one in asked:
        if part and size + len(one.row) > _MAX_BODY:
            yield part
            part, size = [], 0
        part.append(one)
        size += len(one.row) + 2
    if part:
        yield part
