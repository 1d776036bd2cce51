"""The core's configurations of trackers as frozen dataclasses."""

from dataclasses import field, make_dataclass

from budget_core import config as core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def dataclass_of(base: "Any", module: str, *, frozen: bool, coerce: bool, **body: "Any") -> "Any":
    """Return a dataclass whose fields are the arguments of a core class.

    With `coerce`, the core's own constructor checks and converts the values, also those of a
    subclass.
    """
    init = base.__init__
    names = [name for name in init.__annotations__ if name != "return"]
    defaults = init.__defaults__ or ()
    required = len(names) - len(defaults)
    fields: list[Any] = [(name, init.__annotations__[name]) for name in names[:required]]
    fields += [
        (name, init.__annotations__[name], field(default=default))
        for name, default in zip(names[required:], defaults, strict=True)
    ]

    def check(self: "Any") -> None:
        checked = vars(base(**{name: vars(self)[name] for name in names}))
        vars(self).clear()
        vars(self).update(checked)

    body["__doc__"] = base.__doc__
    if coerce:
        body["__post_init__"] = check
    made = make_dataclass(base.__name__, fields, bases=(base,), namespace=body, frozen=frozen)
    made.__module__ = module  # `make_dataclass` says itself since Python 3.12; pickles ask for it
    return made


def frozen(base: "Any", module: str) -> "Any":
    """Return a frozen dataclass of a core class that is a configuration."""
    return dataclass_of(base, module, frozen=True, coerce=True, __hash__=_digest)


def _digest(self: "Any") -> int:
    return hash(tuple(value for value in vars(self).values() if not isinstance(value, dict)))


TYPE_CHECKING = False
if TYPE_CHECKING:
    from budget_core.config import DailyBudgetConfig as DailyBudgetConfig
    from budget_core.config import TurnBudgetConfig as TurnBudgetConfig
else:
    TurnBudgetConfig = frozen(core.TurnBudgetConfig, __name__)
    DailyBudgetConfig = frozen(core.DailyBudgetConfig, __name__)
