"""Which account of the default ledger a command draws on."""

from pathlib import Path

import pytest

from budget_cpython.run.accounts import account_of


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("python agent.py --name x", "agent.py"),
        ("python3.12 -u agent.py other.js", "agent.py"),
        ("node agent.js", "node"),  # there is no such file
        ("./agent.py notes.txt", "agent.py"),
        ("env A=1 uv run agent.py", "agent.py"),
        ("python -m my.agent", "my.agent"),
        ("python -c pass", "python"),
        ("npm start", "npm"),
        ("claude agent.py", "claude"),  # reads what it is given
    ],
)
def test_an_account_is_of_the_program_and_its_folder(
    command: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    accounts = set()
    for folder in (tmp_path / "one" / "bot", tmp_path / "two" / "bot"):
        folder.mkdir(parents=True)
        (folder / "agent.py").write_text("")
        monkeypatch.chdir(folder)
        accounts.add(account_of(command.split()))
    assert len(accounts) == 2
    for account in accounts:
        assert account.startswith("local/bot-")
        assert account.endswith(f"/{name}/run")
