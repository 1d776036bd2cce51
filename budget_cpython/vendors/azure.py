"""Azure, which speaks OpenAI's formats; its customers name what answers."""

from typing import Final

from budget_cpython.vendors.format import Vendor
from budget_cpython.vendors.openai import error_of

VENDOR: Final = Vendor("azure", error_of, names_deployments=True)
