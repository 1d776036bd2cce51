"""Fill in the modules of CPython that exoclaw imports and MicroPython lacks; import it first.

exoclaw ships the other two, `typing` and `dataclasses`, in its folder `_mp_lib`.
"""

import sys
from time import time

try:
    import __future__  # noqa: F401 - only whether it is there
except ImportError:

    class _Future:
        annotations = None

    sys.modules["__future__"] = _Future  # type: ignore[assignment]

try:
    import datetime  # noqa: F401 - only whether it is there
except ImportError:

    class _Datetime:
        class datetime:  # noqa: N801 - the name that is imported
            now = time

    sys.modules["datetime"] = _Datetime  # type: ignore[assignment]
