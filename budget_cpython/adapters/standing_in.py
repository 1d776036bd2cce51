"""Objects that stand in for an SDK's own, and differ from it in a few attributes."""

from collections.abc import Mapping
from typing import Any


class StandingIn:
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
