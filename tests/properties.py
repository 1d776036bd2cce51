"""Try a property on fewer examples where the slow tests are left out."""

from typing import Any

from hypothesis import settings

SHARE = 4  # one of so many examples is left then
MOST = 40  # and no more than these

without_slow = False  # set before any test is loaded


def examples(most: int, **options: Any) -> settings:
    """Return settings for `most` examples, and for a part of them without the slow tests."""
    tried = max(1, min(most // SHARE, MOST)) if without_slow else most
    return settings(max_examples=tried, **options)
