"""Try a property on fewer examples where the slow tests are left out."""

from typing import Any

from hypothesis import settings

SHARE = 4  # one of so many examples is left then

without_slow = False  # set before any test is loaded


def examples(most: int, **options: Any) -> settings:
    """Return settings for `most` examples, and for a part of them without the slow tests."""
    return settings(max_examples=max(1, most // SHARE) if without_slow else most, **options)
