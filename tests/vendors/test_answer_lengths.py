"""How long the answers of models may be."""

import pytest

from budget_cpython.vendors.answer_lengths import longest_answer


@pytest.mark.parametrize(
    ("model", "prompt", "length"),
    [
        ("gpt-4o-mini", 0, 16_384),
        ("openai/gpt-4o-2024-08-06", 0, 16_384),
        ("gpt-4o-2024-05-13", 0, 4_096),
        ("ft:gpt-4.1-mini-2025-04-14:acme::id", 0, 32_768),
        ("gpt-3.5-turbo-instruct", 100, 4_096 - 125),
        ("gpt-5", 0, 65_536),  # 128,000
        ("claude-haiku-4-5-20251001", 0, 64_000),
        ("openrouter/google/gemini-2.5-flash", 0, 65_535),
        ("gpt-4o", 90_000, 128_000 - 112_500),
        ("gpt-4o", 200_000, 0),
        ("gpt-5-chat-latest", 0, 0),
        ("a-model-of-my-own", 0, 0),
    ],
)
def test_the_longest_answer_follows_the_model_and_its_prompt(
    model: str, prompt: int, length: int
) -> None:
    assert longest_answer(model, prompt) == length
