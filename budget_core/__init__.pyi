"""What `budget_core` exports, for type checkers; at run time each name is loaded when asked for."""

from budget_core.chat import ChatClient as ChatClient
from budget_core.composite import CompositePolicy as CompositePolicy
from budget_core.config import DailyBudgetConfig as DailyBudgetConfig
from budget_core.config import Enforcement as Enforcement
from budget_core.config import TurnBudgetConfig as TurnBudgetConfig
from budget_core.daily_tracker import DailyBudgetTracker as DailyBudgetTracker
from budget_core.deadline import Deadline as Deadline
from budget_core.deadline_token import DeadlineToken as DeadlineToken
from budget_core.errors import BudgetError as BudgetError
from budget_core.errors import DeadlineExceeded as DeadlineExceeded
from budget_core.errors import ProviderError as ProviderError
from budget_core.errors import StateCorruptError as StateCorruptError
from budget_core.errors import StoreError as StoreError
from budget_core.file_store import FileBudgetStore as FileBudgetStore
from budget_core.http import tls_context as tls_context
from budget_core.loop import Tool as Tool
from budget_core.loop import TurnResult as TurnResult
from budget_core.loop import run_turn as run_turn
from budget_core.monotonic import MonotonicClock as MonotonicClock
from budget_core.policy import TurnBudgetPolicy as TurnBudgetPolicy
from budget_core.provider import ChatResponse as ChatResponse
from budget_core.provider import ToolCall as ToolCall
from budget_core.store import InMemoryBudgetStore as InMemoryBudgetStore
from budget_core.tracker import BudgetTracker as BudgetTracker
from budget_core.tracker import TurnBudgetTracker as TurnBudgetTracker
from budget_core.turn_budget import Allowance as Allowance
from budget_core.turn_budget import TurnBudget as TurnBudget
from budget_core.turn_records import CitationAccumulator as CitationAccumulator
from budget_core.turn_records import ToolTraceEntry as ToolTraceEntry
from budget_core.turn_state import TurnRuntimeState as TurnRuntimeState
from budget_core.wrapper import BudgetWrapper as BudgetWrapper

PUBLIC: str
