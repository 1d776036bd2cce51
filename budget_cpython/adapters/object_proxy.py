"""Objects that stand in for an SDK's own, and differ from it in a few attributes."""

from collections.abc import Callable, Mapping
from typing import Any

from budget_cpython.adapters.account import Accounts


class ObjectProxy:
    """Stands in for an object: `isinstance` and all attributes are its own, but those `replaced`.

    Attributes that are set are set on the object.
    """

    def __init__(self, inner: Any, replaced: Mapping[str, Any]) -> None:
        self.__dict__.update(_inner=inner, _replaced=replaced)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """The class of the object."""
        return type(self.__dict__["_inner"])

    def __getattr__(self, name: str) -> Any:
        replaced = self.__dict__["_replaced"]
        return replaced[name] if name in replaced else getattr(self.__dict__["_inner"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.__dict__["_inner"], name, value)

    def __dir__(self) -> list[str]:
        return dir(self.__dict__["_inner"])

    def __repr__(self) -> str:
        return f"<budgeted {self.__dict__['_inner']!r}>"


def twin_of(what: Any, accounts: Accounts, kind_of: Callable[[Any, Accounts], Any]) -> Any:
    """Return an object of a subclass of the given one's class, which shares its state.

    `kind_of(kind, accounts)` makes the subclass. A twin's own twin has the accounts of both.
    """
    kind, own = getattr(type(what), "_budgeted", (type(what), ()))
    return with_state_of(what, budgeted_kind(kind, (*own, *accounts), kind_of))


def budgeted_kind(kind: Any, accounts: Accounts, kind_of: Callable[[Any, Accounts], Any]) -> Any:
    """Return the class of the twins of a class, from which `twin_of` reads their accounts."""
    made = named_like(kind, kind_of(kind, accounts))
    made._budgeted = (kind, accounts)
    return made


def with_state_of(what: Any, kind: Any) -> Any:
    """Return an object of a class, which shares the state of the one given."""
    twin = object.__new__(kind)
    twin.__dict__ = what.__dict__
    return twin


def named_like(kind: Any, made: Any) -> Any:
    """Return a class with the name of another one."""
    for name in ("__name__", "__qualname__", "__module__", "__doc__"):
        setattr(made, name, getattr(kind, name))
    return made
