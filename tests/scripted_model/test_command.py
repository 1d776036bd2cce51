"""The command line."""

import http.client
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from urllib.parse import urlsplit

import pytest

from scripted_model import ScriptedEndpoint
from scripted_model.__main__ import main
from scripted_model.faults import FAULTS
from scripted_model.scripts import SCRIPTS
from tests.paths import ROOT

from .support import PATIENCE


@contextmanager
def command(*options: str) -> Iterator["subprocess.Popen[str]"]:
    """Run the command line, for as long as the tests are patient."""
    process = subprocess.Popen(
        [sys.executable, "-m", "scripted_model", *options],
        cwd=ROOT,
        # Unbuffered output would hide that the address was never flushed.
        env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    limit = threading.Timer(PATIENCE, process.kill)
    limit.start()
    try:
        with process:
            yield process
    finally:
        limit.cancel()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_prints_its_address_and_serves_until_a_signal(number: signal.Signals) -> None:
    with command("--api-key", "right") as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        address = urlsplit(url)
        connection = http.client.HTTPConnection("127.0.0.1", address.port, timeout=PATIENCE)
        with closing(connection):
            connection.request("GET", "/v1/models", headers={"Authorization": "Bearer right"})
            assert connection.getresponse().status == 200
            process.send_signal(number)
            _, err = process.communicate()
    assert url == f"http://127.0.0.1:{address.port}/v1"
    assert process.returncode == 0
    assert err == ""


def test_a_port_in_use_is_one_clear_line_and_exit_code_1(endpoint: ScriptedEndpoint) -> None:
    port = str(urlsplit(endpoint.base_url).port)
    with command("--port", port) as process:
        out, err = process.communicate()
    assert process.returncode == 1
    assert out == ""
    assert len(err.splitlines()) == 1
    assert f"127.0.0.1:{port}" in err
    assert "in use" in err


def test_help_lists_every_mode(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--help"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    listed = {name: fault.says for name, fault in FAULTS.items()}
    listed |= {name: script.says for name, script in SCRIPTS.items()}
    assert all(f"{name} " in text and says in text for name, says in listed.items())
