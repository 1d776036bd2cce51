"""The core's configurations as frozen dataclasses: names, defaults and rules stay the core's."""

from functools import wraps

from budget_core import config as core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar, TypeVar

    Made = TypeVar("Made", bound="_Frozen")


class _Frozen(core.Config):
    """What all of them share."""

    __dataclass_fields__: "ClassVar[Any]"

    def __setattr__(self, name: str, value: object) -> None:
        self._refuse("assign to", name)

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


class _Part:
    """What `dataclasses` keeps on a class it made, made when somebody first asks for it.

    Importing `dataclasses` takes as long as all the rest of this package.
    """

    def __init__(self, name: str, init: "Any") -> None:
        self._name = name
        self._init = init

    def __get__(self, instance: object, owner: "Any") -> "Any":
        from dataclasses import make_dataclass

        types = self._init.__annotations__
        fields = list(zip(types, types.values(), self._init.__defaults__, strict=False))
        made = make_dataclass(owner.__name__, fields, frozen=True, eq=False)
        setattr(owner, self._name, getattr(made, self._name))
        return getattr(made, self._name)


def _derive(made: "type[Made]") -> "type[Made]":
    """Give a class the constructor of its core class, and what makes it a dataclass."""
    base: Any = made.__bases__[1]
    names = [name for name in base.__init__.__annotations__ if name != "return"]

    @wraps(base.__init__)
    def build(self: "Made", *values: "Any", **fields: "Any") -> None:
        vars(self).update(vars(base(*values, **fields)))

    def check(self: "Made") -> None:  # of a dataclass that derives from this one
        build(self, **{name: vars(self)[name] for name in names})

    parts = {"__doc__": base.__doc__, "__init__": build, "__post_init__": check}
    for name in ("__dataclass_fields__", "__dataclass_params__", "__match_args__"):
        parts[name] = _Part(name, base.__init__)
    for name, part in parts.items():
        setattr(made, name, part)
    return made


@_derive
class TurnBudgetConfig(_Frozen, core.TurnBudgetConfig):  # noqa: D101 - the core's docstring is taken
    pass


@_derive
class DailyBudgetConfig(_Frozen, core.DailyBudgetConfig):  # noqa: D101 - the core's is taken
    pass
