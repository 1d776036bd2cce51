"""How a streamed answer is counted, and the usage of its call."""

from budget_core import BudgetError, ChatResponse
from budget_core.usage_estimate import estimate_tokens
from budget_core.usage_stream import AnswerTooLongError, StreamedAnswer, as_streamed
from tests_micro.support import raises, raises_async

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

HELLO: "list[dict[str, Any]]" = [{"role": "user", "content": "hello"}]
TOOLS: "list[dict[str, Any]]" = [{"name": "read"}]
USAGE = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
ZERO = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}


class Listener:
    """Someone who hears deltas."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    async def hear(self, text: str) -> None:
        """Take a delta."""
        self.heard.append(text)


async def received(*pieces: str) -> StreamedAnswer:
    """Return what has come once these pieces have."""
    answer = StreamedAnswer()
    for piece in pieces:
        await answer(piece)
    return answer


async def test_a_piece_is_kept_and_handed_on() -> None:
    listener = Listener()
    answer = StreamedAnswer(listener.hear)
    for piece in ("Grüße ", "😀", "!"):
        await answer(piece)
    assert listener.heard == answer.pieces == ["Grüße ", "😀", "!"]
    assert answer.text == "Grüße 😀!"


async def test_a_piece_is_counted_before_it_is_handed_on() -> None:
    counted = []

    async def look(text: str) -> None:
        counted.append((answer.tokens, answer.text))

    answer = StreamedAnswer(look)
    await answer("a")
    await answer("b")
    assert counted == [(1, "a"), (2, "ab")]


async def test_tokens_are_the_pieces_or_a_quarter_of_their_bytes() -> None:
    for pieces, tokens in (
        ((), 0),
        (("a",), 1),
        (("a", "b", "c"), 3),
        (("x" * 12,), 3),
        (("x" * 13,), 4),
        (("x" * 6, "y" * 7), 4),
        (("ä" * 8,), 4),
        (("", ""), 0),
    ):
        assert (await received(*pieces)).tokens == tokens, pieces


async def test_what_is_counted_only_is_neither_kept_nor_handed_on() -> None:
    listener = Listener()
    answer = StreamedAnswer(listener.hear)
    answer.count("x" * 12)
    assert (answer.tokens, answer.text, answer.pieces, listener.heard) == (3, "", [], [])
    StreamedAnswer(limit=0).count("")


async def test_an_empty_piece_is_handed_on_and_no_token() -> None:
    listener = Listener()
    answer = StreamedAnswer(listener.hear, limit=0)
    await answer("")
    assert listener.heard == [""]
    assert (answer.tokens, answer.pieces) == (0, [])


async def test_a_piece_that_is_no_text_is_handed_on_and_not_counted() -> None:
    listener: Any = Listener()
    answer: Any = StreamedAnswer(listener.hear)
    for odd in (None, 5, ["a"], b"a", True):
        await answer(odd)
    assert listener.heard == [None, 5, ["a"], b"a", True]
    assert (answer.tokens, answer.text) == (0, "")


async def test_the_piece_past_the_limit_is_counted_and_not_handed_on() -> None:
    for limit in (0, 1, 3):
        listener = Listener()
        answer = StreamedAnswer(listener.hear, limit)
        for _ in range(limit):
            await answer("ab")
        error = await raises_async(AnswerTooLongError, answer, "cd")
        assert isinstance(error, BudgetError)
        assert f"limit of {limit} tokens" in str(error)
        assert listener.heard == ["ab"] * limit
        assert answer.text == "ab" * limit + "cd"
        assert answer.tokens == limit + 1


async def cut_at(limit: int, piece: str, pieces: int = 100_000) -> "int | None":
    """Return the characters that came before such pieces were cut; `None` if they were not."""
    answer = StreamedAnswer(limit=limit)
    for number in range(pieces):
        try:
            answer.count(piece)
        except AnswerTooLongError:
            return (number + 1) * len(piece)
    return None


async def test_the_limit_holds_for_pieces_of_many_tokens() -> None:
    for piece in ("x" * 1000, "word " * 200, "слово " * 170, "ä" * 1000):
        for limit in (0, 100, 5000):
            found = await cut_at(limit, piece)
            assert found is not None
            assert found <= limit * 6 + 64 + len(piece), (limit, piece[:5])
    found = await cut_at(5000, "词" * 1000)
    assert found is not None
    assert found * 3 <= 5000 * 12 + 64 + 3000


async def test_a_single_piece_of_any_length_is_counted_and_cut() -> None:
    listener = Listener()
    answer = StreamedAnswer(listener.hear, limit=1000)
    await raises_async(AnswerTooLongError, answer, "x" * 100_000)
    assert (answer.tokens, listener.heard) == (25_000, [])


async def test_an_answer_within_its_limit_is_whole_in_any_language() -> None:
    # characters a token in a common tokenizer, rounded up
    for text, chars in (("word ", 5), ("слово ", 4), ("हिंदी ", 3), ("词", 2), ("ไทย", 3)):
        for limit in (1, 8, 100, 5000):
            long = text * limit
            assert await cut_at(limit, long[: limit * chars], 1) is None, (text, limit)
    assert await cut_at(1, "Donaudampfschifffahrtsgesellschaft", 1) is None


async def test_the_limit_holds_for_tokens_that_are_reported_meanwhile() -> None:
    answer = StreamedAnswer(limit=10)
    answer.usage = {"prompt_tokens": 90, "completion_tokens": 10, "total_tokens": 100}
    answer.count("ten tokens")
    answer.usage = {"prompt_tokens": 90, "completion_tokens": 11, "total_tokens": 101}
    raises(AnswerTooLongError, answer.count, "one more")
    for odd in ({"completion_tokens": -5}, {"completion_tokens": "99"}, 5, ["x"], {"prompt": 1}):
        answer = StreamedAnswer(limit=10)
        answer.usage = odd
        answer.count("still within")


async def test_without_a_limit_there_is_none() -> None:
    assert (await received(*["a"] * 500)).tokens == 500


def test_a_limit_that_is_none_is_refused() -> None:
    for odd in (-1, True, 1.5, "1", float("nan")):
        assert "limit" in str(raises(ValueError, StreamedAnswer, None, odd)), odd


async def test_the_usage_of_a_stream_without_a_report_is_an_estimate() -> None:
    answer = await received("x" * 12)
    for response in (None, "text", {"usage": USAGE}, ChatResponse("a"), object()):
        for tools in (None, TOOLS):
            usage = answer.usage_of(response, HELLO, tools)
            prompt = estimate_tokens(HELLO, tools)
            assert (usage.input, usage.output, usage.total) == (prompt, 3, prompt + 3), response
            assert usage.status == "estimated", response


async def test_a_providers_report_that_says_something_counts() -> None:
    for report in (USAGE, ZERO, {"total_tokens": -5}, {"total_tokens": "7"}):
        for pieces in ((), ("a",)):
            answer = await received(*pieces)
            answer.usage = report
            assert answer.usage_of(None, HELLO, None).status in ("measured", "invalid"), report
            answer = await received(*pieces)
            response = ChatResponse("a", usage=report)
            assert answer.usage_of(response, HELLO, None).status != "estimated", report


async def test_a_report_that_says_nothing_gives_way_to_an_estimate() -> None:
    for report in ({}, {"cost": 5}, {"total_tokens": None}):
        answer = await received("a")
        answer.usage = report
        response = ChatResponse("a", usage=report)
        assert answer.usage_of(response, HELLO, None).status == "estimated", report


async def test_the_answers_own_report_comes_before_the_streams() -> None:
    answer = await received("a")
    answer.usage = ZERO
    assert answer.usage_of(ChatResponse("a", usage=USAGE), HELLO, None).total == 7


async def test_the_usage_of_a_stream_of_which_nothing_came_is_missing() -> None:
    for pieces in ((), ("",)):
        for response in (None, ChatResponse("a")):
            answer = await received(*pieces)
            assert answer.usage_of(response, HELLO, None).status == "missing"


def test_a_counted_stream_is_not_counted_twice() -> None:
    listener = Listener()
    answer = as_streamed(listener.hear)
    assert as_streamed(answer) is answer
    assert isinstance(answer, StreamedAnswer)
