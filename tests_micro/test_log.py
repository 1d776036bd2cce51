"""What a log line may contain: names come from clients."""

from budget_core.log import printable


def test_what_a_terminal_would_act_on_is_escaped() -> None:
    assert printable("gpt\x1b[2J\r\nspent: $0\x9b1m\x7f") == (
        "gpt\\x1b[2J\\r\\nspent: $0\\x9b1m\\x7f"
    )


def test_letters_of_any_language_stay() -> None:
    text = "modèle-模型 'a' \\ ~"
    assert printable(text) == text
