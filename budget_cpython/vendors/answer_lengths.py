"""How long the answers of known models may be: APIs refuse higher limits.

The figures are those that the vendors' pages of models gave in November 2026; a test compares them
with LiteLLM's list. Models that are not here get no higher limit than `ANSWER`.
"""

import re
from functools import lru_cache

_LENGTHS = {  # of an answer, and of prompt and answer together, in tokens
    r"gpt-5(\.[1-5])?(-mini|-nano|-codex)?": (128_000, 400_000),
    r"gpt-4\.1(-mini|-nano)?": (32_768, 1_047_576),
    r"gpt-4o-2024-05-13": (4_096, 128_000),
    r"gpt-4o(-mini)?": (16_384, 128_000),
    r"gpt-3\.5-turbo-instruct": (4_096, 4_096),
    r"o[13](-pro)?|o[34]-mini": (100_000, 200_000),
    r"claude-(haiku|sonnet|opus)-4-5": (64_000, 200_000),
    r"claude-(sonnet-4-6|opus-4-[678])": (128_000, 200_000),
    r"gemini-2\.5-(pro|flash|flash-lite)": (65_535, 1_048_576),
}
_MOST = 65_536  # longer answers are rare, and what is held for one is not free for others
_DATE = r"(-\d{4}-?\d\d-?\d\d)?"
_KNOWN = [(re.compile(name + _DATE), lengths) for name, lengths in _LENGTHS.items()]


def longest_answer(model: str, prompt: int) -> int:
    """Return how many tokens an answer to a prompt may have; 0 if that is not known.

    `prompt` is an estimate, so a quarter more of it is left free.
    """
    answer, whole = _lengths_of(model)
    return max(0, min(answer, _MOST, whole - prompt - prompt // 4))


@lru_cache(1000)
def _lengths_of(model: str) -> tuple[int, int]:
    """Return the lengths of a model, whose name may begin with its provider's."""
    name = model.rpartition("/")[2].removeprefix("ft:").partition(":")[0]
    return next((lengths for known, lengths in _KNOWN if known.fullmatch(name)), (0, 0))
