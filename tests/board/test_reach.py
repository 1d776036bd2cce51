"""Which modules of the core a board's programs can load."""

from pathlib import Path

import pytest

from budget_cpython.board.build import CORE, modules_of
from budget_cpython.board.errors import UsageError
from budget_cpython.board.known_boards import known_boards
from budget_cpython.board.reach import left_out, loaded_at_start, reach_of

LEASES = {"ledger/lease.py", "ledger/http_client.py"}


def reached(board: Path, program: str) -> set[str]:
    (board / "main.py").write_text(program)
    return set(reach_of(board).modules)


def test_what_modules_load_by_name_is_in_reach(mine: Path) -> None:
    assert "deadline.py" in reached(mine, "from budget_core.agent.envelope import Envelope\n")
    assert "turn_records.py" in reached(mine, "from budget_core import TurnRuntimeState\n")
    assert "notices.py" in reached(mine, "from budget_core import WindDown\n")


@pytest.mark.parametrize(
    "program",
    [
        "from budget_core import LeasedLedger, HttpLedger\n",
        "import budget_core\nbudget_core.LeasedLedger, budget_core.HttpLedger\n",
        "import budget_core as core\nfor n in ('LeasedLedger', 'HttpLedger'): getattr(core, n)\n",
        "def later():\n    import budget_core.ledger.lease, budget_core.ledger.http_client\n",
        "import helper\n",
    ],
)
def test_a_public_name_is_found_however_it_is_imported(mine: Path, program: str) -> None:
    (mine / "helper.py").write_text("from budget_core import LeasedLedger, HttpLedger\n")
    assert reached(mine, program) >= LEASES
    assert not left_out(mine) & LEASES
    assert reached(mine, "print('nothing')\n").isdisjoint(LEASES)


def test_a_ledger_is_in_reach_for_a_program_that_uses_one(mine: Path) -> None:
    agent = "from budget_core import Operative\nOperative(None{})\n"
    assert "ledger/run_account.py" not in reached(mine, agent.format(""))
    assert "ledger/run_account.py" in reached(mine, agent.format(", ledger=object()"))
    with (mine / "settings.py").open("a") as file:
        file.write('LEDGER = "http://host:8321"\n')
    assert "board/fleet.py" in reached(mine, "from budget_core.board.console import main\n")


@pytest.mark.parametrize(
    ("module", "option"),
    [
        ("prices.py", "prices=prices"),
        ("prices.py", "**{'model': 'small'}"),
        ("turn_state.py", "session_id='garden'"),
        ("agent/sub_agent.py", "tools=[Operative(None).as_tool('helper', 'Helps.')]"),
        ("chat/stream.py", "stream=True"),
        ("usage_stream.py", "(), None, '', None, None, True"),
        ("deadline_token.py", "[Tool('t', 'T.', print, cooperative=True)]"),
        ("agent/pause.py", "[Operative(None).begin('').budget.paused()]"),
        ("ledger/waiting.py", "ledger=object(), wait=5"),
    ],
)
def test_a_module_is_in_reach_for_a_program_that_uses_its_option(
    mine: Path, module: str, option: str
) -> None:
    program = "from budget_core.agent.operative import Operative\nOperative(None, {})\n"
    program += "from budget_core.chat.client import ChatClient\n"
    plain = reached(mine, program.format("model='small', ledger=object()"))
    assert module not in plain
    assert "ledger/llm_account.py" in plain
    assert module in reached(mine, program.format(option))


def test_the_chat_leaves_out_what_its_program_does_not_use() -> None:
    for name, board in known_boards().items():
        without = {
            "prices.py",
            "turn_state.py",
            "agent/sub_agent.py",
            "chat/stream.py",
            "_names.py",
            "ledger/lease.py",
        }
        assert without <= left_out(board), name


def test_a_board_on_a_ledger_goes_without_the_ledger_of_other_programs(mine: Path) -> None:
    with (mine / "settings.py").open("a") as file:
        file.write('LEDGER = "http://host:8321"\n')
    found = reached(mine, "from budget_core.board.console import main\n")
    assert found >= LEASES | {"ledger/run_account.py"}
    assert found.isdisjoint(
        {"ledger/enforced_account.py", "ledger/ledger_count.py", "ledger/waiting.py"}
    )


def test_a_lease_goes_without_the_accounts_and_windows_of_a_whole_ledger(mine: Path) -> None:
    accounts = {f"ledger/{name}.py" for name in ("memory", "limit", "window")}
    client = "from budget_core import HttpLedger, LeasedLedger\n"
    lease = reached(mine, client)
    assert lease.isdisjoint(accounts)
    assert "ledger/memory_holds.py" in lease
    assert reached(mine, "from budget_core import Ledger\n") >= accounts
    assert "ledger/limit.py" in reached(mine, client + "HttpLedger('http://a').limits('boards')\n")


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("import bme280\n", "main.py imports bme280, which may import more"),
        ("name = 'x'\n__import__(name)\n", "main.py uses __import__"),
    ],
)
def test_where_the_imports_are_not_known_nothing_is_left_out(
    mine: Path, program: str, words: str
) -> None:
    (mine / "main.py").write_text(program)
    assert words in reach_of(mine).unknown
    assert left_out(mine) == set()
    assert {path.split("/")[0] for path in left_out(mine, without=["ledger"])} == {"ledger"}


def test_the_modules_of_chips_are_known() -> None:
    for name, board in known_boards().items():
        assert reach_of(board).unknown == "", name
        modules = {path.relative_to(CORE).as_posix() for path in modules_of(CORE)}
        assert left_out(board) < modules
        assert "budget_core.agent.operative" in loaded_at_start(board)


def test_an_unknown_module_or_room_is_refused(mine: Path) -> None:
    with pytest.raises(UsageError, match="--with rooms: the rooms are agent, board, chat, ledger"):
        left_out(mine, ["rooms"])
