"""The one error tree: everything raised at run time is a `BudgetError`."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


class BudgetError(Exception):
    """Something went wrong while a budget was kept; configuration mistakes are `ValueError`s."""


class StoreError(BudgetError):
    """A state store could not be read or written.

    `cause` is the error beneath (an `OSError`), or `None`.
    """

    def __init__(self, message: str, cause: "BaseException | None" = None) -> None:
        super().__init__(message)
        self.cause = cause


class StateCorruptError(StoreError):
    """A stored state exists but cannot be trusted: damaged, foreign, or not a plain file."""

    corrupt = True


class ProviderError(BudgetError):
    """A model's endpoint refused, failed, or could not be reached.

    `status` is the HTTP status, or 0 where there was no answer at all. `sent` is false where the
    request cannot have reached the endpoint. `message` never contains the API key.
    """

    sent = True

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{message} (HTTP {status})" if status else message)
        self.status = status
        self.message = message


def refuse(name: str, text: str, value: object) -> "NoReturn":
    """Raise the `ValueError` that says what `name` must be; CPython prints no huge number."""
    shown = "a huge number" if isinstance(value, int) and abs(value) > 1 << 64 else repr(value)
    raise ValueError(f"{name} must be {text}, not {shown}")
