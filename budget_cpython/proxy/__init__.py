"""A reverse proxy for the APIs of OpenAI, Anthropic and Google that keeps calls within budgets.

A name is loaded from its module when it is first asked for: `microbudget run` counts by some of
them before it loads the proxy.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from budget_cpython.proxy.access import Access
    from budget_cpython.proxy.accounts import Rules
    from budget_cpython.proxy.app import Proxy
    from budget_cpython.proxy.upstreams import Upstream, read_upstreams
    from budget_cpython.proxy.usage_by_model import ModelUsage, UsageByModel

__all__ = [
    "Access",
    "ModelUsage",
    "Proxy",
    "Rules",
    "Upstream",
    "UsageByModel",
    "read_upstreams",
]

_HOMES = {
    "Access": "access",
    "ModelUsage": "usage_by_model",
    "Proxy": "app",
    "Rules": "accounts",
    "Upstream": "upstreams",
    "UsageByModel": "usage_by_model",
    "read_upstreams": "upstreams",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
