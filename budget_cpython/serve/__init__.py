"""A ledger over HTTP, for devices and other languages: an ASGI app, and who may use it."""

from typing import TYPE_CHECKING, Any

from budget_cpython.serve.keys import RIGHTS, Key, KeyFile, KeyFileError

if TYPE_CHECKING:
    from budget_cpython.serve.app import make_app

__all__ = ["RIGHTS", "Key", "KeyFile", "KeyFileError", "make_app"]


def __getattr__(name: str) -> Any:
    """Load the app when it is asked for: keys are made without what serves them."""
    if name != "make_app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from budget_cpython.serve.app import make_app
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "starlette":
            raise
        text = "serving a ledger needs starlette: pip install 'microbudget[serve]'"
        raise ImportError(text) from error
    return make_app
