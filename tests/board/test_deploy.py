"""What a deploy copies, removes and leaves alone, by the real mpremote on the unix board."""

import os
from pathlib import Path

import pytest

from budget_core.wall_clock import BUILT
from budget_cpython.board.build import CORE, Form, build_board, compile_package
from budget_cpython.board.known_boards import known_boards

from .support import (
    Cli,
    build_of,
    copied,
    digests,
    hashes,
    library,
    make_board,
    programs,
    read_until,
    remove,
    spend,
    write,
)


@pytest.mark.parametrize("form", ["source", "mpy"])
def test_a_deploy_copies_all_and_the_next_copies_nothing(
    new_cli: Cli, mine: Path, form: str
) -> None:
    first = new_cli("deploy", mine, f"--{form}")
    assert first.code == 0
    wanted = hashes(build_of(mine, Form(form)))
    assert copied(first.out) == len(wanted)
    total = sum(map(len, build_of(mine, Form(form)).files.values()))
    assert f"copied {len(wanted)} files, {total:,} bytes" in first.out
    assert "made the state's slots in /budget" in first.out
    assert programs(digests(new_cli.board)) == wanted
    second = new_cli("deploy", mine, f"--{form}")
    assert second.code == 0
    assert f"all {len(wanted)} files are there already: nothing to copy\n" in second.out
    assert copied(second.out) == 0


def test_precompiled_is_the_default(cli: Cli, mine: Path) -> None:
    assert "nothing to copy" in cli("deploy", mine).out


@pytest.mark.parametrize("name", ["main.py", "boot.py", "settings.py"])
def test_a_file_that_changed_is_copied_and_the_list_of_all(cli: Cli, mine: Path, name: str) -> None:
    with (mine / name).open("a") as file:
        file.write("# changed\n")
    said = cli("deploy", mine)
    assert said.code == 0
    copied = [line.split()[1] for line in said.out.splitlines() if "copy" in line]
    assert sorted(copied) == sorted([f"/{name}", "/deployed.py"])
    assert programs(digests(cli.board)) == hashes(build_of(mine, Form.MPY))


def test_a_module_that_changed_on_the_board_is_copied_and_the_programs_come_back(
    cli: Cli, mine: Path
) -> None:
    write(cli.board, "/lib/budget_core/errors.mpy", "not what was there")
    said = cli("deploy", mine)
    assert copied(said.out) == 1
    assert programs(digests(cli.board)) == hashes(build_of(mine, Form.MPY))


def test_files_that_would_be_imported_instead_are_removed(cli: Cli, mine: Path) -> None:
    write(cli.board, "/lib/budget_core/errors.py", "wrong = True")
    write(cli.board, "/lib/budget_core/from_long_ago.mpy", "old")
    said = cli("deploy", mine)
    assert said.code == 0
    assert copied(said.out) == 0
    assert "2 removed" in said.out
    assert programs(digests(cli.board)) == hashes(build_of(mine, Form.MPY))


def test_a_deploy_moves_the_core_to_romfs_and_back(new_cli: Cli, mine: Path) -> None:
    assert new_cli("deploy", mine).code == 0
    said = new_cli("deploy", mine, "--romfs")
    assert said.code == 0
    assert "write the ROMFS image" in said.out
    assert library(digests(new_cli.board)) == {}
    assert new_cli("status").code == 0
    assert "nothing to copy" in new_cli("deploy", mine, "--romfs").out
    assert "write an empty ROMFS image" in new_cli("deploy", mine).out
    assert programs(digests(new_cli.board)) == hashes(build_of(mine, Form.MPY))


def test_without_a_romfs_partition_nothing_changes(cli: Cli, mine: Path) -> None:
    before = digests(cli.board)
    said = cli("deploy", mine, "--romfs")
    assert said.code == 1
    assert "no ROMFS partition: deploy with --mpy" in said.err
    assert digests(cli.board) == before


def test_state_and_secrets_are_left_alone(cli: Cli, mine: Path) -> None:
    spend(cli.board, 1234)
    write(cli.board, "/secret.py", "API_KEY = 'sk-mine'")
    write(cli.board, "/lib/budget_core/errors.mpy", "not what was there")
    before = digests(cli.board)
    assert "0 removed\n" in cli("deploy", mine).out
    after = digests(cli.board)
    kept = [path for path in before if path.startswith("/budget/") or path == "/secret.py"]
    assert "/secret.py" in kept
    assert "/budget/made" in kept
    assert {path: after[path] for path in kept} == {path: before[path] for path in kept}


def test_secrets_are_copied_when_asked_and_are_in_no_output(cli: Cli, mine: Path) -> None:
    secrets = mine / "secret.py"
    secrets.write_text("API_KEY = 'sk-mine'")
    said = cli("deploy", mine, "--secrets", secrets)
    assert copied(said.out) == 1
    assert "/secret.py" in digests(cli.board)
    assert "sk-mine" not in said.out + said.err
    assert copied(cli("deploy", mine, "--secrets", secrets).out) == 0


def test_secrets_that_are_missing_are_named(cli: Cli, mine: Path) -> None:
    (mine / "secret_example.py").write_text("API_KEY = ''")
    assert "secret" not in cli("deploy", mine).out
    with (mine / "settings.py").open("a") as file:
        file.write('BASE_URL = "https://llm.example/v1"\n')
    assert "no /secret.py" in cli("deploy", mine).out
    write(cli.board, "/secret.py", "API_KEY = 'sk-mine'")
    assert "secret" not in cli("deploy", mine).out


def test_a_state_that_went_missing_is_not_made_again(cli: Cli, mine: Path) -> None:
    remove(cli.board, [path for path in digests(cli.board) if path.startswith("/budget/")])
    write(cli.board, "/lib/budget_core/errors.mpy", "not what was there")
    said = cli("deploy", mine)
    assert "the budget's state in /budget is gone" in said.out
    assert not [path for path in digests(cli.board) if path.startswith("/budget/")]
    status = cli("status")
    assert status.code == 1
    assert "damaged" in status.out


def test_the_same_sources_give_the_same_bytes(tmp_path: Path) -> None:
    cores = []
    for folder in (tmp_path / "one", tmp_path / "two"):
        compile_package(CORE, folder)
        cores.append({str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*.mpy")})
    assert cores[0] == cores[1] != {}
    builds = [build_board(make_board(tmp_path / str(n)), Form.MPY) for n in range(2)]
    first, second = ({**build.files, "/deployed.py": b""} for build in builds)
    assert first == second
    module: dict[str, object] = {}
    exec(builds[0].files["/deployed.py"], module)  # noqa: S102 - ours
    assert (module["BOARD"], module["PROVISIONED"], module["BUILT"]) == ("0", True, BUILT)


def test_modules_that_the_program_does_not_use_are_left_out_and_the_commands_work(
    new_cli: Cli, mine: Path
) -> None:
    assert new_cli("deploy", mine).code == 0
    found = library(digests(new_cli.board))
    assert {path.split("/")[3] for path in found if path.count("/") > 3} == {"board"}
    assert "/lib/budget_core/file_store.mpy" in found
    assert "/lib/budget_core/turn_budget.mpy" not in found
    assert new_cli("status").code == 0
    assert new_cli("reset", "--yes").code == 0


def test_a_room_or_a_module_is_copied_when_asked_and_removed_when_not(cli: Cli, mine: Path) -> None:
    said = cli("deploy", mine, "--with", "ledger", "--with", "turn_budget")
    assert said.code == 0
    found = library(digests(cli.board))
    assert {"/lib/budget_core/ledger/lease.mpy", "/lib/budget_core/turn_budget.mpy"} <= set(found)
    assert cli("deploy", mine).code == 0
    assert not [path for path in library(digests(cli.board)) if "/ledger/" in path]


def test_modules_for_type_checkers_are_not_deployed(mine: Path) -> None:
    files = build_of(mine, Form.SOURCE).files
    assert not [path for path in files if path.endswith("_types.py")]
    assert "/lib/budget_core/daily_tracker.py" in files
    assert not [path for path, data in files.items() if b"TYPE_CHECKING" in data]


@pytest.mark.slow
def test_every_board_of_ours_can_be_deployed(cli: Cli) -> None:
    for name, folder in known_boards().items():
        assert cli("deploy", name, "--force").code == 0
        wanted = hashes(build_of(folder, Form.MPY))
        assert programs(digests(cli.board)) == wanted


def test_the_new_program_is_started_without_no_reset(cli: Cli, mine: Path) -> None:
    (mine / "main.py").write_text("open('/ran', 'w').close()\nprint('it ran')\n")
    cli("deploy", mine, "--no-reset")
    assert "/ran" not in digests(cli.board)
    cli("deploy", mine)
    line = os.open(cli.board.port, os.O_RDWR | os.O_NOCTTY)
    assert "it boots" in read_until(line, "it ran")
    os.close(line)
    assert "/ran" in digests(cli.board)


def test_modules_that_the_programs_import_are_copied_and_no_others(
    new_cli: Cli, mine: Path
) -> None:
    (mine / "main.py").write_text("import lamps\nimport secret\nprint(lamps.pins.RED)\n")
    (mine / "lamps.py").write_text("import pins\n")
    (mine / "pins.py").write_text("RED = 4\n")
    (mine / "unused.py").write_text("raise ValueError\n")
    (mine / "secret.py").write_text("API_KEY = 'sk-1'\n")
    assert new_cli("deploy", mine).code == 0
    found = {path for path in digests(new_cli.board) if path.count("/") == 1}
    assert found >= {"/lamps.py", "/pins.py", "/main.py"}
    assert not found & {"/unused.py", "/secret.py"}


def test_a_package_that_the_programs_import_is_copied(new_cli: Cli, mine: Path) -> None:
    (mine / "main.py").write_text("from drivers import soil\nprint(soil.PIN)\n")
    (mine / "drivers").mkdir()
    (mine / "drivers/__init__.py").touch()
    (mine / "drivers/soil.py").write_text("from pins import PIN\n")
    (mine / "pins.py").write_text("PIN = 4\n")
    assert new_cli("deploy", mine).code == 0
    found = digests(new_cli.board)
    assert {"/drivers/__init__.py", "/drivers/soil.py", "/pins.py"} <= set(found)


def test_a_module_with_a_syntax_error_is_named(new_cli: Cli, mine: Path) -> None:
    (mine / "main.py").write_text("import lamps\n")
    (mine / "lamps.py").write_text("1 +\n")
    said = new_cli("deploy", mine)
    assert said.code == 2
    assert "lamps.py, line 1: this is not Python" in said.err
