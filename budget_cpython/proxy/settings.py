"""The settings of accounts: the command's options, and those of a file for some accounts."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from budget_core.errors import refuse
from budget_core.ledger.checks import chain, check_path
from budget_core.ledger.limit import Limit
from budget_core.prices import Price
from budget_cpython.files.settings_file import read_toml, tables_of
from budget_cpython.ledger.limit_parser import ParsedBudget
from budget_cpython.ops.limit_file import limits_said
from budget_cpython.prices.price_table import PriceTable, check_deployments

if TYPE_CHECKING:
    from budget_cpython.proxy.accounts import Rules

# what may be said of an account, with what it must be
SAID: dict[str, tuple[type, ...]] = {
    "limit": (str,),
    "counted": (list,),
    "notices": (bool,),
    "strict": (bool,),
    "fallback_model": (str,),
    "wait": (int, float),
    "max_tokens": (int,),
    "expect": (int, str),
    "repeats": (int,),
}


@dataclass(frozen=True)
class Settings:
    """The options of each account, and the prices and deployments that no list has.

    What a file says of an account goes for it and for all below it, and before what is said of all.
    """

    everywhere: Mapping[str, Any]
    accounts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    prices: Mapping[str, Price] = field(default_factory=dict)
    deployments: Mapping[str, str] = field(default_factory=dict)

    def of(self, path: str) -> dict[str, Any]:
        """Return the options of an account, with those of the accounts above it."""
        found = dict(self.everywhere)
        for account in chain(path):
            found.update(self.accounts.get(account, {}))
        found.pop("limit", None)
        found.pop("counted", None)
        return found

    def limits(self) -> dict[str, list[Limit]]:
        """Return the limits of accounts that have some here; `ValueError` names the account."""
        found = {path: _limits_of(path, row) for path, row in self.accounts.items()}
        return {path: limits for path, limits in found.items() if limits}


def _limits_of(path: str, row: Mapping[str, Any]) -> list[Limit]:
    limits = limits_said(path, row, tools=False)
    ParsedBudget(limits).check_counted(f"the account {path} of a proxy", tools=False)
    return limits


def rules_on(ledger: Any, settings: Settings) -> "Callable[[str], Rules]":
    """Return the function that makes the rules of an account in a ledger.

    Raises `ImportError` where money is limited and no price is known.
    """
    from budget_cpython.adapters.account import BudgetAccount
    from budget_cpython.proxy.accounts import Rules

    listed = BudgetAccount().prices
    if listed is None and not settings.prices:
        axes = [limit.axis for limits in settings.limits().values() for limit in limits]
        if "nano_usd" in axes:
            raise ImportError(
                "a limit on money needs prices: pip install 'microbudget[proxy,prices]', or give "
                "[prices.…] in --settings"
            )
    prices = PriceTable(settings.prices, listed, settings.deployments)

    def rules_of(path: str) -> Rules:
        said = settings.of(path)
        notices, strict = said.pop("notices", False), said.pop("strict", False)
        if not notices:
            said["warning_thresholds"] = ()
        account = BudgetAccount((), ledger, path, prices=prices, **said)
        return Rules([account], notices, strict)

    for path in ("example", *settings.accounts):
        rules_of(path)  # refuses a malformed option now
    return rules_of


def read_settings(path: str | None, everywhere: Mapping[str, Any], account: str) -> Settings:
    """Return the settings of a TOML file, and of the options in `everywhere`.

    Their limit is that of `account`.

    ```toml
    [accounts."acme/research"]
    limit = "$5/day"
    notices = true
    fallback_model = "gpt-5-mini"

    [prices."my-model"]     # dollars per million tokens
    input = "0.15"
    output = "0.60"

    [deployments]           # of Azure, with the model that each is of
    "my-gpt" = "gpt-4o-mini"
    ```

    Raises `ValueError` for what is malformed, and `OSError`.
    """
    said = {} if path is None else read_toml(path)
    for name in said:
        if name not in ("accounts", "prices", "deployments", "alerts"):
            raise ValueError(
                f"{path!r} has {name!r}: it may have [accounts.…], [prices.…], [deployments] and "
                "[[alerts]]"
            )
    tables = tables_of(said, "accounts")
    accounts = {check_path(name): _check(name, row) for name, row in tables.items()}
    if "limit" in everywhere:
        accounts[account] = {**accounts.get(account, {}), "limit": everywhere["limit"]}
    prices = dict(_price(*row) for row in tables_of(said, "prices").items())
    return Settings(everywhere, accounts, prices, check_deployments(said.get("deployments", {})))


def _check(account: str, row: Mapping[str, Any]) -> Mapping[str, Any]:
    for name, value in row.items():
        if name not in SAID:
            raise ValueError(f"account {account!r} has {name!r}: known are {', '.join(SAID)}")
        kinds = SAID[name]
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            refuse(f"{name} of account {account!r}", f"of type {kinds[0].__name__}", value)
    return row


def _price(model: str, row: Mapping[str, Any]) -> tuple[str, Price]:
    try:
        return model, Price(**row)
    except TypeError as error:
        raise ValueError(f"the price of {model!r} needs input and output: {error}") from error
