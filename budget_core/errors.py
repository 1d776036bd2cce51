"""The one error tree: everything raised at run time is a `BudgetError`."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from budget_core._types import TimeLimit


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
    """A stored state is damaged, was edited, or is gone where there was one."""

    corrupt = True


class ProviderError(BudgetError):
    """A model's endpoint refused, failed, or could not be reached.

    `status` is the HTTP status, or 0 where there was no answer at all; with 200 an answer had
    begun. `code` is the endpoint's own word for a refusal, if it has one. `sent` is false where the
    request cannot have reached the endpoint whole. `attempts` is how often it was made. `message`
    never contains the API key.
    """

    sent = True
    attempts = 1
    code: str | None = None

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{message} (HTTP {status})" if status not in (0, 200) else message)
        self.status = status
        self.message = message


try:

    class TimeLimitError(BudgetError, TimeoutError):
        """A limit of time was reached."""

except NameError:  # MicroPython has no TimeoutError
    TimeLimitError = BudgetError  # type: ignore[misc, assignment]


class DeadlineExceeded(TimeLimitError):  # noqa: N818 - the name users know
    """A deadline has passed; on CPython a `TimeoutError`.

    `deadline` is the one, `elapsed_seconds` the time since it was set.
    """

    def __init__(self, deadline: "TimeLimit") -> None:
        self.deadline = deadline
        self.elapsed_seconds = elapsed = deadline.elapsed_seconds()
        super().__init__(
            f"the deadline has passed: {elapsed:.3f} s of {deadline.allowed_seconds():.3f} s"
        )


def refuse(name: str, text: str, value: object) -> "NoReturn":
    """Raise the `ValueError` that says what `name` must be; CPython prints no huge number."""
    shown = "a huge number" if isinstance(value, int) and abs(value) > 1 << 64 else repr(value)
    raise ValueError(f"{name} must be {text}, not {shown}")
