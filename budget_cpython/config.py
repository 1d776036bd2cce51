"""The configurations as frozen dataclasses, made from the core's: nothing is stated twice."""

from dataclasses import fields, make_dataclass

from budget_core import config as core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dataclasses import Field
    from typing import Any, ClassVar


def _derive(base: "type[Any]") -> "type[Any]":
    """Return a frozen dataclass with the name, fields, defaults and rules of `base`."""
    types = base.__init__.__annotations__
    specs = list(zip(types, types.values(), base.__init__.__defaults__, strict=False))

    def check(self: "Any") -> None:
        vars(self).update(vars(base(**{spec[0]: vars(self)[spec[0]] for spec in specs})))

    namespace = {
        "__doc__": base.__doc__,
        "__module__": __name__,
        "__hash__": _hash,
        "__post_init__": check,
    }
    return make_dataclass(
        base.__name__, specs, bases=(base,), namespace=namespace, frozen=True, eq=False
    )


def _hash(self: "Any") -> int:
    values = [getattr(self, field.name) for field in fields(self)]
    return hash(tuple([value for value in values if not isinstance(value, dict)]))


if TYPE_CHECKING:

    class TurnBudgetConfig(core.TurnBudgetConfig):
        """The core's `TurnBudgetConfig`, frozen, for `dataclasses` to work on."""

        __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    class DailyBudgetConfig(core.DailyBudgetConfig):
        """The core's `DailyBudgetConfig`, frozen, for `dataclasses` to work on."""

        __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

else:
    TurnBudgetConfig = _derive(core.TurnBudgetConfig)
    DailyBudgetConfig = _derive(core.DailyBudgetConfig)
