"""What messages and tools are taken to come to where nobody has counted their tokens."""

import json

from budget_core.usage_estimate import estimate_tokens

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

A_MESSAGE = 4
TOOL: "dict[str, Any]" = {
    "type": "function",
    "function": {"name": "read", "parameters": {"type": "object", "required": ["path"]}},
}


class Refusing(dict):  # type: ignore[type-arg]
    """A dict that cannot be read."""

    def get(self, name: "Any", default: "Any" = None) -> "Any":
        raise RuntimeError("not now")

    def __len__(self) -> int:
        raise RuntimeError("not now")


def estimated(messages: "Any", tools: "Any" = None) -> int:
    return estimate_tokens(messages, tools)


def said(text: "Any") -> "list[dict[str, Any]]":
    return [{"role": "user", "content": text}]


def calling(name: "Any", arguments: "Any") -> "list[dict[str, Any]]":
    call = {"id": "c", "type": "function", "function": {"name": name, "arguments": arguments}}
    return [{"role": "assistant", "content": None, "tool_calls": [call]}]


def test_four_bytes_are_a_token_rounded_up_and_a_message_is_four_more() -> None:
    for size, tokens in ((0, 0), (1, 1), (3, 1), (4, 1), (5, 2), (8, 2), (4001, 1001)):
        assert estimated(said("x" * size)) == A_MESSAGE + tokens, size


def test_bytes_are_counted_not_characters() -> None:
    for text, size in (("ä" * 4, 8), ("€" * 4, 12), ("😀" * 4, 16)):
        assert estimated(said(text)) == A_MESSAGE + size // 4, text


def test_a_text_that_is_encoded_counts_alike() -> None:
    text = "ä€😀" * 4
    encoded = text.encode()
    assert estimated(said(encoded)) == estimated(said(text))
    assert estimated(said([{"text": encoded}, encoded])) == estimated(said([{"text": text}, text]))
    assert estimated(calling(encoded, encoded)) == estimated(calling(text, text))
    assert estimated([], [{"name": encoded}]) == estimated([], [{"name": text}])


def test_texts_are_added_up_before_they_are_rounded() -> None:
    assert estimated(said("x") + said("x") + said("x")) == 3 * A_MESSAGE + 1


def test_content_in_parts_counts_its_texts_and_no_image() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:" + "x" * 4000}}
    parts = [{"type": "text", "text": "x" * 8}, image, "y" * 4, {"type": "text", "text": None}]
    assert estimated(said(parts)) == A_MESSAGE + 3


def test_a_part_counts_the_tokens_that_it_has() -> None:
    assert estimated(said([{"tokens": 765}, {"text": "x" * 8}])) == A_MESSAGE + 767
    for bad in (-5, True, 1.5, "9", None, 1 << 40):
        assert estimated(said([{"tokens": bad}])) == A_MESSAGE, bad


def test_names_and_arguments_of_tool_calls_count() -> None:
    assert estimated(calling("x" * 8, "y" * 12)) == A_MESSAGE + 5
    assert estimated(calling("x" * 8, {"y": "y"})) == A_MESSAGE + 5


def test_tools_count_by_the_length_of_their_json() -> None:
    for tools in ([], [TOOL], [TOOL] * 9, [dict(TOOL, more=[{}, [], "text", "x" * 77, [["y"]]])]):
        assert estimated([], tools) == (len(json.dumps(tools)) + 3) // 4, tools
    assert estimated(said("x" * 8), [TOOL]) == A_MESSAGE + estimated([], [TOOL]) + 2


def test_tools_in_any_script_count_alike_on_both_runtimes() -> None:
    assert estimated([], ["ä" * 9]) == (2 + 2 + 18 + 3) // 4


def test_no_tools_count_nothing() -> None:
    assert estimated(said("x" * 8), None) == estimated(said("x" * 8)) == A_MESSAGE + 2


def test_messages_of_odd_shapes_raise_nothing() -> None:
    for odd in (None, 5, "text", b"x", {}, object(), True, 0.5, len):
        assert estimated(odd) == 0, odd
        for messages in ([odd], (odd,), said(odd), said([odd])):
            assert A_MESSAGE <= estimated(messages) <= A_MESSAGE + 1, messages
        for call in (calling(odd, odd), [{"tool_calls": odd}], [{"tool_calls": [odd]}]):
            assert A_MESSAGE <= estimated(call) <= A_MESSAGE + 2, call


def test_a_message_that_cannot_be_read_keeps_none_from_being_counted() -> None:
    messages = [Refusing(content="x" * 8)] + said("x" * 8)
    assert estimated(messages, [Refusing()]) == 2 * A_MESSAGE + 2


def test_a_half_of_a_character_raises_nothing() -> None:
    assert estimated(said(chr(0xD800))) == A_MESSAGE + 1


def test_tools_that_contain_themselves_have_an_end() -> None:
    endless: list[Any] = []
    endless.append(endless)
    assert 0 < estimated([], endless) < 100_000
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    assert estimated([], deep) == (2 * 5001 + 3) // 4


def test_what_is_estimated_is_left_as_it_was() -> None:
    messages = said(["x"]) + calling("f", "{}")
    tools = [dict(TOOL)]
    before = json.dumps([messages, tools])
    estimated(messages, tools)
    assert json.dumps([messages, tools]) == before
