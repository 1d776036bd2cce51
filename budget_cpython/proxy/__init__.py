"""A reverse proxy for the APIs of OpenAI, Anthropic and Google that keeps calls within budgets."""

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
