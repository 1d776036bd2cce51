"""The core's configurations as frozen dataclasses: names, defaults and rules stay the core's."""

from budget_core import config as core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar


class _Part:
    """What `dataclasses` keeps on a class it made, made when somebody first asks for it.

    Importing `dataclasses` takes as long as all the rest of this package.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: "Any") -> "Any":
        from dataclasses import make_dataclass

        types = owner.__init__.__annotations__
        defaults = owner.__init__.__defaults__
        fields = list(zip(types, types.values(), defaults, strict=False))  # less "return"
        made = make_dataclass(owner.__name__, fields, frozen=True, eq=False)
        setattr(owner, self._name, getattr(made, self._name))
        return getattr(made, self._name)


class _Frozen(core.Config):
    """Attributes that are set once, by the core's `__init__`."""

    def __setattr__(self, name: str, value: object) -> None:
        if name in vars(self) or name not in type(self).__init__.__annotations__:
            self._refuse("assign to", name)
        vars(self)[name] = value

    def __delattr__(self, name: str) -> None:
        self._refuse("delete", name)

    def _refuse(self, what: str, name: str) -> None:
        from dataclasses import FrozenInstanceError

        raise FrozenInstanceError(f"cannot {what} field {name!r}: use replace()")

    def __repr__(self) -> str:
        fields = [f"{name}={value!r}" for name, value in vars(self).items()]
        return f"{type(self).__name__}({', '.join(fields)})"

    def __hash__(self) -> int:
        values = vars(self).items()
        return hash(frozenset([item for item in values if not isinstance(item[1], dict)]))


class TurnBudgetConfig(_Frozen, core.TurnBudgetConfig):  # noqa: D101 - said by the core
    __doc__ = core.TurnBudgetConfig.__doc__
    __dataclass_fields__: "ClassVar[Any]" = _Part()
    __dataclass_params__: "ClassVar[Any]" = _Part()


class DailyBudgetConfig(_Frozen, core.DailyBudgetConfig):  # noqa: D101 - said by the core
    __doc__ = core.DailyBudgetConfig.__doc__
    __dataclass_fields__: "ClassVar[Any]" = _Part()
    __dataclass_params__: "ClassVar[Any]" = _Part()
