"""The chat client against real sockets: what it makes of them, and that it lets go of them."""

import json
import os
import ssl
import subprocess
import sys
from typing import Any

import pytest

from tests.chat.server import DATA, PATIENCE, Server
from tests.paths import ROOT
from tests.ports import kept_port

HUNG = ("silence", "hung status", "hung head", "hung body", "hung chunk", "hung stream")
# MicroPython's TLS forgets the socket of a server that it refuses. Chips close it with the garbage,
# the unix port does not.
DROPPED = {"untrusted", "of another name"}
GREETING = {"content": "Grüße 😀", "left_open": 0}


class Played(dict[str, Any]):
    """What came of each attempt by name, and the two servers."""

    def __init__(self, runtime: str, plain: Server, encrypted: Server, run: Any) -> None:
        lines = [json.loads(line) for line in run.stdout.splitlines()]
        super().__init__((line["name"], line["saw"]) for line in lines)
        self.runtime = runtime
        self.plain = plain
        self.encrypted = encrypted
        self.output = run.stdout + run.stderr
        self.exit_code = run.returncode
        self.complaints = run.stderr

    def __missing__(self, name: str) -> Any:
        pytest.fail(f"the attempt {name} did not finish:\n{self.output[-4000:]}")


def command(runtime: str) -> tuple[list[str], dict[str, str]]:
    """Return what runs the program on a runtime, and its environment."""
    if runtime == "cpython":
        return [sys.executable, "-W", "error"], {"PYTHONPATH": str(ROOT)}
    micropython = os.environ.get("MICROPYTHON")
    if not micropython:
        pytest.fail("set MICROPYTHON to the path of MicroPython 1.24 or later: `make micropython`")
    return [micropython, "-X", "heapsize=16m"], {"MICROPYPATH": f"{ROOT}:.frozen"}


@pytest.fixture(scope="module", params=["cpython", "micropython"])
def played(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Played:
    """Play the program once; both servers have seen the last of it when this is had."""
    program, environment = command(request.param)
    pem, der = DATA / "localhost.pem", tmp_path_factory.mktemp("tls") / "two.der"
    texts = [path.read_text() for path in (DATA / "root.pem", pem)]
    der.write_bytes(b"".join(map(ssl.PEM_cert_to_DER_cert, texts)))
    plain, encrypted = Server(), Server(tls=True)
    with kept_port() as dead:
        ports = [str(port) for port in (plain.port, encrypted.port, dead)]
        run = subprocess.run(
            [*program, "-m", "tests.chat.client_program", *ports, str(pem), str(der)],
            env={**os.environ, **environment, "RES_OPTIONS": "timeout:1 attempts:1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=4 * PATIENCE,
            check=False,
        )
    plain.close()
    encrypted.close()
    return Played(request.param, plain, encrypted, run)


def test_the_program_comes_to_its_end_without_complaint(played: Played) -> None:
    assert (played.exit_code, played.complaints) == (0, ""), played.output


def test_an_answer_is_read_however_it_is_framed_and_however_slowly_it_comes(played: Played) -> None:
    for name in ("known", "chunked", "closed", "bytewise"):
        assert played[name] == GREETING, name


def test_a_request_arrives_as_it_was_meant(played: Played) -> None:
    message = {"role": "user", "content": "Grüße 😀"}
    assert played.plain.served["bytewise"] == {"model": "small", "messages": [message]}


def test_a_request_larger_than_any_buffer_arrives_whole(played: Played) -> None:
    assert played["long"] == GREETING
    assert len(played.plain.served["known"]["messages"][0]["content"]) == 1_000_000


def test_a_refusal_has_its_status_and_words(played: Played) -> None:
    assert played["refusal"] == {"status": 429, "error": "Slow (HTTP 429)", "left_open": 0}


def test_a_server_that_hangs_is_given_up_in_every_phase(played: Played) -> None:
    for name in HUNG:
        assert "no answer within " in played[name]["error"], name


def test_what_was_heard_before_a_stream_hung_was_handed_on(played: Played) -> None:
    assert played["hung stream"]["heard"] == ["a"]


def test_a_refusal_that_hangs_keeps_its_status(played: Played) -> None:
    assert played["hung refusal"]["status"] == 500


def test_a_server_that_leaves_too_early_is_an_error_with_the_status_it_gave(played: Played) -> None:
    for name, status in (("leaves", 0), ("leaves in head", 200), ("leaves in body", 200)):
        assert played[name]["status"] == status, name
        assert "broke off" in played[name]["error"], name


def test_a_reset_connection_is_an_error_whatever_came_before(played: Played) -> None:
    for name in ("reset", "reset in body"):  # a reset may overtake what was sent before it
        assert played[name]["status"] in (0, 200), name


def test_an_endless_body_is_left_off_at_the_bound(played: Played) -> None:
    assert "larger than 65536 bytes" in played["flood"]["error"]


def test_a_stream_is_handed_on_piece_by_piece(played: Played) -> None:
    assert played["stream"] == {"content": "aa", "heard": ["a", "a"], "left_open": 0}


def test_a_stream_cut_short_is_an_error(played: Played) -> None:
    assert "broke off" in played["leaves in stream"]["error"]
    assert played["leaves in stream"]["heard"] == ["a"]


def test_a_budget_counts_what_came_of_a_stream_cut_short(played: Played) -> None:
    seen = {"measured": 0, "estimated": 0, "invalid": 0, "missing": 0}
    for name, tokens, kind in (
        ("leaves in stream", 4 + 3 + 1, "estimated"),  # a message, its 12 bytes, a delta
        ("leaves after usage", 9, "measured"),
        ("leaves in body", 0, "missing"),
    ):
        saw = played["settled, " + name]
        assert "broke off" in saw["error"], name
        assert saw["tokens"] == tokens, name
        assert saw["usage_seen"] == {**seen, kind: 1}, name


def test_a_connection_that_nobody_takes_costs_nothing(played: Played) -> None:
    saw = played["settled, nobody there"]
    assert (saw["status"], saw["tokens"]) == (0, 0)
    assert saw["usage_seen"]["estimated"] == 0


def test_what_a_listener_raises_ends_the_call(played: Played) -> None:
    assert played["deaf"] == {"raised": "DeafError", "heard": ["a"], "left_open": 0}


def test_a_cancelled_call_ends_there_and_lets_go(played: Played) -> None:
    saw = played["cancelled"]
    assert saw["ended"] == "cancelled"
    assert saw["left_open"] == 0
    assert saw["heard"][0] == "a"


def test_a_caller_who_waits_for_less_gives_a_call_up_at_any_time(played: Played) -> None:
    assert played["given up"] == {"raised": "TimeoutError", "left_open": 0}


def test_an_endpoint_that_is_not_there_is_an_error_without_a_status(played: Played) -> None:
    for name in ("nobody there", "unknown host", "no host at all"):
        assert played[name]["status"] == 0, name
        assert "connection trouble while " in played[name]["error"], name


def test_trouble_is_never_left_without_a_reason(played: Played) -> None:
    assert not [name for name, saw in played.items() if saw.get("error", "x").strip()[-1] == ":"]


def test_a_trusted_server_is_talked_to_over_tls(played: Played) -> None:
    for name in ("trusted", "trusted again", "trusted in DER"):
        assert played[name] == GREETING, name
    assert played.encrypted.served["known"]["model"] == "small"


def test_a_server_that_is_not_trusted_or_has_another_name_is_sent_nothing(played: Played) -> None:
    for name in ("untrusted", "of another name"):
        assert played[name]["status"] == 0, name
        assert "connection trouble" in played[name]["error"], name
    assert played.encrypted.left.count("known") == 3


def test_a_hung_server_is_given_up_over_tls_too(played: Played) -> None:
    assert "no answer within " in played["encrypted and hung"]["error"]


def test_tls_on_one_side_only_is_an_error(played: Played) -> None:
    for name in ("encrypted for plain", "plain for encrypted"):
        assert played[name]["status"] == 0, name


def test_no_call_leaves_a_socket_open(played: Played) -> None:
    left = {name for name, saw in played.items() if saw["left_open"]}
    assert left <= (DROPPED if played.runtime == "micropython" else set())


def test_the_server_sees_every_client_leave(played: Played) -> None:
    assert not any(thread.is_alive() for thread in played.plain.threads)
    assert not any(thread.is_alive() for thread in played.encrypted.threads)
    assert set(played.plain.left) >= {"silence", "hung stream", "stream on", "flood", "refusal"}


def test_the_key_is_in_nothing_that_was_said(played: Played) -> None:
    assert "sk-Secret" not in played.output
