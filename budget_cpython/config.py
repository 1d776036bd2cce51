"""The core's configurations as frozen dataclasses: names, defaults and rules stay the core's."""

from dataclasses import field, make_dataclass

from budget_core import config as core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar


def _frozen(base: "Any") -> "Any":
    """Return a frozen dataclass whose fields are the arguments of a core configuration.

    Values are checked and brought into shape by the core's own constructor, also those of a
    dataclass that derives from the one returned.
    """
    init = base.__init__
    names = [name for name in init.__annotations__ if name != "return"]
    fields = [
        (name, init.__annotations__[name], field(default=default))
        for name, default in zip(names, init.__defaults__, strict=True)
    ]

    def check(self: "Any") -> None:
        vars(self).update(vars(base(**{name: vars(self)[name] for name in names})))

    def digest(self: "Any") -> int:
        return hash(tuple(value for value in vars(self).values() if not isinstance(value, dict)))

    body = {
        "__doc__": base.__doc__,
        "__module__": __name__,
        "__hash__": digest,
        "__post_init__": check,
    }
    return make_dataclass(
        base.__name__, fields, bases=(base,), namespace=body, frozen=True, eq=False
    )


if TYPE_CHECKING:

    class TurnBudgetConfig(core.TurnBudgetConfig):
        """The core's, frozen."""

        __dataclass_fields__: ClassVar[dict[str, Any]]

    class DailyBudgetConfig(core.DailyBudgetConfig):
        """The core's, frozen."""

        __dataclass_fields__: ClassVar[dict[str, Any]]
else:
    TurnBudgetConfig = _frozen(core.TurnBudgetConfig)
    DailyBudgetConfig = _frozen(core.DailyBudgetConfig)
