"""Read the JSON of a request's body."""

import json
from typing import Any, Final

from budget_cpython.adapters.wire.refusals import UnreadableRequestError

MAX_DEPTH: Final = 100  # of a body, on every version of Python, whatever its own limit is
_TOO_DEEP: Final = f"the request's body is nested more than {MAX_DEPTH} levels deep"


def read_body(content: bytes) -> dict[str, Any]:
    """Return the object in a body; raises `UnreadableRequestError` if there is none to be read."""
    try:
        body = json.loads(content)
    except RecursionError:
        raise UnreadableRequestError(_TOO_DEEP) from None
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise UnreadableRequestError("the request's body is not a JSON object")
    if _is_deeper(body, MAX_DEPTH):
        raise UnreadableRequestError(_TOO_DEEP)
    return body


def _is_deeper(value: Any, levels: int) -> bool:
    """Tell whether objects and lists lie in each other more levels deep than that."""
    here = [value]
    while here and levels >= 0:
        levels -= 1
        inside = (one.values() if isinstance(one, dict) else one for one in here)
        here = [one for each in inside for one in each if isinstance(one, (dict, list))]
    return levels < 0
