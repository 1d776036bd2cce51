"""An operative against the embedded endpoint, over a socket, on both runtimes."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from scripted_model import ScriptedEndpoint
from tests.paths import ROOT

PATIENCE = 120.0
READ = "I read 3 of 3 files."


class Played(dict[str, Any]):
    """What came of each run by the name of its model, and what the endpoint was asked."""

    def __init__(self, run: subprocess.CompletedProcess[str], requests: list[Any]) -> None:
        lines = [json.loads(line) for line in run.stdout.splitlines()]
        super().__init__((line["name"], line["saw"]) for line in lines)
        self.requests = requests
        self.output = run.stdout + run.stderr
        self.exit_code = run.returncode

    def __missing__(self, name: str) -> Any:
        pytest.fail(f"the run {name} did not finish:\n{self.output[-4000:]}")

    def asked(self, model: str) -> list[Any]:
        """Return the requests that a run made."""
        return [request for request in self.requests if request["model"] == model]


def command(runtime: str) -> tuple[list[str], dict[str, str]]:
    """Return what runs the program on a runtime, and its environment."""
    if runtime == "cpython":
        return [sys.executable, "-W", "error"], {"PYTHONPATH": str(ROOT)}
    micropython = os.environ.get("MICROPYTHON")
    if not micropython:
        pytest.fail("set MICROPYTHON to the path of MicroPython 1.24 or later: `make micropython`")
    return [micropython], {"MICROPYPATH": f"{ROOT}:.frozen"}


@pytest.fixture(scope="module", params=["cpython", "micropython"])
def played(request: pytest.FixtureRequest) -> Played:
    """Play the program once."""
    program, environment = command(request.param)
    with ScriptedEndpoint() as endpoint:
        run = subprocess.run(
            [*program, "-m", "tests.agent.operative_program", endpoint.base_url],
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=PATIENCE,
            check=False,
        )
        return Played(run, [request.body for request in endpoint.requests])


def test_the_program_comes_to_its_end_and_leaves_no_socket_open(played: Played) -> None:
    assert played.exit_code == 0, played.output
    assert {name: saw["left_open"] for name, saw in played.items() if saw["left_open"]} == {}


def test_a_run_that_ends_by_itself_has_read_everything(played: Played) -> None:
    saw = played["ends"]
    assert saw["kind"] is None
    assert saw["text"].startswith(READ)
    assert saw["turns"] == len(played.asked("ends")) == len(saw["statuses"]) + 1
    assert set(saw["statuses"]) == {"completed"}
    assert saw["usage"]["tokens"] > 0
    assert saw["usage"]["estimated"] == 0


def test_a_run_that_is_told_of_its_limit_ends_by_itself(played: Played) -> None:
    assert played["told"]["kind"] is None
    assert "budget notice" in played["told"]["text"]
    assert played.asked("told")[-1]["messages"][-1]["content"].startswith("[Budget notice]")


def test_a_run_at_its_turns_makes_a_last_call_without_tools(played: Played) -> None:
    saw, asked = played["turns"], played.asked("turns")
    assert (saw["kind"], saw["figures"]) == ("turn_limit", [2, 3, 1])
    assert ["tools" in request for request in asked] == [True, True, False]
    assert asked[-1]["messages"][-1]["content"].startswith("[Budget exhausted]")
    assert saw["text"].startswith("I read 1 of 3 files.")


def test_a_run_at_its_tokens_makes_a_last_call_within_them(played: Played) -> None:
    saw, asked = played["tokens"], played.asked("tokens")
    assert saw["kind"] == "token_budget"
    assert saw["figures"][1:] == [1200, 480]
    assert "tools" not in asked[-1]
    assert all(1 <= request["max_tokens"] <= 720 for request in asked)
    assert saw["usage"]["tokens"] <= 1200


def test_a_run_streams(played: Played) -> None:
    saw = played["streams"]
    assert saw["text"].startswith(READ)
    assert saw["heard"].endswith(saw["text"])
    assert saw["usage"]["estimated"] == 0
    assert all(request["stream"] for request in played.asked("streams"))


def test_a_stream_that_is_dropped_leaves_what_came_and_an_estimate(played: Played) -> None:
    saw = played["stream-cut"]
    assert (saw["kind"], saw["usage"]["estimated"]) == ("provider_error", 1)
    assert saw["text"] == saw["heard"] != ""


def test_an_endpoint_that_hangs_costs_the_timeout(played: Played) -> None:
    saw = played["hang"]
    assert saw["kind"] == "timeout"
    assert saw["figures"][0] >= saw["figures"][1] == 200
    assert (saw["turns"], saw["usage"]["estimated"]) == (1, 1)


def test_an_endpoint_that_refuses_costs_nothing(played: Played) -> None:
    saw = played["error-429"]
    assert (saw["kind"], saw["status"], saw["usage"]["tokens"]) == ("provider_error", 429, 0)
    assert saw["turns"] == 1
    assert len(played.asked("error-429")) == 1 + saw["usage"]["retries"] == 3


def test_a_run_outlives_an_endpoint_that_is_busy(played: Played) -> None:
    saw = played["busy"]
    assert (saw["kind"], saw["turns"]) == ("turn_limit", 4)
    assert len(played.asked("busy")) == 4 + saw["usage"]["retries"] >= 7
    assert saw["text"] != ""


def test_the_fallback_model_answers_for_an_endpoint_that_fails(played: Played) -> None:
    saw, asked = played["error-500"], played.asked("rescue")
    assert (saw["kind"], saw["status"], len(asked)) == ("provider_error", 500, 1)
    assert "tools" not in asked[0]
    assert saw["text"] != ""
