"""How a run streams, and what is counted of a stream that ends early."""

import asyncio

from budget_core.agent.budget import Budget
from budget_core.errors import BudgetError, ProviderError
from tests_micro.script import SHOUT, USAGE, play, prepare, says

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def pieces(*texts: str, then: "Any" = None) -> "Any":
    """Return an answer that streams those texts, then ends: by itself, or by an error."""

    async def answer(asked: "Any") -> "Any":
        for text in texts:
            await asked["on_delta"](text)
        if isinstance(then, BaseException):
            raise then
        return then or says("".join(texts))

    return answer


async def test_each_piece_is_an_event() -> None:
    played = await play(pieces("Hel", "lo."), stream=True)
    assert [one["text"] for one in played.diary.of("delta")] == ["Hel", "lo."]
    assert (played.result.text, played.result.usage["tokens"]) == ("Hello.", 100)
    assert played.result.usage["estimated"] == 0


async def test_what_does_not_stream_is_not_asked_to() -> None:
    asked: list[Any] = []

    def answer(options: "Any") -> "Any":
        asked.append("on_delta" in options)
        return says("Hi.")

    await play(answer)
    await play(answer, stream=True)
    assert asked == [False, True]
    played = prepare(answer, stream=True)
    played.script.supports_response_deltas = False
    await played.run.finish()
    assert (asked, played.result.text) == ([False, True, False], "Hi.")


async def test_a_stream_that_breaks_off_is_counted_by_an_estimate_and_its_text_kept() -> None:
    for trouble in (ProviderError(200, "It broke off."), ProviderError(500, "Oops."), OSError(5)):
        answers = SHOUT, pieces("Once ", "upon", then=trouble)
        played = await play(*answers, stream=True, session_id="s1")
        assert played.reason.kind == "provider_error"
        assert played.result.text == "Once upon"
        assert played.result.messages[-1] == {"role": "assistant", "content": "Once upon"}
        usage = played.result.usage
        assert usage["estimated"] == 1
        assert usage["tokens"] > 102
        assert played.diary.of("response_failed")[0]["usage"]["completion_tokens"] == 3
        assert played.result.state.output_tokens == 13


async def test_a_stream_without_a_report_is_counted_by_an_estimate() -> None:
    played = await play(pieces("a", "b", "c", then=says("abc", usage=None)), stream=True)
    report = played.diary.of("response")[0]["usage"]
    assert (report["completion_tokens"], report["estimated"]) == (3, True)
    assert played.result.usage["estimated"] == 1


async def test_a_provider_that_ignores_its_limit_is_cut() -> None:
    many = pieces(*["word "] * 50)
    played = await play(many, budget=Budget(max_tokens_per_turn=3), stream=True)
    assert len(played.diary.of("delta")) == 3
    assert played.figures == ("token_budget", "completion tokens", 5, 3, 0, "run")
    assert played.result.text == "word " * 4
    assert played.diary.of("response")[0]["usage"]["completion_tokens"] == 5
    assert played.result.usage["estimated"] == 1


async def test_a_provider_is_cut_also_where_it_wraps_our_error_in_its_own() -> None:
    async def wraps(asked: "Any") -> "Any":
        try:
            for _ in range(9):
                await asked["on_delta"]("word ")
        except BudgetError:
            pass
        raise OSError(5)

    played = await play(wraps, budget=Budget(max_tokens_per_turn=3), stream=True)
    assert played.figures == ("token_budget", "completion tokens", 5, 3, 0, "run")
    assert played.result.text == "word " * 4


async def test_a_stream_past_the_limit_ends_before_the_budget_is_passed_by_much() -> None:
    many = pieces(*["x"] * 5_000)
    played = await play(many, budget=Budget(max_tokens=100), stream=True)
    assert played.script.limits[0] == 90
    prompt = played.diary.of("response")[0]["usage"]["prompt_tokens"]
    assert played.result.usage["tokens"] == prompt + 91


async def test_a_stream_of_long_pieces_passes_its_budget_by_half_at_most() -> None:
    many = pieces(*["x" * 1000] * 260)
    played = await play(many, budget=Budget(max_tokens_per_turn=5_000), stream=True)
    assert played.reason.kind == "token_budget"
    assert len(played.diary.of("delta")) == 30
    assert played.diary.of("response")[0]["usage"]["completion_tokens"] == 31 * 250


async def test_a_stream_that_is_stopped_in_flight_keeps_what_came() -> None:
    async def hangs(asked: "Any") -> None:
        await asked["on_delta"]("Once")
        played.run.cancel("Enough.")
        await asyncio.Event().wait()

    played = prepare(SHOUT, hangs, stream=True)
    await played.run.finish()
    assert (played.reason.kind, played.result.text) == ("cancelled", "Once")
    assert played.result.usage["estimated"] == 1
    assert played.run.budget.tokens.held == 0


async def test_what_came_of_two_calls_that_broke_off_is_kept_of_both() -> None:
    played = await play(
        pieces("Once", then=OSError(5)),
        pieces("upon", then=OSError(5)),
        stream=True,
        fallback_model="other",
    )
    assert played.result.text == "Once\n\nupon"
    assert played.script.sent[1][1] == {"role": "assistant", "content": "Once"}
    assert played.result.usage["turns"] == 2


async def test_an_empty_last_answer_leaves_what_came_before() -> None:
    played = await play(
        pieces("Once", then=OSError(5)), says("", usage=USAGE), stream=True, fallback_model="other"
    )
    assert played.result.text == "Once"
    assert played.result.messages[-1] == {"role": "assistant", "content": "Once"}
