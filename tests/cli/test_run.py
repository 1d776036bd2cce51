"""`microbudget run`: calls of programs in several languages, and what the command says."""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from budget_core.ledger.limit import Limit
from budget_cpython.cli import main
from budget_cpython.ledger.default_ledger import ENGINE_VARIABLE, place_of
from budget_cpython.ledger.sqlite import SqliteLedger
from budget_cpython.web.keys import KeyFile
from scripted_model import ScriptedEndpoint
from tests.paths import ROOT
from tests.ports import kept_port
from tests.run.support import PATIENCE, PYTHON, RUN, Started, environment, report_of, run
from tests.serve.support import Service

UNPATIENT = "OpenAI(max_retries=0)"
BODY = '{"model": "MODEL", "messages": [{"role": "user", "content": "Say hello."}]}'
CURL = """
for i in $(seq CALLS); do
    curl -s -o /dev/null -w '%{http_code}\\n' "$OPENAI_BASE_URL/chat/completions" \\
        -H 'Content-Type: application/json' -d 'BODY'
done
"""
NODE = """
let failed = 0;
for (let i = 0; i < CALLS; i++) {
    const answer = await fetch(process.env.OPENAI_BASE_URL + '/chat/completions', {
        method: 'POST', headers: {'Content-Type': 'application/json'}, body: 'BODY',
    });
    console.log(answer.status);
    if (!answer.ok) failed = 1;
}
process.exit(failed);
"""
SDK = """
from openai import OpenAI, APIStatusError
client = OpenAI()
for i in range(CALLS):
    try:
        with client.chat.completions.create(
            model="MODEL", messages=[{"role": "user", "content": "Say hello."}], stream=True
        ) as stream:
            for chunk in stream:
                pass
        print(200)
    except APIStatusError as error:
        print(error.status_code)
        if FAILS: raise
"""


@pytest.fixture
def endpoint() -> Iterator[ScriptedEndpoint]:
    with ScriptedEndpoint() as endpoint:
        yield endpoint


def filled(program: str, calls: int = 1, model: str = "gpt-4o-mini", fails: bool = True) -> str:
    """Return a program with its number of calls and its model."""
    for name, value in (("BODY", BODY), ("CALLS", calls), ("MODEL", model), ("FAILS", fails)):
        program = program.replace(name, str(value))
    return program


def curl(calls: int = 1, model: str = "gpt-4o-mini") -> tuple[str, ...]:
    return "--", "sh", "-c", filled(CURL, calls, model)


def sdk(calls: int = 1, **more: object) -> tuple[str, ...]:
    return "--", PYTHON, "-c", filled(SDK, calls, **more)  # type: ignore[arg-type]


PROGRAMS = {
    "curl": ("sh", "-c", CURL),
    "node": ("node", "--input-type=module", "-e", NODE),
    "openai": (PYTHON, "-c", SDK),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_each_program_used_is_said_by_model(
    endpoint: ScriptedEndpoint, tmp_path: Path, name: str
) -> None:
    *program, script = PROGRAMS[name]
    if shutil.which(program[0]) is None:
        pytest.skip(f"{program[0]} is not installed")
    file = tmp_path / "report.json"
    more = {"OPENAI_BASE_URL": endpoint.base_url}
    command = (*program, filled(script, 3))
    done = run("--budget", "$1 + 10 min", "--report", file, "--", *command, more=more)
    assert (done.code, done.out) == (0, "200\n" * 3)
    first, heads, row = done.err.splitlines()
    assert first.startswith("microbudget: 3 calls, ")
    assert heads.split() == ["model", "calls", "input", "cached", "output", "cost"]
    assert row.split()[:2] == ["gpt-4o-mini", "3"]
    report = report_of(file)
    used = report["models"]["gpt-4o-mini"]
    assert used["calls"] == 3
    assert used["input"] > 0 < used["output"]
    assert (used["estimated"], used["unpriced"]) == (0, 0)
    (spent,) = [row["spent"] for row in report["limits"] if row["axis"] == "nano_usd"]
    assert spent == used["nano_usd"] == report["total"]["nano_usd"] > 0


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_call_beyond_the_budget_is_refused_once(endpoint: ScriptedEndpoint, name: str) -> None:
    *program, script = PROGRAMS[name]
    if shutil.which(program[0]) is None:
        pytest.skip(f"{program[0]} is not installed")
    more = {"OPENAI_BASE_URL": endpoint.base_url}
    command = (*program, filled(script, 4, fails=False))
    done = run("--budget", "2 calls", "--", *command, more=more)
    assert done.out.split() == ["200", "200", "402", "402"]
    assert len(endpoint.requests) == 2
    assert "2 calls were refused: " in done.err


@pytest.mark.parametrize("more", [(), ("--max-tokens", "40")], ids=["", "--max-tokens"])
def test_a_budget_of_calls_and_time_changes_nothing_in_a_request(
    endpoint: ScriptedEndpoint, more: tuple[str, ...]
) -> None:
    variables = {"OPENAI_BASE_URL": endpoint.base_url}
    done = run("--budget", "20 calls + 10 min", *more, *curl(), more=variables)
    assert (done.code, done.out) == (0, "200\n")
    (sent,) = [request.body for request in endpoint.requests]
    limit = {"max_completion_tokens": 40} if more else {}
    assert sent == {**json.loads(filled(BODY)), **limit}


def test_a_call_that_breaks_off_has_one_figure(endpoint: ScriptedEndpoint, tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    program = ("--", PYTHON, "-c", filled(SDK, 1, "stream-cut").replace("OpenAI()", UNPATIENT))
    prices = tmp_path / "prices.toml"
    prices.write_text("[prices.stream-cut]\ninput = 1\noutput = 2\n")
    more = {"OPENAI_BASE_URL": endpoint.base_url}
    options = ("--budget", "$1", "--prices", prices, "--report", file)
    done = run(*options, *program, more=more)
    assert done.code != 0
    report = report_of(file)
    total = report["total"]
    spent = {row["axis"]: (row["spent"], row["held"]) for row in report["limits"]}
    assert spent["tokens"] == (total["input"] + total["output"], 0)
    assert spent["nano_usd"] == (total["nano_usd"], 0)
    assert (total["output"] >= 4_096, total["estimated"]) == (True, 1)
    first = done.err[done.err.index("microbudget: ") :].splitlines()[0]
    assert first.startswith(f"microbudget: 1 call, {spent['tokens'][0]:,} tokens, $0.00")
    assert first.endswith(" (1 call estimated)")


VENDORS = {
    "openai": ("$OPENAI_API_BASE/responses", '{"model": "gpt-4o-mini", "input": "Say hello."}'),
    "anthropic": (
        "$ANTHROPIC_BASE_URL/v1/messages",
        BODY.replace("{", '{"max_tokens": 100, ', 1).replace("MODEL", "claude-haiku-4-5"),
    ),
    "anthropic, its base URL taken with the version": (
        "$ANTHROPIC_BASE_URL/messages",
        BODY.replace("{", '{"max_tokens": 100, ', 1).replace("MODEL", "claude-haiku-4-5"),
    ),
    "google": (
        "$GOOGLE_GEMINI_BASE_URL/v1beta/models/gemini-2.5-flash:generateContent",
        '{"contents": [{"role": "user", "parts": [{"text": "Say hello."}]}]}',
    ),
    "google, as LiteLLM asks": (
        "$GEMINI_API_BASE/models/gemini-2.5-flash:generateContent",
        '{"contents": [{"role": "user", "parts": [{"text": "Say hello."}]}]}',
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", VENDORS)
def test_calls_in_each_vendors_format_are_counted(
    endpoint: ScriptedEndpoint, tmp_path: Path, name: str
) -> None:
    url, body = VENDORS[name]
    file = tmp_path / "report.json"
    upstreams = [f"openai={endpoint.base_url}"]
    upstreams += [f"{vendor}={endpoint.root_url}" for vendor in ("anthropic", "google")]
    options = [part for row in upstreams for part in ("--upstream", row)]
    post = "curl -s -w '%{http_code}\\n' -o /dev/null -H 'Content-Type: application/json'"
    command = ("sh", "-c", f"for i in 1 2; do {post} \"{url}\" -d '{body}'; done")
    done = run("--budget", "1 calls", "--report", file, *options, "--", *command)
    assert done.out.split() == ["200", "402"]
    (used,) = report_of(file)["models"].values()
    assert (used["calls"], used["estimated"], used["unpriced"]) == (1, 0, 0)


def test_a_command_that_fails_for_want_of_budget_is_75(endpoint: ScriptedEndpoint) -> None:
    more = {"OPENAI_BASE_URL": endpoint.base_url}
    done = run("--budget", "2 calls", *sdk(5), more=more)
    assert (done.code, done.out) == (75, "200\n200\n402\n")
    assert "the budget ended the command; the command's own exit code was 1" in done.err


@pytest.mark.slow
def test_a_command_that_winds_down_has_its_own_exit_code(endpoint: ScriptedEndpoint) -> None:
    more = {"OPENAI_BASE_URL": endpoint.base_url}
    assert run("--budget", "2 calls", *sdk(3, fails=False), more=more).code == 0


@pytest.mark.slow
def test_a_failure_within_the_budget_is_the_commands_own(endpoint: ScriptedEndpoint) -> None:
    more = {"OPENAI_BASE_URL": endpoint.base_url}
    assert run("--budget", "2 calls", *sdk(1, model="error-400"), more=more).code == 1


@pytest.mark.slow
def test_the_clients_key_reaches_the_upstream() -> None:
    with ScriptedEndpoint(api_key="of-the-client") as endpoint:
        more = {"OPENAI_BASE_URL": endpoint.base_url}
        assert run("--budget", "5 calls", *sdk(), more=more).code == 0


@pytest.mark.slow
def test_an_http_proxy_is_not_used_on_the_way_to_ours(endpoint: ScriptedEndpoint) -> None:
    with kept_port() as dead:
        proxy = f"http://127.0.0.1:{dead}"
        more = {"OPENAI_BASE_URL": endpoint.base_url.replace("127.0.0.1", "localhost")}
        more |= {"HTTP_PROXY": proxy, "http_proxy": proxy, "NO_PROXY": "localhost"}
        assert run("--budget", "5 calls", *curl(), more=more).out == "200\n"


@pytest.mark.slow
def test_an_upstream_may_be_named(endpoint: ScriptedEndpoint) -> None:
    url = endpoint.base_url
    script = filled(CURL).replace("OPENAI_BASE_URL", "MY_LLM")
    command = ("--", "sh", "-c", script)
    options: tuple[str, ...] = (
        "--budget",
        "5 calls",
        "--upstream",
        f"mine={url}",
        "--set",
        "MY_LLM=/mine",
    )
    assert run(*options, *command).out == "200\n"
    options = ("--budget", "5 calls", "--set", "MY_LLM")
    assert run(*options, *command, more={"MY_LLM": url}).out == "200\n"


@pytest.mark.slow
def test_a_model_without_a_known_price_needs_one_where_dollars_are_limited(
    endpoint: ScriptedEndpoint, tmp_path: Path
) -> None:
    more = {"OPENAI_BASE_URL": endpoint.base_url}
    program = sdk(1, model="my-model")
    done = run("--budget", "$1", *program, more=more)
    assert (done.code, done.out) == (75, "402\n")
    assert "1 call was refused: " in done.err
    assert "my-model" in done.err
    file = tmp_path / "prices.toml"
    file.write_text('[prices."my-model"]\ninput = "1000"\noutput = "2000"\n')
    done = run("--budget", "$10", "--prices", file, *program, more=more)
    assert (done.code, done.out) == (0, "200\n")
    assert "price unknown" not in done.err
    file.write_text('[accounts.me]\nlimit = "$1"\n')
    done = run("--budget", "$10", "--prices", file, *program, more=more)
    assert done.code == 2
    assert "a run reads [prices.…] and [deployments]" in done.err


@pytest.mark.slow
def test_an_answer_in_flight_when_the_run_ends_counts_as_one_call(
    endpoint: ScriptedEndpoint, tmp_path: Path
) -> None:
    more = {"OPENAI_BASE_URL": endpoint.base_url}
    file = tmp_path / "report.json"
    budget = ("--budget", "5 calls", "--report", str(file))
    with Started(*budget, *sdk(1, model="hang"), more=more) as started:
        end = time.monotonic() + PATIENCE
        while not endpoint.requests:
            assert time.monotonic() < end
            time.sleep(0.01)
        started.process.terminate()
        assert started.end().code == 128 + signal.SIGTERM
    used = report_of(file)["models"]["hang"]
    assert (used["calls"], used["estimated"]) == (1, 1)
    assert used["input"] > 0


def test_notices_are_sent_if_they_are_wanted(endpoint: ScriptedEndpoint) -> None:
    more = {"OPENAI_BASE_URL": endpoint.base_url}
    for options in ((), ("--notices",)):
        assert run("--budget", "2 calls", *options, *curl(2), more=more).out == "200\n200\n"
    last = [len(request.body["messages"]) for request in endpoint.requests]
    assert last == [1, 1, 1, 2]


def test_a_run_refuses_the_same_call_again_and_again(endpoint: ScriptedEndpoint) -> None:
    more = {"OPENAI_BASE_URL": endpoint.base_url}
    done = run("--budget", "9 calls/90min", "--repeats", "3", *curl(5), more=more)
    assert done.out.split() == ["200", "200", "402", "402", "402"]
    assert "repeats=3 refuses this one" in done.err


@pytest.mark.slow
def test_a_strict_run_refuses_what_is_not_a_model_call(endpoint: ScriptedEndpoint) -> None:
    more = {"OPENAI_BASE_URL": endpoint.base_url}
    get = "curl -s -o /dev/null -w '%{http_code}' $OPENAI_BASE_URL/files"
    said = [
        run("--budget", "9 calls", *options, "--", "sh", "-c", get, more=more)
        for options in ((), ("--strict",))
    ]
    assert [done.out for done in said] == ["404", "403"]


@pytest.mark.slow
def test_a_fallback_model_answers_where_the_other_does_not_fit(
    endpoint: ScriptedEndpoint,
) -> None:
    more = {"OPENAI_BASE_URL": endpoint.base_url}
    options = ("--budget", "$0.00001", "--fallback-model", "gpt-4.1-nano")
    run(*options, *curl(1, "gpt-4-32k"), more=more)
    assert [request.body["model"] for request in endpoint.requests] == ["gpt-4.1-nano"]


@pytest.mark.slow
def test_a_run_in_a_run_draws_on_both(endpoint: ScriptedEndpoint) -> None:
    more = {"OPENAI_BASE_URL": endpoint.base_url}
    inner = (*RUN, "--budget", "5 calls", *sdk(3))
    done = run("--budget", "1 calls", "--", *inner, more=more)
    assert (done.code, done.out) == (75, "200\n402\n")
    assert len(endpoint.requests) == 1
    assert done.err.count("microbudget: 1 call was refused") == 2


@pytest.mark.slow
def test_the_example_runs_an_agent_that_knows_nothing_of_budgets() -> None:
    done = subprocess.run(
        [PYTHON, str(ROOT / "examples/sdks/with_a_command.py")],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    *answers, last = done.stdout.splitlines()
    assert len(answers) == 3
    assert last == "exit code 75; 3 calls reached the model"
    assert "the budget ended the command" in done.stderr


@pytest.mark.slow
def test_after_a_kill_of_the_run_the_commands_calls_fail(endpoint: ScriptedEndpoint) -> None:
    script = f"echo ready; read go; {filled(CURL)}"
    more = {"OPENAI_BASE_URL": endpoint.base_url}
    with Started("--budget", "5 calls", "--", "sh", "-c", script, more=more) as started:
        assert started.line() == "ready"
        started.process.kill()
        started.process.wait()
        started.send("go")
        assert started.line() == "000"  # curl has no connection
    assert endpoint.requests == []


# An account that outlives the run


@pytest.mark.slow
def test_a_window_is_kept_in_a_ledger(endpoint: ScriptedEndpoint, tmp_path: Path) -> None:
    more = {"OPENAI_BASE_URL": endpoint.base_url}
    options = ("--ledger", f"sqlite:{tmp_path / 'l.db'}", "--account", "team/me")
    said = [
        run("--budget", "3 calls/month + 2 calls", *options, *curl(3), more=more).out.split(),
        run("--budget", "3 calls/month + 2 calls", *options, *curl(3), more=more).out.split(),
        run(*options, *curl(1), more=more).out.split(),
    ]
    assert said == [["200", "200", "402"], ["200", "402", "402"], ["402"]]
    assert len(endpoint.requests) == 3


@pytest.mark.slow
def test_a_window_without_a_ledger_is_kept_for_the_program(
    endpoint: ScriptedEndpoint, tmp_path: Path
) -> None:
    one, other = tmp_path / "one.sh", tmp_path / "other.sh"
    for file in (one, other):
        file.write_text(filled(CURL, 2))

    def calls(limits: str, file: Path) -> tuple[list[str], str]:
        more = {"OPENAI_BASE_URL": endpoint.base_url}
        done = run("--budget", limits, "--", "sh", file, more=more)
        return done.out.split(), done.err

    first, said = calls("3 calls/month + 9 calls", one)
    again, silent = calls("3 calls/month + 9 calls", one)
    assert (first, again) == (["200", "200"], ["200", "402"])
    account = f"local/{place_of(str(one))}/run"
    assert f"3 calls per month of {account} are counted in {os.environ['XDG_STATE_HOME']}/" in said
    assert "are counted in" not in silent
    assert calls("3 calls/month", other)[0] == ["200", "200"]
    assert calls("4 calls/month", one)[0] == ["200", "402"]


@pytest.mark.slow
def test_an_account_of_the_default_ledger_may_be_named(endpoint: ScriptedEndpoint) -> None:
    more = {"OPENAI_BASE_URL": endpoint.base_url}
    options = ("--budget", "2 calls/90min", "--account", "team/me")
    done = [run(*options, *curl(2), more=more) for _ in range(2)]
    assert [one.out.split() for one in done] == [["200", "200"], ["402", "402"]]
    assert "2 calls per 90 min of team/me are counted in" in done[0].err
    assert run("--budget", "9 calls/day", *options[2:], "true").code == 2  # it has others


def test_a_place_that_cannot_be_written_is_an_error_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    more = {"XDG_STATE_HOME": str(tmp_path / "file")}
    done = run("--budget", "2 calls/month", "true", more=more)
    assert done.code == 1
    assert "--ledger" in done.err
    assert f"${ENGINE_VARIABLE}" in done.err


@pytest.mark.slow
def test_an_accounts_own_limits_are_not_replaced(tmp_path: Path) -> None:
    file = tmp_path / "l.db"
    with SqliteLedger(str(file)) as ledger:
        ledger.set_limits("me", [Limit("calls", 3, "month")])
    options = ("--ledger", f"sqlite:{file}", "--account", "me")
    done = run("--budget", "9 calls/day", *options, "true")
    assert done.code == 2
    assert "account me has other limits already, 3 calls per month" in done.err
    assert run("--budget", "3 calls/month", *options, "true").code == 0


@pytest.mark.slow
def test_a_served_ledger_takes_a_key(endpoint: ScriptedEndpoint, tmp_path: Path) -> None:
    keys = KeyFile(str(tmp_path / "keys.json"))
    key = keys.add("me", "team", ("reserve", "read", "limits"))
    engine = ("--engine", "memory:", "--listen", "127.0.0.1:0")
    with Service(*engine, "--keys", keys.path) as service:
        more = {"OPENAI_BASE_URL": endpoint.base_url, "THE_KEY": key, ENGINE_VARIABLE: service.url}
        options = ("--account", "team/me", "--ledger-key", "env:THE_KEY")
        first = run("--budget", "2 calls/day", *options, *curl(3), more=more)
        assert (first.code, first.out.split()) == (0, ["200", "200", "402"])
        more["THE_KEY"] = "mb.me.wrong"
        assert run("--budget", "2 calls/day", *options, *curl(), more=more).code == 1


@pytest.mark.slow
def test_a_ledger_that_has_gone_at_the_end_does_not_hide_the_exit_code() -> None:
    with Service("--engine", "memory:", "--listen", "127.0.0.1:0") as service:
        options = ("--budget", "2 calls/day", "--ledger", service.url, "--account", "me")
        with Started(*options, "--", "sh", "-c", "echo ready; read go; exit 4") as started:
            assert started.line() == "ready"
            service.end()
            started.send("go")
            assert started.end().code == 4


@pytest.mark.slow
def test_an_account_without_limits_is_an_error_at_the_start(tmp_path: Path) -> None:
    done = run("--ledger", f"sqlite:{tmp_path / 'l.db'}", "--account", "me", "--", "echo", "ran")
    assert (done.code, done.out) == (1, "")
    assert "'me'" in done.err


# What the command line refuses


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "give a command"),
        (("true",), "give --budget"),
        (("--budget", "5 dollars", "true"), "not '5 dollars': money is in dollars, such as '$5'"),
        (("--budget", "", "true"), "such as '$5 + 30 min', not ''"),
        (("--budget", " + 30 min", "true"), "put it in '…'"),
        (("--budget", "5 foo", "true"), "or dollars such as '$5'\n"),
        (("--budget", "5 calls+3 tokens", "true"), "join limits with ' + '"),
        (("--budget", "$5", "--account", "me", "true"), "--account needs a ledger"),
        (("--budget", "$5", "--ledger", "memory:", "true"), "--ledger needs an account"),
        (("--budget", "$5", "--upstream", "openai", "true"), "NAME=URL"),
        (("--budget", "$5", "--set", "MY_URL", "true"), "$MY_URL has now, but it is not set"),
        (("--budget", "$5", "--set", "MY_URL=/x", "true"), "must begin with an upstream"),
        (("--budget", "$5", "--set", "=x", "true"), "not '=x'"),
        (("--budget", "$5", "--grace", "-1", "true"), "seconds above 0"),
    ],
)
def test_a_malformed_option_is_2_and_named(arguments: tuple[str, ...], says: str) -> None:
    done = run(*arguments)
    assert done.code == 2
    assert says in done.err
    assert "Traceback" not in done.err


def test_a_report_that_cannot_be_written_is_an_error_at_the_start(tmp_path: Path) -> None:
    file = tmp_path / "none" / "report.json"
    done = run("--budget", "1 h", "--report", file, "--", "echo", "ran")
    assert (done.code, done.out) == (1, "")
    assert str(file) in done.err


def test_quiet_leaves_standard_error_to_the_command() -> None:
    assert run("--budget", "1 h", "--quiet", "true").err == ""


def test_a_run_without_calls_says_where_to_look() -> None:
    assert (
        "no call came to the proxy; see microbudget run --help"
        in run("--budget", "1 h", "true").err
    )


def test_without_the_extra_it_says_what_to_install() -> None:
    program = "import sys; sys.modules['httpx'] = None\nfrom budget_cpython.cli import main\n"
    program += "sys.exit(main(['run', '--budget', '1 h', 'true']))"
    done = subprocess.run(
        [PYTHON, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "pip install 'microbudget[proxy]'" in done.stderr


def test_elsewhere_than_on_linux_and_macos_it_says_what_to_use(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delattr(os, "posix_spawnp")
    assert main(["run", "--budget", "1 h", "true"]) == 1
    assert "elsewhere use `microbudget proxy`" in capsys.readouterr().err


def test_help_says_how_to_write_a_budget_and_what_each_exit_code_is() -> None:
    said = run("--help").out
    assert "  microbudget run --budget '$5 + 30 min' -- node agent.js" in said
    assert "  75   the deadline ended it" in said
    assert max(map(len, said.splitlines())) <= 100
