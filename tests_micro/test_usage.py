"""What a provider's usage report costs a budget, however it is written or broken."""

from budget_core import (
    Budget,
    BudgetWrapper,
    ChatResponse,
    DailyBudgetConfig,
    DailyBudgetTracker,
    Price,
    TurnBudgetConfig,
    TurnBudgetTracker,
)
from budget_core.provider import usage_of
from budget_core.usage import Usage, read_usage
from tests_micro.script import QUESTION, Script, play, says
from tests_micro.support import unclear

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NAN = float("nan")
INF = float("inf")
ATTACKS: "tuple[Any, ...]" = (
    -5,
    NAN,
    INF,
    -INF,
    "12",
    True,
    [1],
    {},
    12.5,
    1e308,
    2**63,
    10**5000,
    object(),
)

OPENAI: "dict[str, Any]" = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
ESTIMATE = dict(OPENAI, estimated=True)
RESPONSES: "dict[str, Any]" = {
    "input_tokens": 100,
    "output_tokens": 20,
    "total_tokens": 120,
    "input_tokens_details": {"cached_tokens": 50},
    "output_tokens_details": {"reasoning_tokens": 7},
}
ANTHROPIC: "dict[str, Any]" = {
    "input_tokens": 10,
    "output_tokens": 5,
    "cache_read_input_tokens": 1000,
    "cache_creation_input_tokens": 200,
}
GEMINI: "dict[str, Any]" = {
    "promptTokenCount": 100,
    "candidatesTokenCount": 20,
    "thoughtsTokenCount": 30,
    "toolUsePromptTokenCount": 10,
    "totalTokenCount": 160,
    "cachedContentTokenCount": 50,
}
GEMINI_SNAKE: "dict[str, Any]" = {
    "prompt_token_count": 100,
    "candidates_token_count": 20,
    "thoughts_token_count": 30,
    "tool_use_prompt_token_count": 10,
    "total_token_count": 160,
    "cached_content_token_count": 50,
}
DIALECTS = (OPENAI, dict(OPENAI, cached_tokens=50), RESPONSES, ANTHROPIC, GEMINI, GEMINI_SNAKE)


class Report:
    """A usage report as an object."""

    def __init__(self, fields: "dict[str, Any]") -> None:
        for name in fields:
            value = fields[name]
            setattr(self, name, Report(value) if isinstance(value, dict) else value)


class Raising:
    """A report whose every property raises."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    @property
    def prompt_tokens(self) -> int:
        raise self._error

    @property
    def total_tokens(self) -> int:
        raise self._error


class RaisingDict(dict):  # type: ignore[type-arg]
    """A dict that cannot be read."""

    def __getitem__(self, name: "Any") -> "Any":
        raise RuntimeError("not now")

    def get(self, name: "Any", default: "Any" = None) -> "Any":
        raise RuntimeError("not now")


def counted(usage: object, model: str | None = None, **config: "Any") -> "tuple[int, str]":
    """Return what one call with that report cost, and what it was counted as."""
    tracker = TurnBudgetTracker(TurnBudgetConfig(**config))
    tracker.record(usage, model)
    assert tracker.iterations_seen == 1
    kinds = [kind for kind, calls in sorted(unclear(tracker).items()) if calls]
    assert len(kinds) <= 1, kinds
    return tracker.total_tokens, kinds[0] if kinds else "measured"


def without(usage: "dict[str, Any]", *names: str) -> "dict[str, Any]":
    return {name: usage[name] for name in usage if name not in names}


def check_counts(*cases: "tuple[str, dict[str, Any], int]") -> None:
    for what, usage, tokens in cases:
        assert counted(usage) == (tokens, "measured"), (what, counted(usage))
        assert counted(Report(usage)) == (tokens, "measured"), ("object", what)


def test_an_openai_report_counts_its_total() -> None:
    details = {"reasoning_tokens": 7, "accepted_prediction_tokens": 0}
    check_counts(
        ("plain", OPENAI, 120),
        (
            "reasoning is part of the completion",
            dict(OPENAI, completion_tokens_details=details),
            120,
        ),
        ("total alone", {"total_tokens": 42}, 42),
        ("foreign fields", dict(OPENAI, cost="0.1", prompt_time=0.5, x=None), 120),
        ("zero is measured", {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}, 0),
    )


def test_a_report_without_a_total_counts_the_sum_of_its_parts() -> None:
    check_counts(
        ("openai", without(OPENAI, "total_tokens"), 120),
        ("openai, total of None", dict(OPENAI, total_tokens=None), 120),
        ("responses", {"input_tokens": 100, "output_tokens": 20}, 120),
        ("gemini", without(GEMINI, "totalTokenCount", "cachedContentTokenCount"), 160),
    )


def test_cache_reads_of_an_openai_report_count_at_their_weight() -> None:
    check_counts(
        ("nested", dict(OPENAI, prompt_tokens_details={"cached_tokens": 50}), 75),
        ("nested, none", dict(OPENAI, prompt_tokens_details={"cached_tokens": 0}), 120),
        ("nested, unknown", dict(OPENAI, prompt_tokens_details={"cached_tokens": None}), 120),
        ("nested, empty", dict(OPENAI, prompt_tokens_details={}), 120),
        ("no details", dict(OPENAI, prompt_tokens_details=None), 120),
        ("flat", dict(OPENAI, cached_tokens=50), 75),
        ("both", dict(OPENAI, cached_tokens=50, prompt_tokens_details={"cached_tokens": 50}), 75),
        ("by anthropic's name, inside", dict(OPENAI, cache_read_input_tokens=50), 75),
        ("responses", RESPONSES, 75),
        ("all of the prompt", dict(OPENAI, cached_tokens=100), 30),
    )


def test_an_anthropic_report_adds_its_cache_reads_at_their_weight_and_writes_in_full() -> None:
    check_counts(
        ("both", ANTHROPIC, 10 + 5 + 100 + 200),
        ("read", without(ANTHROPIC, "cache_creation_input_tokens"), 10 + 5 + 100),
        ("written", without(ANTHROPIC, "cache_read_input_tokens"), 10 + 5 + 200),
        ("neither", {"input_tokens": 10, "output_tokens": 5}, 15),
        (
            "not known",
            dict(ANTHROPIC, cache_read_input_tokens=None, cache_creation_input_tokens=None),
            15,
        ),
        ("foreign fields", dict(ANTHROPIC, service_tier="standard", server_tool_use=None), 315),
        (
            "writes split up",
            dict(ANTHROPIC, cache_creation={"ephemeral_5m_input_tokens": 200}),
            315,
        ),
    )


def test_a_gemini_report_counts_thoughts_and_tool_prompts() -> None:
    for usage in (GEMINI, GEMINI_SNAKE):
        total = "totalTokenCount" if "totalTokenCount" in usage else "total_token_count"
        check_counts(
            ("with a total", usage, 160 - 50 + 5),
            ("without a total", without(usage, total), 160 - 50 + 5),
        )
    check_counts(("no candidate", {"promptTokenCount": 9, "totalTokenCount": 9}, 9))


def test_the_cached_weight_is_the_configured_one() -> None:
    usage = dict(OPENAI, cached_tokens=50)
    for weight, tokens in ((0, 70), (0.1, 75), (0.5, 95), (1, 120), (1.0, 120), (2, 170)):
        assert counted(usage, cached_token_weight=weight) == (tokens, "measured"), weight


def test_the_cached_weight_of_a_day_is_the_configured_one() -> None:
    for weight, tokens in ((0, 70), (0.1, 75), (1, 120)):
        tracker = DailyBudgetTracker(DailyBudgetConfig(cached_token_weight=weight))
        tracker.record(dict(OPENAI, cached_tokens=50))
        assert tracker.total_tokens == tokens, weight


def test_weighted_cache_reads_are_truncated_toward_zero() -> None:
    for cached, tokens in ((1, 119), (9, 111), (10, 111), (19, 102), (20, 102)):
        assert counted(dict(OPENAI, cached_tokens=cached))[0] == tokens, cached


def test_a_models_weight_scales_what_its_calls_cost() -> None:
    weights = {"big": 2.5, "half": 0.5, "free": 0, "same": 1}
    for model, tokens in (("big", 300), ("half", 60), ("free", 0), ("same", 120), ("other", 120)):
        assert counted(OPENAI, model, model_weights=weights) == (tokens, "measured"), model
    assert counted(OPENAI, None, model_weights=weights) == (120, "measured")


def test_weighted_tokens_are_truncated_toward_zero() -> None:
    for tokens, weight, charged in ((15, 0.5, 7), (3, 2.5, 7), (1, 0.5, 0), (999, 0.001, 0)):
        usage = {"prompt_tokens": tokens, "completion_tokens": 0, "total_tokens": tokens}
        assert counted(usage, "m", model_weights={"m": weight})[0] == charged, (tokens, weight)


def test_a_models_weight_comes_on_top_of_the_cached_weight() -> None:
    usage = dict(OPENAI, cached_tokens=50)
    assert counted(usage, "big", model_weights={"big": 2})[0] == 150


def test_a_model_that_is_no_text_counts_in_full() -> None:
    for model in (5, ["big"], {}, object(), b"big", True):
        tracker = TurnBudgetTracker(TurnBudgetConfig(model_weights={"big": 0}))
        tracker.record(OPENAI, model)
        assert tracker.total_tokens == 120, model


def test_no_report_is_missing() -> None:
    for usage in (None, {}, {"total_tokens": None}, {"cost": 5}, Report({}), object()):
        assert counted(usage) == (0, "missing"), usage


def test_a_missing_part_is_invalid_and_the_other_still_counts() -> None:
    for dialect in (OPENAI, RESPONSES, ANTHROPIC):
        for name in without(dialect, "total_tokens"):
            if not name.endswith("details") and not name.startswith("cache"):
                assert counted({name: 5}) == (5, "invalid"), name
                assert counted(Report({name: 5})) == (5, "invalid"), name


def test_an_attack_in_place_of_a_report_costs_nothing_and_is_seen() -> None:
    for attack in ATTACKS + ((), b"usage", "usage", [OPENAI], len):
        tokens, kind = counted(attack)
        assert tokens == 0, attack
        assert kind in ("missing", "invalid"), attack


def test_an_attack_in_any_field_is_seen_as_invalid() -> None:
    for dialect in DIALECTS:
        for name in dialect:
            for place, attack in enumerate(ATTACKS):
                if not name.endswith("details"):
                    usage = dict(dialect)
                    usage[name] = attack
                    assert counted(usage)[1] == "invalid", (name, place, dialect)
                    assert counted(Report(usage))[1] == "invalid", ("object", name, place)


def test_an_attack_in_nested_cache_reads_is_seen_as_invalid_and_gives_no_discount() -> None:
    for place, attack in enumerate(ATTACKS):
        for details in ("prompt_tokens_details", "input_tokens_details"):
            usage = dict(OPENAI)
            usage[details] = {"cached_tokens": attack}
            assert counted(usage) == (120, "invalid"), (details, place)


def test_an_attack_never_raises_and_never_lowers_the_count() -> None:
    tracker = TurnBudgetTracker()
    tracker.record(OPENAI)
    before = tracker.total_tokens
    for dialect in DIALECTS:
        for name in dialect:
            for place, attack in enumerate(ATTACKS + (None,)):
                usage = dict(dialect)
                usage[name] = attack
                tracker.record(usage)
                tracker.record(Report(usage))
                assert tracker.total_tokens >= before, (name, place)
                before = tracker.total_tokens


def test_an_attack_on_the_total_leaves_the_parts_counted() -> None:
    for place, attack in enumerate(ATTACKS):
        assert counted(dict(OPENAI, total_tokens=attack)) == (120, "invalid"), place


def test_more_cache_reads_than_prompt_are_invalid_and_give_no_discount() -> None:
    for usage in (
        dict(OPENAI, cached_tokens=101),
        dict(OPENAI, prompt_tokens_details={"cached_tokens": 101}),
        dict(OPENAI, cache_read_input_tokens=101),
        {"total_tokens": 120, "cached_tokens": 121},
    ):
        assert counted(usage) == (120, "invalid"), usage


def test_citations_never_lower_the_total() -> None:
    usage = read_usage(dict(OPENAI, total_tokens=5_000, citation_tokens=7, reasoning_tokens=9))
    assert (usage.total, usage.output, usage.status) == (5_000, 36, "measured")
    usage = read_usage(dict(OPENAI, citation_tokens=7, reasoning_tokens=9))
    assert (usage.total, usage.output, usage.status) == (136, 36, "measured")


def test_more_cache_reads_and_writes_than_prompt_are_invalid() -> None:
    for cached, written, status in ((60, 40, "measured"), (60, 61, "invalid"), (0, 101, "invalid")):
        details = {"cached_tokens": cached, "cache_write_tokens": written}
        usage = read_usage(dict(OPENAI, prompt_tokens_details=details))
        assert usage.status == status, (cached, written)
        assert usage.cache_written == (written if status == "measured" else 0)


def test_a_report_whose_properties_raise_is_seen() -> None:
    for error in (RuntimeError("x"), ValueError("x"), KeyError("x"), OSError(5), MemoryError()):
        assert counted(Raising(error)) == (0, "invalid"), error
    tokens, kind = counted(Raising(AttributeError("x")))
    assert tokens == 0
    assert kind in ("missing", "invalid")


def test_a_dict_that_cannot_be_read_is_seen() -> None:
    assert counted(RaisingDict(OPENAI)) == (0, "invalid")


def test_a_report_is_left_as_it_was() -> None:
    usage = dict(OPENAI, prompt_tokens_details={"cached_tokens": 50})
    counted(usage)
    assert usage == dict(OPENAI, prompt_tokens_details={"cached_tokens": 50})


def test_measured_missing_and_invalid_usage_are_counted_apart() -> None:
    tracker = TurnBudgetTracker()
    for usage in (dict(OPENAI), dict(OPENAI), dict(OPENAI), None, {}, {"total_tokens": -1}):
        tracker.record(usage)
    tracker.record(ESTIMATE)
    assert tracker.usage_seen == {"measured": 3, "estimated": 1, "missing": 2, "invalid": 1}
    assert tracker.total_tokens == 4 * 120
    tracker.reset()
    assert tracker.usage_seen == {"measured": 0, "estimated": 0, "missing": 0, "invalid": 0}


def test_a_report_that_calls_itself_an_estimate_counts_in_full_and_is_seen() -> None:
    for usage, tokens in (
        (ESTIMATE, 120),
        (Report(ESTIMATE), 120),
        (dict(ESTIMATE, prompt_tokens_details={"cached_tokens": 0}), 120),
        (dict(ESTIMATE, completion_tokens_details={}), 120),
        (dict(ANTHROPIC, estimated=True), 315),
    ):
        for tracker in (TurnBudgetTracker(), DailyBudgetTracker()):
            tracker.record(usage)
            assert tracker.total_tokens == tokens, usage
            assert tracker.usage_seen["estimated"] == 1, usage
            assert tracker.usage_seen["measured"] == 0, usage


def test_only_true_makes_a_report_an_estimate() -> None:
    odd: tuple[Any, ...] = (False, None, 1, "true", [], {})
    for value in odd:
        assert counted(dict(OPENAI, estimated=value)) == (120, "measured"), value


def test_an_estimate_that_is_no_count_is_invalid() -> None:
    for place, attack in enumerate(ATTACKS):
        usage = dict(ESTIMATE, completion_tokens=attack)
        assert counted(usage)[1] == "invalid", place
    assert counted({"estimated": True}) == (0, "missing")


def parts(report: object) -> "tuple[Any, ...]":
    """Return what a report says: input, output, cached, written, reasoning, other, total."""
    usage = read_usage(report)
    caches = (usage.cached, usage.cache_written)
    other = usage.total - (usage.input or 0) - (usage.output or 0)
    return (usage.input, usage.output) + caches + (usage.reasoning, other, usage.total)


def test_every_dialect_names_the_same_parts() -> None:
    detailed = dict(
        OPENAI,
        prompt_tokens_details={"cached_tokens": 50, "audio_tokens": 0},
        completion_tokens_details={"reasoning_tokens": 7, "audio_tokens": 0},
    )
    for report, expected in (
        (OPENAI, (100, 20, 0, 0, 0, 0, 120)),
        (detailed, (100, 20, 50, 0, 7, 0, 120)),
        (dict(detailed, cost=5), (100, 20, 50, 0, 7, 0, 120)),
        (dict(OPENAI, total_tokens=125), (100, 20, 0, 0, 0, 5, 125)),
        (dict(detailed, total_tokens=127), (100, 27, 50, 0, 7, 0, 127)),
        (RESPONSES, (100, 20, 50, 0, 7, 0, 120)),
        (ANTHROPIC, (1210, 5, 1000, 200, 0, 0, 1215)),
        (GEMINI, (110, 50, 50, 0, 30, 0, 160)),
        (GEMINI_SNAKE, (110, 50, 50, 0, 30, 0, 160)),
    ):
        assert parts(report) == expected, report
        assert parts(Report(report)) == expected, ("object", report)
        assert read_usage(report).status == "measured", report


def test_a_part_that_was_not_reported_is_none() -> None:
    for report, expected in (
        (None, (None, None, 0)),
        ({"total_tokens": 42}, (None, None, 42)),
        ({"output_tokens": 5}, (None, 5, 5)),
        ({"prompt_tokens": 5, "completion_tokens": -1}, (5, None, 5)),
        ({"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}, (0, 0, 0)),
    ):
        usage = read_usage(report)
        assert (usage.input, usage.output, usage.total) == expected, report


def test_usage_that_was_read_is_handed_on_as_it_is() -> None:
    usage = read_usage(dict(OPENAI, cached_tokens=50))
    assert read_usage(usage) is usage

    class Record(Usage):
        """A usage that says more."""

    record = Record()
    assert read_usage(record) is record
    tracker = TurnBudgetTracker()
    tracker.record(usage)
    assert tracker.total_tokens == 75


def test_a_report_that_says_more_than_plain_counts_is_kept() -> None:
    zeros = {"cached_tokens": 5, "audio_tokens": 0}
    for plain in (None, OPENAI, dict(OPENAI, prompt_tokens_details=zeros)):
        assert read_usage(plain).report is None, plain
    audio = {"cached_tokens": 5, "audio_tokens": 1}
    for report in (
        ANTHROPIC,
        dict(OPENAI, something_new=1),
        dict(OPENAI, prompt_tokens_details=audio),
        dict(
            OPENAI,
            prompt_tokens_details=zeros,
            completion_tokens_details={"reasoning_tokens": 0, "audio_tokens": 1},
        ),
        {"something_new": 1},
    ):
        assert read_usage(report).report is report, report


def test_an_attack_in_iterations_is_seen_and_lowers_no_count() -> None:
    plain = {"input_tokens": 100, "output_tokens": 20}
    for place, attack in enumerate(ATTACKS):
        assert read_usage(dict(plain, iterations=attack)).total == 120, place
        for iterations in ([attack], [dict(plain, input_tokens=attack)], [plain, attack]):
            usage = read_usage(dict(plain, iterations=iterations))
            assert (usage.total >= 120, usage.status) == (True, "invalid"), place
    less = [{"type": "message", "input_tokens": 10, "output_tokens": 2}]
    assert read_usage(dict(plain, iterations=less)).total == 120
    endless: dict[str, Any] = dict(plain)
    endless["iterations"] = [endless]
    assert read_usage(endless).total == 120


class Watched(dict):  # type: ignore[type-arg]
    """A report that notes how often its prompt is read."""

    reads = 0

    def __getitem__(self, name: "Any") -> "Any":
        self.reads += name == "prompt_tokens"
        return super().__getitem__(name)

    def get(self, name: "Any", default: "Any" = None) -> "Any":
        self.reads += name == "prompt_tokens"
        return super().get(name, default)


async def test_a_runs_call_reads_its_report_once() -> None:
    report = Watched(OPENAI)
    prices = {"script": Price(1, 2)}
    options = {"budget": Budget(max_nano_usd=10**9), "prices": prices, "session_id": "s1"}
    played = await play(says("done", report), **options)
    assert played.result.usage["tokens"] == played.run.state.input_tokens + 20 == 120
    assert report.reads == 1


async def test_a_wrapped_call_reads_its_report_once_in_each_wrapper() -> None:
    report = Watched(OPENAI)
    inner = BudgetWrapper(Script(says("done", report)), TurnBudgetTracker(), estimates=True)
    await BudgetWrapper(inner, TurnBudgetTracker()).chat([QUESTION])
    assert report.reads == 2


def test_the_usage_of_any_answer_can_be_asked_for() -> None:
    for answer in (None, object(), "text", {"usage": OPENAI}, Raising(RuntimeError("x"))):
        assert usage_of(answer).status == "missing", answer
    assert usage_of(ChatResponse("hi", usage=OPENAI)).total == 120


def test_a_day_counts_unclear_usage_too() -> None:
    tracker = DailyBudgetTracker()
    tracker.record(None)
    tracker.record({"total_tokens": NAN})
    assert unclear(tracker) == {"missing": 1, "invalid": 1}


def test_a_total_below_its_parts_lowers_no_count_and_is_seen() -> None:
    for total in (0, 1, 119):
        assert counted(dict(OPENAI, total_tokens=total)) == (120, "invalid"), total


def test_a_report_of_cache_reads_alone_is_counted() -> None:
    assert counted({"cache_read_input_tokens": 1000}) == (100, "invalid")
    assert counted({"cache_creation_input_tokens": 1000, "output_tokens": 5}) == (1005, "invalid")
