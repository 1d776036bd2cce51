"""Make the agent of a board from its settings: the model, the day's budget, and a turn's."""

from budget_core.board.device import open_store, optional

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from budget_core.agent.operative import Operative
    from budget_core.agent.tool import Tool
    from budget_core.board.fleet import FleetBudget
    from budget_core.daily_tracker import DailyBudgetTracker


def make_agent(
    settings: "Any", tools: "list[Tool]"
) -> "tuple[Any, DailyBudgetTracker, Operative, FleetBudget | None]":
    """Return the client, the day's tracker, the agent and the fleet of a board, with its secrets.

    Raises `ValueError` for a wrong setting, and `BudgetError` where the fleet's budget cannot be
    had.
    """
    secret = optional("secret")
    client = make_client(settings, secret)
    daily = make_daily(settings)
    fleet = make_fleet(settings, secret, daily)
    return client, daily, make_operative(settings, client, daily, tools, fleet), fleet


def make_client(settings: "Any", secret: "Any") -> "Any":
    """Return a client for the endpoint that the settings or the secrets name.

    Raises `ValueError` for certificates that cannot be read, and as `ChatClient` does.
    """
    from budget_core.chat.client import ChatClient

    base_url = getattr(secret, "BASE_URL", "") or settings.BASE_URL
    return ChatClient(
        base_url,
        getattr(secret, "MODEL", "") or settings.MODEL,
        getattr(secret, "API_KEY", None),
        settings.CALL_TIMEOUT_S,
        settings.MAX_ANSWER_BYTES,
        _tls_for(base_url, settings),
    )


def _tls_for(url: str, settings: "Any") -> "Any":
    if not url.startswith("https"):
        return None
    from budget_core.chat.tls import tls_context

    try:
        return tls_context(settings.CA_FILE)
    except OSError as error:
        raise ValueError(f"CA_FILE {settings.CA_FILE!r} of the settings: {error}; deploy again")


def make_fleet(settings: "Any", secret: "Any", daily: "DailyBudgetTracker") -> "FleetBudget | None":
    """Return what the board shares with a fleet, or `None` if the settings name no service."""
    if not getattr(settings, "LEDGER", ""):
        return None
    from budget_core.board.fleet import FleetBudget

    return FleetBudget(settings, secret, daily, _tls_for(settings.LEDGER, settings))


def make_daily(settings: "Any") -> "DailyBudgetTracker":
    """Return the day's tracker; it continues from the board's stored state."""
    from budget_core.config import DailyBudgetConfig, Enforcement
    from budget_core.daily_tracker import DailyBudgetTracker

    config = DailyBudgetConfig(
        settings.DAILY_BUDGET,
        warning_thresholds=settings.DAY_WARNINGS,
        enforcement=Enforcement.CUTOFF,
        reset_hour_utc=settings.RESET_HOUR_UTC,
        cached_token_weight=settings.CACHED_TOKEN_WEIGHT,
    )
    return DailyBudgetTracker(config, store=open_store(settings), write_ahead=settings.WRITE_AHEAD)


def make_operative(
    settings: "Any",
    provider: "Any",
    daily: "DailyBudgetTracker",
    tools: "list[Tool]",
    fleet: "FleetBudget | None" = None,
) -> "Operative":
    """Return an agent with the limits of `settings` on each turn, and of `daily` on the day.

    Its calls draw on the account of `fleet` as well.
    """
    from budget_core.agent.budget import Budget
    from budget_core.agent.operative import Operative
    from budget_core.agent.wind_down import WindDown
    from budget_core.wrapper import BudgetWrapper

    budget = Budget(
        max_turns=settings.MAX_TURNS,
        max_tokens=settings.MAX_TOKENS,
        max_tokens_per_turn=settings.MAX_TOKENS_PER_CALL,
        timeout=settings.TIMEOUT_S,
        max_tool_calls=settings.MAX_TOOL_CALLS,
    )
    return Operative(
        BudgetWrapper(provider, daily, estimates=True),
        tools,
        budget,
        settings.SYSTEM_PROMPT,
        wind_down=WindDown(settings.NOTICE_AT, tools_off_at=settings.TOOLS_OFF_AT),
        ledger=None if fleet is None else fleet.ledger,
        account=None if fleet is None else fleet.account,
    )
