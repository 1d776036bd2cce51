"""Limits with a window and no ledger: where they are counted, and who shares them."""

import asyncio
import logging
import os
import stat
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from budget_cpython import (
    BudgetExceededError,
    Ledger,
    LedgerUnavailableError,
    SqliteLedger,
    budget,
    budgeted,
    open_ledger,
)
from budget_cpython.ledger.default_ledger import default_account, place_of, segment
from scripted_model import ScriptedEndpoint
from tests.adapters.support import call_async, call_blocking
from tests.paths import ROOT

PATIENCE = 120
PROGRAM = """
import sys
from openai import APIStatusError, OpenAI
from budget_cpython import budgeted
client = budgeted(OpenAI(base_url=sys.argv[1], api_key="none", max_retries=0), sys.argv[2])
for _ in range(int(sys.argv[3])):
    try:
        question = {"role": "user", "content": "Hello!"}
        client.chat.completions.create(model="small", messages=[question], max_tokens=5)
        print("sent")
    except APIStatusError as error:
        print("refused:", error.__cause__)
"""


@pytest.fixture(autouse=True)
def launched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Be started by pytest's own command, also in a process that xdist makes."""
    command = os.path.join(sysconfig.get_path("scripts"), "pytest")
    monkeypatch.setattr(sys.modules["__main__"], "__file__", command, raising=False)


@pytest.fixture(scope="module")
def endpoint() -> Iterator[ScriptedEndpoint]:
    with ScriptedEndpoint() as found:
        yield found


def program(folder: Path, name: str = "agent.py") -> Path:
    """Write the program below a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(PROGRAM)
    return folder / name


def run(*command: object, source: str = "", **more: str) -> tuple[list[str], str]:
    """Run Python, on a source if one is given; return what it printed, and its standard error."""
    done = subprocess.run(
        [sys.executable, *map(str, command)],
        input=source,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env={**os.environ, "PYTHONPATH": str(ROOT), **more},
        check=False,
    )
    return done.stdout.splitlines(), done.stderr


def ledger_file() -> Path:
    return Path(os.environ["XDG_STATE_HOME"]) / "microbudget" / "ledger.db"


def accounts() -> list[str]:
    with SqliteLedger(str(ledger_file())) as ledger:
        return sorted(ledger.accounts())


def test_a_limit_with_a_window_survives_the_program(
    tmp_path: Path, endpoint: ScriptedEndpoint
) -> None:
    agent = program(tmp_path / "my agents")
    first, said = run(agent, endpoint.base_url, "2 calls/day", 1)
    second, said_again = run(agent, endpoint.base_url, "2 calls/day", 2)
    account = f"local/{place_of(str(agent))}/openai"
    assert first == ["sent"]
    assert second[0] == "sent"
    assert f"refused: {account} has 0 of 2 calls per day left" in second[1]
    assert account.startswith("local/my_agents-")
    assert said.count("\n") == 1
    assert f"2 calls per day of {account} are counted in {ledger_file()} from now on" in said
    assert said_again == ""


def test_a_rolling_limit_is_shown_as_it_is_written(
    tmp_path: Path, endpoint: ScriptedEndpoint
) -> None:
    lines, said = run(program(tmp_path), endpoint.base_url, "1 call/90min", 2)
    assert lines[0] == "sent"
    assert "has 0 of 1 calls per 90 min left" in lines[1]
    assert "at the latest" in lines[1]
    assert "1 calls per 90 min of local/" in said


def test_changed_limits_replace_those_of_the_program_and_what_was_spent_stays(
    tmp_path: Path, endpoint: ScriptedEndpoint
) -> None:
    agent = program(tmp_path)
    assert run(agent, endpoint.base_url, "2 calls/day", 2)[0] == ["sent", "sent"]
    lines, said = run(agent, endpoint.base_url, "3 calls/day", 2)
    assert lines[0] == "sent"
    assert "0 of 3 calls per day" in lines[1]
    assert "are 3 calls per day now, and were 2 calls per day" in said


def test_two_programs_and_two_folders_of_one_name_share_nothing(
    tmp_path: Path, endpoint: ScriptedEndpoint
) -> None:
    one, two = program(tmp_path / "a" / "bot"), program(tmp_path / "b" / "bot")
    for file in (one, two, program(tmp_path / "a" / "bot", "other.py")):
        assert run(file, endpoint.base_url, "1 calls/day", 1)[0] == ["sent"]
    names = [f"local/{place_of(str(file))}/openai" for file in (one, two)]
    assert set(names) < set(accounts())
    assert len(accounts()) == 3


def test_a_program_without_a_file_is_python(endpoint: ScriptedEndpoint) -> None:
    assert run("-c", PROGRAM, endpoint.base_url, "1 calls/day", 1)[0] == ["sent"]
    assert accounts() == ["local/python/openai"]


def test_a_program_that_python_reads_from_a_pipe_is_python(endpoint: ScriptedEndpoint) -> None:
    assert run("-", endpoint.base_url, "1 calls/day", 1, source=PROGRAM)[0] == ["sent"]
    assert accounts() == ["local/python/openai"]


def test_a_worker_that_a_program_spawns_has_the_account_of_the_program(tmp_path: Path) -> None:
    folder = tmp_path / "agents"
    folder.mkdir()
    (folder / "work.py").write_text(
        "from budget_cpython.ledger.default_ledger import default_account\n"
        "def work():\n    print(default_account('openai'), flush=True)\n"
    )
    (folder / "__main__.py").write_text(
        "from multiprocessing import get_context\n"
        "from agents.work import work\n"
        "if __name__ == '__main__':\n"
        "    worker = get_context('spawn').Process(target=work)\n"
        "    worker.start()\n    worker.join()\n    work()\n"
    )
    lines, said = run("-m", "agents", PYTHONPATH=os.pathsep.join([str(ROOT), str(tmp_path)]))
    assert lines == [f"local/{place_of(str(folder / '__main__.py'))}/openai"] * 2, said


def test_the_folder_and_the_file_are_the_user_s_alone() -> None:
    budget("2 calls/day")
    assert stat.S_IMODE(ledger_file().parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(ledger_file().stat().st_mode) == 0o600


def test_a_program_that_a_launcher_starts_is_the_file_that_asks() -> None:
    assert default_account("openai") == f"local/{place_of(__file__)}/openai"


def test_names_that_differ_give_segments_that_differ() -> None:
    names = ["a b", "a_b", "a/b", "ä", "", ".", "..", "x" * 64, "x" * 65, "a.py", "A.py"]
    assert len({segment(name) for name in names}) == len(names)
    for name in names:
        Ledger().set_limits(f"local/{segment(name)}", [])  # is a valid path
    assert segment("agent.py") == "agent.py"


def test_two_things_of_one_program_never_replace_each_other_s_limits() -> None:
    with httpx.Client() as client:
        budgeted(client, "2 calls/day")
        budgeted(client, "2 calls/day")  # as for each request of a server
        with pytest.raises(ValueError, match=r"other limits in this program.*account='research"):
            budgeted(client, "9 calls/day")
        budgeted(client, "9 calls/day", account="research")
    budget("9 calls/day")
    names = [f"local/{place_of(__file__)}/{name}" for name in ("block", "httpx")]
    assert accounts() == [*names, "research"]


def test_a_block_with_a_window_draws_on_it_and_the_rest_is_its_own() -> None:
    for spent in (2, 4):
        with budget("4 calls/day + 2 calls") as block:
            call_blocking()
            asyncio.run(call_async())
            with pytest.raises(BudgetExceededError, match="has 0 of"):
                call_blocking()
        assert block.left["calls"] == 0
        assert f"{spent} of 4 calls per day, 2 of 2 calls" in repr(block)
    with budget("4 calls/day"), pytest.raises(BudgetExceededError, match="/block has 0 of 4 calls"):
        call_blocking()


def test_a_block_without_a_window_stays_in_memory() -> None:
    with budget("$0.50 + 20 calls + 10 min"):
        call_blocking()
    assert not ledger_file().exists()


def test_all_calls_of_a_function_share_its_window_and_each_has_the_rest() -> None:
    @budgeted("3 calls/day + 1 calls")
    def ask() -> None:
        call_blocking()

    @budgeted("1 calls/day")
    async def ask_once() -> None:
        await call_async()

    for _ in range(3):
        ask()
    with pytest.raises(BudgetExceededError, match=r"/@.* has 0 of 3 calls per day"):
        ask()
    asyncio.run(ask_once())
    with pytest.raises(BudgetExceededError, match=r"/@.* has 0 of 1 calls per day"):
        asyncio.run(ask_once())


def test_an_asyncio_client_uses_it_too(endpoint: ScriptedEndpoint) -> None:
    async def ask() -> list[Any]:
        raw = openai.AsyncOpenAI(base_url=endpoint.base_url, api_key="none", max_retries=0)
        async with raw, budgeted(raw, "3 calls/day") as client:
            question: Any = [{"role": "user", "content": "Hello!"}]
            calls = [
                client.chat.completions.create(model="small", messages=question, max_tokens=5)
                for _ in range(8)
            ]
            return await asyncio.gather(*calls, return_exceptions=True)

    refused = [one for one in asyncio.run(ask()) if isinstance(one, openai.APIStatusError)]
    assert [one.status_code for one in refused] == [402] * 5


def test_the_engine_of_the_environment_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("MICROBUDGET_ENGINE", f"sqlite:{tmp_path / 'engine.db'}")
    with caplog.at_level(logging.INFO):
        budget("2 calls/day", account="acme")
    assert "2 calls per day of acme are counted in $MICROBUDGET_ENGINE" in caplog.text
    assert "engine.db" not in caplog.text
    assert list(open_ledger(f"sqlite:{tmp_path / 'engine.db'}").accounts()) == ["acme"]
    assert not ledger_file().exists()


@pytest.mark.parametrize("state", ["file", "file/below"])
def test_a_place_that_cannot_be_written_is_refused_with_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / state))
    with pytest.raises(LedgerUnavailableError, match=r"ledger='sqlite:.*\$MICROBUDGET_ENGINE"):
        budget("2 calls/day")
    budget("2 calls")


def test_a_ledger_that_is_damaged_is_refused_with_the_way_out_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    (tmp_path / "microbudget").mkdir()
    (tmp_path / "microbudget" / "ledger.db").write_bytes(b"no ledger" * 1000)
    with pytest.raises(LedgerUnavailableError, match="is damaged") as refused:
        budget("2 calls/day")
    assert str(refused.value).count("Name another") == 1


def test_without_xdg_it_is_the_system_s_state_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "relative/is/ignored")
    monkeypatch.setenv("HOME", str(tmp_path))
    for platform, folder in (("linux", ".local/state"), ("darwin", "Library/Application Support")):
        monkeypatch.setattr(sys, "platform", platform)
        budget("2 calls/day")
        assert (tmp_path / folder / "microbudget" / "ledger.db").exists()


def test_a_malformed_option_sets_no_limits() -> None:
    with pytest.raises(ValueError, match="enforcement"):
        budget("2 calls/day", enforcement="stop")
    budget("3 calls/day")


def test_a_program_that_an_installed_framework_calls_is_the_users_own(tmp_path: Path) -> None:
    framework = tmp_path / "site-packages" / "framework.py"
    framework.parent.mkdir()
    framework.write_text(
        "from budget_cpython.ledger.default_ledger import default_account\n"
        "def ask():\n    return default_account('block')\n"
    )
    names: dict[str, Any] = {"__file__": str(framework), "__name__": "framework"}
    exec(compile(framework.read_text(), str(framework), "exec"), names)  # noqa: S102
    assert names["ask"]() == f"local/{place_of(__file__)}/block"
