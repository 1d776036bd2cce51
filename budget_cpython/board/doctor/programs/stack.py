"""Print how many bytes of C stack there are, by using them up."""
# mypy: ignore-errors

import json

from micropython import stack_use


def _deepest():
    try:
        return _deepest()
    except (RuntimeError, MemoryError):
        return stack_use()


print(json.dumps(_deepest()))
