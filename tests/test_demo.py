"""The demo on both runtimes, against the embedded endpoint over a real socket."""

import contextlib
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.paths import ROOT

PATIENCE = 300
RUNTIMES = ("micropython", "cpython")
DOLLARS = "openai's client, within five cents"
AGENT = "an agent on micropython, with a wind-down"


def copy(folder: Path) -> Path:
    """Copy what the demo needs, so that its state is the test's own."""
    for name in ("examples", "budget_core", "budget_cpython", "scripted_model", "docs"):
        unfinished = shutil.ignore_patterns("*.pyc.*")  # bytecode that another process writes
        shutil.copytree(ROOT / name, folder / name, ignore=unfinished)
    program = folder / "examples/folder_agent/main.py"
    begun, day = program.read_text(), "DailyBudgetConfig("
    assert begun.count(day) == 1
    in_half_a_day = (time.gmtime().tm_hour + 12) % 24  # the day does not end in the midst of a test
    program.write_text(begun.replace(day, f"{day}reset_hour_utc={in_half_a_day}, "))
    return folder


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a copy of the demo for a test."""
    return copy(tmp_path)


def demo(checkout: Path, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name in ("PATH", "MICROPYTHON", "HOME", "LANG")
    }
    return subprocess.run(
        [sys.executable, "examples/folder_agent/demo.py", *arguments],
        cwd=checkout,
        env={**inherited, **environment},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def lines(output: str, kind: str) -> list[str]:
    return [line[8:] for line in output.splitlines() if line.startswith(f"{kind:<8}")]


def tokens_today(output: str) -> list[int]:
    return [int(re.findall(r"(\d+)/\d+ tokens", line)[0]) for line in lines(output, "today")]


def parts(output: str) -> dict[str, str]:
    """Return what the demo prints, by its headings."""
    _, *found = re.split(r"^--- (.+)\n", output, flags=re.MULTILINE)
    return dict(zip(found[::2], found[1::2], strict=True))


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return what the demo shows by default, and what it shows again."""
    folder = copy(tmp_path_factory.mktemp("demo"))
    runs = [demo(folder), demo(folder)]
    assert [(done.returncode, done.stderr) for done in runs] == [(0, "")] * 2
    return [done.stdout for done in runs]


@pytest.fixture(scope="module")
def shown(outputs: list[str]) -> dict[str, str]:
    """Return what the demo shows first, by its headings."""
    return parts(outputs[0])


def test_a_budgeted_run_winds_down_and_is_shown_in_full_once(shown: dict[str, str]) -> None:
    assert list(shown) == [DOLLARS, AGENT, "the same agent on cpython", "verdict"]
    output = shown[AGENT]
    assert len(lines(output, "notice")) == 1
    assert lines(output, "end")[0].startswith("completed after")
    assert "because of the budget notice" in output
    calls = len(lines(output, "call"))
    assert len(lines(output, "budget")) == len(lines(output, "turn")) == calls > 2
    assert lines(output, "limit") == []
    assert lines("".join(list(shown.values())[2:]), "call") == []


def test_a_real_client_is_refused_at_its_dollars_and_its_work_is_kept(
    shown: dict[str, str],
) -> None:
    *pages, refused, last = shown[DOLLARS].splitlines()
    found = [re.fullmatch(r"(\S+\.md) +\$(0\.0\d+) of \$0\.05 spent +(.+)", page) for page in pages]
    assert all(found)
    spent = [float(page[2]) for page in found if page]
    assert spent == sorted(spent)
    assert 0.025 < spent[-1] <= 0.05
    assert refused.startswith("refused with 402, not sent: ")
    assert "of $0.05 per run left" in refused
    calls, kept, of = map(int, re.findall(r"\d+", last))
    assert calls == kept == len(pages)
    assert 1 < kept < of


def test_the_other_runtime_stands_beside_it_in_a_few_lines(shown: dict[str, str]) -> None:
    table = shown["the same agent on cpython"].splitlines()
    rows = {line[:12].strip(): line[12:].split("  ") for line in table}
    rows = {name: [one.strip() for one in row if one.strip()] for name, row in rows.items()}
    assert len(rows) <= 8
    assert rows["runtime"][0].startswith("micropython ")
    assert rows["runtime"][1].startswith("cpython 3.")
    for name in ("calls", "tool calls", "limit"):
        assert len(set(rows[name])) == 1, name
    assert rows["answer"] == ["word for word the same"]
    calls = len(lines(shown[AGENT], "call"))
    assert rows["calls"] == [str(calls)] * 2


def test_the_verdict_contrasts_both_ends_and_explains_cached_tokens(shown: dict[str, str]) -> None:
    verdict = shown["verdict"]
    gentle, answer, abrupt, last, *_ = verdict.splitlines()
    assert gentle.startswith("with wind-down  finished: 6 calls")
    assert "I read 4 of 13 files." in answer or re.search(r"I read \d+ of \d+ files\.", answer)
    assert abrupt.startswith("without         stopped, turn limit: 8 of 8 turns: 8 calls")
    assert "Reading " in last
    times = float(re.findall(r"spent ([\d.]+) times as many tokens", verdict)[0])
    assert times > 1.2
    used, cached, counted = map(
        int,
        re.findall(
            r"first run's (\d+) tokens, (\d+) were.*day counts a tenth of each: (\d+)",
            verdict,
            re.DOTALL,
        )[0],
    )
    assert 0 < cached < used
    assert abs(used - 0.9 * cached - counted) < 10


def test_the_days_total_goes_on_across_runtimes_and_restarts(outputs: list[str]) -> None:
    totals = [tokens_today(output) for output in outputs]
    others = [int(re.findall(r"^the day +\d+ +(\d+)$", text, re.MULTILINE)[0]) for text in outputs]
    assert totals[0][0] == 0
    assert totals[0][0] < totals[0][1] < others[0] < totals[1][0] < totals[1][1] < others[1]


def test_the_abrupt_run_can_be_the_one_that_is_shown(checkout: Path) -> None:
    found = parts(demo(checkout, "--no-warnings").stdout)
    _, agent, *_ = found
    assert agent == "an agent on micropython, without a wind-down"
    assert found["verdict"].startswith("with wind-down  finished: ")
    assert lines(found[agent], "limit") == ["turn limit: 8 of 8 turns"]


def on_a_terminal(checkout: Path, **environment: str) -> str:
    """Return what the demo writes to a terminal."""
    inherited = {name: os.environ[name] for name in ("PATH", "MICROPYTHON") if name in os.environ}
    ours, theirs = os.openpty()
    with subprocess.Popen(
        [sys.executable, "examples/folder_agent/demo.py", "--only", "micropython"],
        cwd=checkout,
        env={**inherited, **environment},
        stdin=subprocess.DEVNULL,
        stdout=theirs,
    ) as running:
        os.close(theirs)
        found = b""
        with contextlib.suppress(OSError):  # its end, on Linux
            while piece := os.read(ours, 4096):
                found += piece
        assert running.wait(PATIENCE) == 0
    os.close(ours)
    return found.decode()


def test_there_are_colours_on_a_terminal_only_and_not_if_unwanted(checkout: Path) -> None:
    coloured = on_a_terminal(checkout)
    assert "\x1b[33mnotice  \x1b[0m[Budget notice]" in coloured
    assert "\x1b[32manswer  \x1b[0m" in coloured
    assert "\x1b" not in on_a_terminal(checkout, NO_COLOR="1")
    assert "\x1b" not in demo(checkout, "--only", "micropython").stdout


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_without_warnings_the_run_is_stopped_hard(checkout: Path, runtime: str) -> None:
    done = demo(checkout, "--no-warnings", "--only", runtime)
    assert done.returncode == 0, done.stderr
    assert lines(done.stdout, "notice") == []
    assert lines(done.stdout, "end")[0].startswith("stopped after 8 calls")
    assert lines(done.stdout, "limit") == ["turn limit: 8 of 8 turns"]


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_spent_day_is_demoted_to_the_fallback_model(checkout: Path, runtime: str) -> None:
    settings = checkout / "examples/folder_agent/settings.py"
    text = settings.read_text()
    settings.write_text(re.sub(r"DAILY_BUDGET = .*", "DAILY_BUDGET = 100", text))
    done = demo(checkout, "--only", runtime)
    models = [line.split(" ")[1] for line in lines(done.stdout, "call")]
    assert models[0] == "scripted,"
    assert set(models[1:]) == {"scripted-mini,"}


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_an_endpoint_that_cannot_be_reached_gives_one_clear_line(
    checkout: Path, runtime: str
) -> None:
    done = demo(
        checkout, "--only", runtime, OPENAI_BASE_URL="http://127.0.0.1:1/v1", OPENAI_MODEL="m"
    )
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "127.0.0.1:1" in line
    assert "ECONNREFUSED" in line or "Connect call failed" in line


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_an_endpoint_that_refuses_gives_one_clear_line_without_the_key(
    checkout: Path, runtime: str
) -> None:
    from scripted_model import ScriptedEndpoint

    with ScriptedEndpoint(api_key="right") as endpoint:
        done = demo(
            checkout,
            "--only",
            runtime,
            OPENAI_BASE_URL=endpoint.base_url,
            OPENAI_API_KEY="sk-wrong-and-secret",
            OPENAI_MODEL="m",
        )
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "HTTP 401" in line
    assert "sk-wrong-and-secret" not in done.stdout + done.stderr


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_damaged_state_denies_for_the_day(checkout: Path, runtime: str) -> None:
    demo(checkout, "--only", runtime)
    for slot in (checkout / ".local/demo/budget").glob("*/state.json"):
        slot.write_bytes(slot.read_bytes().replace(b'"tokens":', b'"tokens":-'))
    done = demo(checkout, "--only", runtime)
    assert {line.split(" ")[1] for line in lines(done.stdout, "call")} == {"scripted-mini,"}
    assert tokens_today(done.stdout)[-1] >= 200_000


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_tools_see_nothing_outside_the_folder(checkout: Path, runtime: str) -> None:
    probe = """
import sys
sys.path[:0] = ["examples/folder_agent"]
from folder import Folder
folder = Folder("docs", 50, 10)
for path in ("../README.md", "/etc/passwd", "link", "way/out", ".hidden", "", ".", "x\\0y", "sub"):
    try:
        print("read", path, folder.read_file(path))
    except ValueError:
        pass
print(folder.list_files())
print(folder.read_file("long.txt"))
"""
    docs = checkout / "docs"
    shutil.rmtree(docs)
    (docs / "sub").mkdir(parents=True)
    (docs / "sub/deep.md").write_text("deep")
    (docs / "long.txt").write_text("äöü" * 100)
    (docs / ".hidden").write_text("hidden")
    (docs / "link").symlink_to("/etc/passwd")
    (docs / "way").symlink_to("/etc")
    program = checkout / "probe.py"
    program.write_text(probe)
    executable = sys.executable if runtime == "cpython" else os.environ["MICROPYTHON"]
    done = subprocess.run(
        [executable, str(program)], cwd=checkout, capture_output=True, text=True, check=True
    )
    assert done.stdout == "long.txt\t600\nsub/deep.md\t4\näöüäö\n(cut here)\n"


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_folder_that_is_not_there_is_named(checkout: Path, runtime: str) -> None:
    done = demo(checkout, "no-such-folder", "--only", runtime)
    assert done.returncode == 2
    assert "no-such-folder" in done.stderr
