"""What `board doctor` finds on a board that is well, and on boards that are not."""

import json
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from budget_core.ledger.limit import Limit
from budget_cpython.board.build import Form, build_board
from budget_cpython.board.connection import BoardConnection
from budget_cpython.board.deploy import Deploy
from budget_cpython.board.device import Device, work_on
from budget_cpython.board.emulator import UnixBoard
from budget_cpython.board.plan import Plan
from budget_cpython.board.programs import SECRETS
from budget_cpython.ledger.http import HttpLedger
from budget_cpython.web.keys import RIGHTS, KeyFile
from scripted_model import ScriptedEndpoint
from tests.board.conftest import patient
from tests.board.emulator.noon import NoonBoard
from tests.paths import ROOT
from tests.serve.support import Service

from .network import DATA, PASSWORD, Encrypted, radio
from .support import MAIN, PATIENCE, Cli, Said, damage, digests, remove, runs, spend, write

HEAP = "512k"
KEY = "sk-Secret-0123456789"
CHECKS = [
    "connection", "imports", "firmware", "deploy", "files", "wifi", "clock", "name", "endpoint",
    "ledger", "store", "memory",
]  # fmt: skip
WIFI = "WIFI_TIMEOUT_S = 1\n"


@dataclass
class Findings:
    """What a doctor said, by check."""

    said: Said
    checks: dict[str, dict[str, Any]]

    def __getitem__(self, check: str) -> str:
        found = self.checks[check]
        return f"{found['result']}: {found['found']}"

    def fix(self, check: str) -> str:
        return str(self.checks[check]["fix"])

    @property
    def results(self) -> dict[str, str]:
        return {check: found["result"] for check, found in self.checks.items()}


def examined(cli: Cli) -> Findings:
    """Have a board examined; every check that fails says what to do."""
    said = cli("doctor", "--json")
    assert said.err == ""
    assert KEY not in said.out
    assert PASSWORD not in said.out
    report = json.loads(said.out)
    assert [found["check"] for found in report["checks"]] == CHECKS
    failed = [found for found in report["checks"] if found["result"] == "fails"]
    assert all(found["fix"] for found in failed)
    assert report["ok"] == (not failed) == (said.code == 0)
    assert report["port"] == cli.board.port
    return Findings(said, {found["check"]: found for found in report["checks"]})


@pytest.fixture(scope="module")
def endpoint() -> Iterator[ScriptedEndpoint]:
    with ScriptedEndpoint(api_key=KEY) as endpoint:
        yield endpoint


@pytest.fixture(scope="module")
def agent_flash(
    tmp_path_factory: pytest.TempPathFactory, endpoint: ScriptedEndpoint, core_built_once: None
) -> Path:
    """The flash of a board with the settings of the unix board, and a program that waits."""
    folder = tmp_path_factory.mktemp("agent")
    shutil.copytree(ROOT / "boards/unix", folder / "agent")
    (folder / "agent/main.py").write_text(MAIN)
    secret = f"API_KEY = {KEY!r}\nBASE_URL = {endpoint.base_url!r}\n".encode()
    build = build_board(folder / "agent", Form.MPY)
    flash = folder / "flash.img"
    with patient(), NoonBoard(flash, heap=HEAP) as board, work_on(board.port) as device:
        Deploy(Plan(device, build, {SECRETS: secret}), lambda line: None).run()
    return flash


@pytest.fixture
def agent(tmp_path: Path, agent_flash: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Cli]:
    """The command line, at a board with an agent's settings and this machine's clock."""
    shutil.copy(agent_flash, tmp_path / "agent.img")
    with UnixBoard(tmp_path / "agent.img", heap=HEAP) as board:
        yield Cli(board, capsys)


def set_secret(cli: Cli, **values: str) -> None:
    write(cli.board, "/secret.py", "".join(f"{name} = {values[name]!r}\n" for name in values))


def put(cli: Cli, path: str, text: str) -> None:
    """Write a file on a board, and make its folder."""
    with BoardConnection(cli.board.port) as connection:
        Device(connection).make_folders([path])
    write(cli.board, path, text)


def add_settings(cli: Cli, text: str) -> None:
    with BoardConnection(cli.board.port) as connection:
        settings = connection.read("/settings.py").decode()
    write(cli.board, "/settings.py", settings + text)


def add_radio(cli: Cli, joined: bool = False, joins: int | None = None, signal: int = -50) -> None:
    write(cli.board, "/network.py", radio(joined=joined, joins=joins, signal=signal))
    add_settings(cli, WIFI)


def test_a_board_that_is_well_passes_every_check(agent: Cli, endpoint: ScriptedEndpoint) -> None:
    asked = len(endpoint.requests)
    found = examined(agent)
    wanted = dict.fromkeys(CHECKS, "ok") | {"wifi": "not run", "ledger": "not run"}
    assert found.results == wanted
    assert found.said.code == 0
    assert "MicroPython 1." in found["firmware"]
    assert "asyncio, TLS" in found["firmware"]
    assert "the folder agent" in found["deploy"]
    assert "as they were deployed" in found["files"]
    assert "not on this board: its firmware has no Wi-Fi" in found["wifi"]
    assert "as this machine's" in found["clock"]
    assert "127.0.0.1 is found" in found["name"]
    assert "and accepts the key" in found["endpoint"]
    assert "empty, empty, empty; 0 tokens of 50,000 spent" in found["store"]
    requests = [(request.method, request.path) for request in endpoint.requests[asked:]]
    assert requests == [("GET", "/v1/models")]


def threshold(board: UnixBoard) -> int:
    """Return after how many bytes the heap is collected once `boot.py` has run."""
    with BoardConnection(board.port) as connection:
        return int(connection.run("import gc\nprint(gc.threshold())"))


def test_the_boot_program_keeps_the_heap_in_one_piece(agent: Cli) -> None:
    assert threshold(agent.board) == 4096
    add_settings(agent, "GC_THRESHOLD = 2048\n")
    assert threshold(agent.board) == 2048


def test_it_changes_nothing_on_the_board_and_starts_its_program_again(agent: Cli) -> None:
    spend(agent.board, 1234)
    before = digests(agent.board)
    assert examined(agent).said.code == 0
    assert runs(agent.board)
    assert digests(agent.board) == before


def test_it_prints_a_line_for_each_check_and_one_for_each_fix(agent: Cli) -> None:
    spend(agent.board, 50_000)
    said = agent("doctor")
    assert said.code == 0
    lines = said.out.splitlines()
    results = [line for line in lines if not line.startswith(" ")]
    assert [line[9:].split()[0] for line in results] == CHECKS
    assert {line[:7].strip() for line in results} == {"ok", "warning", "not run"}
    place = next(n for n, line in enumerate(lines) if line.startswith("warning"))
    assert "50,000 tokens of 50,000 spent" in lines[place]
    assert lines[place + 1].strip().startswith("fix: wait for the next day")


def test_a_damaged_file_is_named_and_nothing_is_run_on_it(agent: Cli) -> None:
    write(agent.board, "/lib/budget_core/usage.mpy", "not what was there")
    found = examined(agent)
    assert found["files"] == "fails: missing or damaged: /lib/budget_core/usage.mpy"
    assert "`microbudget board deploy BOARD` copies what differs" in found.fix("files")
    assert found["memory"] == "not run: because the check `files` failed"
    assert found.results["endpoint"] == "not run"
    remove(agent.board, ["/lib/budget_core/usage.mpy", "/main.py"])
    files = examined(agent)["files"]
    assert files.endswith("damaged: /lib/budget_core/usage.mpy, /main.py")


@pytest.mark.parametrize(
    ("files", "words"),
    [
        (["/budget_core.py"], "/budget_core.py is loaded instead of /lib/budget_core"),
        (["/budget_core/__init__.py"], "/budget_core is loaded instead of /lib/budget_core"),
        (["/settings/__init__.py"], "/settings is loaded instead of /settings.py"),
        (
            ["/lib/budget_core/usage.py"],
            "/lib/budget_core/usage.py is loaded instead of /lib/budget_core/usage.mpy",
        ),
        (
            ["/lib/budget_core/day/x.mpy"],
            "/lib/budget_core/day is loaded instead of /lib/budget_core/day.mpy",
        ),
        (["/asyncio.py"], "/asyncio.py is loaded instead of the firmware's asyncio, and fails"),
        (["/lib/json.py"], "/lib/json.py is loaded instead of the firmware's json, and fails"),
    ],
)
def test_a_file_that_is_loaded_instead_of_a_module_fails(
    agent: Cli, files: list[str], words: str
) -> None:
    for path in files:
        put(agent, path, "raise ValueError('a stray file')\n")
    found = examined(agent)
    assert found["imports"] == f"fails: {words}"
    assert f"mpremote connect {agent.board.port} rm -r :{words.split()[0]}`" in found.fix("imports")
    assert found["memory"] == "not run: because the check `imports` failed"


@pytest.mark.parametrize(
    ("path", "text", "words"),
    [
        ("/lib/settings.py", "", "/lib/settings.py is never loaded"),
        ("/settings.mpy", "", "/settings.mpy is never loaded"),
        ("/lib/budget_core/day_of_old.mpy", "", "/lib/budget_core/day_of_old.mpy is never loaded"),
        (
            "/lib/errno.py",
            "EEXIST, EIO, ENOENT, ENOSPC = 17, 5, 2, 28\n",
            "/lib/errno.py is loaded instead of the firmware's errno",
        ),
    ],
)
def test_a_file_of_a_modules_name_that_does_no_harm_is_a_warning(
    agent: Cli, path: str, text: str, words: str
) -> None:
    put(agent, path, text)
    found = examined(agent)
    assert found["imports"] == f"warning: {words}"
    assert f":{path}`" in found.fix("imports")
    assert found.said.code == 0


def test_settings_that_were_changed_on_the_board_are_a_warning(agent: Cli) -> None:
    add_settings(agent, "DAILY_BUDGET = 60_000\n")
    found = examined(agent)
    assert found["files"] == "warning: changed on the board since the deploy: /settings.py"
    assert "of 60,000 spent" in found["store"]
    assert found.said.code == 0


def test_a_deploy_that_was_interrupted_fails(agent: Cli) -> None:
    with BoardConnection(agent.board.port) as connection:
        connection.run("import os\nos.rename('/main.py', '/main.py.off')")
    found = examined(agent)
    assert found["deploy"] == "fails: a deploy was interrupted: no program starts"
    assert found.results["files"] == "not run"


def test_a_folder_of_another_device_is_a_warning(agent: Cli) -> None:
    write(agent.board, "/deployed.py", "BOARD = 'esp32_s3'\n")
    found = examined(agent)
    assert found["deploy"] == "warning: the folder esp32_s3"
    assert "esp32_s3 is for ESP32_GENERIC_S3" in found.fix("deploy")
    assert found["files"] == "warning: /deployed.py lists no files to compare with"
    assert found.fix("files") == "deploy again: `microbudget board deploy esp32_s3`"


def test_a_new_board_has_nothing_deployed(new_cli: Cli) -> None:
    found = examined(new_cli)
    assert found["deploy"] == "fails: nothing of microbudget is deployed"
    assert found.fix("deploy") == "`microbudget board deploy BOARD`"
    assert "a ROMFS partition" in found["firmware"]


def test_a_romfs_image_is_compared_too(new_cli: Cli, mine: Path) -> None:
    assert new_cli("deploy", mine, "--romfs").code == 0
    put(new_cli, "/lib/budget_core/usage.py", "")
    found = examined(new_cli)
    assert found["files"] == "ok: 4 as they were deployed"
    assert found["imports"] == "warning: /lib/budget_core is never loaded"
    with BoardConnection(new_cli.board.port) as connection:
        connection.run("import vfs\nvfs.rom_ioctl(4, 0, 4096, b'damaged')")
    found = examined(new_cli)
    assert found["files"].startswith("fails: missing or damaged: ROMFS ")


def test_without_a_board_the_connection_fails_and_no_check_is_run(
    agent: Cli, capsys: pytest.CaptureFixture[str]
) -> None:
    said = agent.bare("doctor", "--json", "--port", "/dev/nowhere")
    assert said.code == 1
    checks = json.loads(said.out)["checks"]
    assert checks[0]["result"] == "fails"
    assert "there is no port '/dev/nowhere'" in checks[0]["found"]
    assert "USB cable" in checks[0]["fix"]
    assert {found["result"] for found in checks[1:]} == {"not run"}
    assert checks[1]["found"] == "because the check `connection` failed"


def test_firmware_that_is_too_old_is_named(agent: Cli) -> None:
    write(
        agent.board,
        "/boot.py",
        "import sys\n"
        "class Old:\n    name, version = 'micropython', (1, 23, 0)\n"
        "class System:\n"
        "    implementation, platform, maxsize = Old, sys.platform, sys.maxsize\n"
        "    path, modules = sys.path, sys.modules\n"
        "sys.modules['sys'] = System\n",
    )
    found = examined(agent)
    assert found["firmware"].startswith("fails: MicroPython 1.23, ")
    assert "1.24 or later" in found.fix("firmware")
    assert found.results["deploy"] == "not run"


def test_a_clock_that_is_not_set_fails(
    tmp_path: Path, agent_flash: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(agent_flash, tmp_path / "flash.img")
    with UnixBoard(tmp_path / "flash.img", heap=HEAP, clock="unset-2000") as board:
        found = examined(Cli(board, capsys))
    assert found["clock"].startswith("fails: 2000-01-01 00:")
    assert "behind this machine's; not believed: it is before the deployed rel" in found["clock"]
    assert found.results["memory"] == "ok"


def test_a_clock_that_no_time_server_has_set_is_not_believed(agent: Cli) -> None:
    boot = "from budget_core.board.device import prepare_clock\nprepare_clock(needs_sync=True)\n"
    write(agent.board, "/boot.py", boot)
    found = examined(agent)
    assert "as this machine's; not believed: no time server has set it" in found["clock"]
    assert "NTP_HOST" in found.fix("clock")


def test_a_clock_that_is_wrong_by_an_hour_is_a_warning(agent: Cli) -> None:
    hour = "time.gmtime(time.time() + 3600)[:6]"
    boot = f"import machine, time\ny, m, d, h, n, s = {hour}\n"
    write(agent.board, "/boot.py", boot + "machine.RTC().datetime((y, m, d, 0, h, n, s, 0))\n")
    clock = examined(agent)["clock"]
    assert clock.startswith("warning: ")
    off = int(clock.split(" s ahead of")[0].split()[-1].replace(",", ""))
    assert 3590 <= off <= 3600 + 60


@pytest.mark.parametrize("joined", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_wifi_is_joined_and_its_signal_shown(agent: Cli, joined: bool) -> None:
    add_radio(agent, joined)
    set_secret(agent, WIFI_NAME="garden", WIFI_PASSWORD=PASSWORD)
    wifi = examined(agent)["wifi"]
    assert wifi == "ok: garden, address 192.168.1.7, signal -50 dBm"


def test_a_weak_signal_is_a_warning(agent: Cli) -> None:
    add_radio(agent, signal=-86)
    set_secret(agent, WIFI_NAME="garden", WIFI_PASSWORD=PASSWORD)
    found = examined(agent)
    assert found["wifi"].startswith("warning: garden, address 192.168.1.7, signal -86 dBm")
    assert "nearer" in found.fix("wifi")


@pytest.mark.parametrize(
    ("status", "reason", "fix"),
    [
        (-3, "wrong password", "WIFI_PASSWORD"),
        pytest.param(202, "wrong password", "WIFI_PASSWORD", marks=pytest.mark.slow),
        (201, "no access point of that name", "WIFI_NAME"),
        pytest.param(1, "no connection within 1 s", "WIFI_TIMEOUT_S", marks=pytest.mark.slow),
    ],
)
def test_a_wifi_that_is_not_joined_fails_with_its_reason(
    agent: Cli, status: int, reason: str, fix: str
) -> None:
    add_radio(agent, joins=status)
    set_secret(agent, WIFI_NAME="garden", WIFI_PASSWORD=PASSWORD)
    found = examined(agent)
    assert found["wifi"] == f"fails: cannot join Wi-Fi 'garden': {reason}, 1 attempts"
    assert fix in found.fix("wifi")
    assert found["name"] == "not run: because the check `wifi` failed"
    assert found["endpoint"] == "not run: because the check `name` failed"
    assert found.results["memory"] == "ok"


def test_a_board_with_wifi_needs_a_name_for_it(agent: Cli) -> None:
    add_radio(agent)
    found = examined(agent)
    assert found["wifi"] == "fails: no WIFI_NAME in a secret.py on the board"
    assert "secret_example.py" in found.fix("wifi")


def test_a_chip_that_its_boot_has_connected_is_well(
    tmp_path: Path, endpoint: ScriptedEndpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    chip = ("rp2", "Raspberry Pi Pico 2 W with RP2350")
    with UnixBoard(tmp_path / "flash.img", heap=HEAP, poses_as=chip) as board:
        cli = Cli(board, capsys)
        write(board, "/network.py", radio(signal=-61))
        write(board, "/ntptime.py", "def settime(): pass\n")
        options = ("--board", "rp2_pico_2_w", "--base-url", endpoint.base_url, "--api-key", KEY)
        wifi = ("--wifi-name", "garden", "--wifi-password", PASSWORD)
        assert cli.bare("new", tmp_path / "garden", "--yes", *options, *wifi).code == 0
        secrets = tmp_path / "garden/secret.py"
        assert cli("deploy", f"{tmp_path}/garden", "--secrets", secrets).code == 0
        found = examined(cli)
        assert threshold(board) == 4096
    assert found.results == dict.fromkeys(CHECKS, "ok") | {"ledger": "not run"}
    assert chip[1] in found["firmware"]
    assert found["wifi"] == "ok: garden, address 192.168.1.7, signal -61 dBm"


def test_a_host_that_no_name_server_knows_fails(agent: Cli) -> None:
    set_secret(agent, BASE_URL="https://no-such-host.invalid/v1")
    found = examined(agent)
    assert found["name"].startswith("fails: no-such-host.invalid is not found: ")
    assert "BASE_URL" in found.fix("name")
    assert found["endpoint"] == "not run: because the check `name` failed"


def test_an_endpoint_that_is_not_there_fails(agent: Cli) -> None:
    set_secret(agent, BASE_URL="http://127.0.0.1:1/v1")
    found = examined(agent)
    assert found["endpoint"].startswith("fails: http://127.0.0.1:1/v1: connection trouble")
    assert "start what should answer there" in found.fix("endpoint")


def test_a_key_that_is_refused_fails(agent: Cli, endpoint: ScriptedEndpoint) -> None:
    set_secret(agent, BASE_URL=endpoint.base_url, API_KEY="sk-another")
    found = examined(agent)
    assert found["endpoint"].endswith("but it refuses the key (401)")
    assert "API_KEY" in found.fix("endpoint")


@pytest.mark.slow
def test_an_endpoint_that_lists_no_models_is_reached_all_the_same(
    agent: Cli, endpoint: ScriptedEndpoint
) -> None:
    set_secret(agent, BASE_URL=endpoint.base_url + "/elsewhere", API_KEY=KEY)
    found = examined(agent)
    assert found["endpoint"].startswith("ok: ")
    assert "the key was not tried" in found["endpoint"]


@pytest.fixture
def encrypted() -> Iterator[str]:
    """The URL of an endpoint that speaks TLS."""
    with ScriptedEndpoint() as endpoint, Encrypted(endpoint, "localhost") as encrypted:
        yield encrypted.base_url


def test_tls_is_tried_with_the_certificates_on_the_board(agent: Cli, encrypted: str) -> None:
    set_secret(agent, BASE_URL=encrypted)
    found = examined(agent)
    assert found["endpoint"].startswith("fails: CA_FILE '/ca.")
    write(agent.board, "/ca.pem", (DATA / "localhost.pem").read_text())
    add_settings(agent, "CA_FILE = '/ca.pem'\n")
    found = examined(agent)
    assert "/v1 answers over TLS, its certificate verified, in " in found["endpoint"]
    assert found.results["endpoint"] == "ok"


@pytest.mark.parametrize(
    ("host", "trusted", "words", "fix"),
    [
        ("127.0.0.1", "localhost", "does not match with the expected CN", "BASE_URL"),
        ("localhost", "root", "not correctly signed by the trusted CA", "root certificate"),
    ],
)
def test_a_server_that_the_certificates_do_not_vouch_for_fails(
    host: str, trusted: str, words: str, fix: str, agent: Cli, encrypted: str
) -> None:
    set_secret(agent, BASE_URL=encrypted.replace("localhost", host))
    write(agent.board, "/ca.pem", (DATA / f"{trusted}.pem").read_text())
    add_settings(agent, "CA_FILE = '/ca.pem'\n")
    found = examined(agent)
    assert found.results["endpoint"] == "fails"
    assert words in found["endpoint"]
    assert fix in found.fix("endpoint")


@pytest.mark.slow
def test_tls_where_the_server_speaks_none_fails(agent: Cli, endpoint: ScriptedEndpoint) -> None:
    place = endpoint.base_url.replace("http:", "https:")
    set_secret(agent, BASE_URL=place)
    write(agent.board, "/ca.pem", (DATA / "localhost.pem").read_text())
    add_settings(agent, "CA_FILE = '/ca.pem'\n")
    found = examined(agent)
    assert found.results["endpoint"] == "fails"
    assert "BASE_URL" in found.fix("endpoint")


def test_a_damaged_state_fails_and_one_bad_slot_is_a_warning(agent: Cli) -> None:
    spend(agent.board, 1234)
    spend(agent.board, 10)
    write(agent.board, "/budget/0/state.json", "x" * 128)
    found = examined(agent)
    assert found["store"].startswith("warning: slots ")
    assert "1,244 tokens of 50,000 spent" in found["store"]
    damage(agent)
    found = examined(agent)
    assert found["store"].startswith("fails: slots damaged, damaged, damaged: budget state")
    assert "`microbudget board reset`" in found.fix("store")
    assert found.results["memory"] == "ok"


def heap_of(memory: str) -> dict[str, int]:
    """Return the figures of a line such as `heap 500 B: 100 at rest, …`, and the C stack's."""
    words = memory.replace(",", "").replace(":", "").replace(";", "").split()
    return {
        "heap": int(words[words.index("heap") + 1]),
        "rest": int(words[words.index("rest") - 2]),
        "peak": int(words[words.index("peak") - 3]),
        "left": int(words[words.index("left") - 1]),
        "stack": int(words[words.index("stack") + 1]),
        "deep": int(words[words.index("LLM") - 3]),
    }


def test_a_turn_of_the_agent_is_measured(agent: Cli) -> None:
    spend(agent.board, 50_000)
    found = heap_of(examined(agent)["memory"])
    assert 100_000 < found["rest"] < found["peak"] < found["heap"]
    assert found["left"] == found["heap"] - found["peak"]
    assert 0 < found["deep"] < found["stack"]


def test_the_account_of_a_fleet_is_read_and_nothing_drawn(agent: Cli, tmp_path: Path) -> None:
    keys = KeyFile(tmp_path / "keys.json")
    operator = keys.add("operator", "*", RIGHTS)
    options = ("--engine", "memory:", "--keys", keys.path, "--listen", "127.0.0.1:0")
    key = keys.add("bench", "boards/bench", ["read"])
    with (
        Service(*options) as service,
        closing(HttpLedger(service.url, operator, PATIENCE)) as ledger,
    ):
        ledger.set_limits("boards", [Limit("tokens", 9000, "day")])
        add_settings(agent, f"LEDGER = {service.url!r}\nDEVICE = 'bench'\n")
        set_secret(agent, LEDGER_KEY=key)
        before = digests(agent.board)
        found = examined(agent)
        assert digests(agent.board) == before
        (row,) = ledger.balance("boards")
    assert found["ledger"] == "ok: the account boards/bench has 9000 tokens per day left"
    assert row.left == 9000
    found = examined(agent)
    assert found["ledger"].startswith("fails: the account boards/bench: ")
    assert "LEDGER_KEY" in found.fix("ledger")


def test_the_ledger_of_a_fleet_is_part_of_the_heap(agent: Cli) -> None:
    alone = heap_of(examined(agent)["memory"])
    add_settings(agent, "LEDGER = 'http://127.0.0.1:1'\nDEVICE = 'bench'\n")
    memory = examined(agent)["memory"]
    assert "the ledger's part included" in memory
    assert heap_of(memory)["rest"] > alone["rest"] + 10_000


@contextmanager
def with_heap(
    parts: float, more: int, flash: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Iterator[Cli]:
    """Turn on a board with so many parts of the heap that a turn needs at its peak, and more."""
    shutil.copy(flash, tmp_path / "flash.img")
    with UnixBoard(tmp_path / "flash.img", heap=HEAP) as board:
        peak = heap_of(examined(Cli(board, capsys))["memory"])["peak"]
    with UnixBoard(tmp_path / "flash.img", heap=f"{(peak * parts + more) / 1024:.0f}k") as board:
        yield Cli(board, capsys)


@pytest.mark.parametrize("parts", [0.95, pytest.param(0.6, marks=pytest.mark.slow)])
def test_a_turn_that_does_not_fit_in_the_heap_fails(
    parts: float, tmp_path: Path, agent_flash: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with with_heap(parts, 0, agent_flash, tmp_path, capsys) as cli:
        found = examined(cli)
    assert found["memory"].startswith("fails: a turn does not fit in the heap; ")
    assert "--romfs" in found.fix("memory")


def test_too_little_room_for_tls_is_a_warning(
    tmp_path: Path, agent_flash: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with with_heap(1, 35_000, agent_flash, tmp_path, capsys) as cli:
        assert examined(cli).results["memory"] == "ok"
        set_secret(cli, BASE_URL="https://127.0.0.1:1/v1")
        write(cli.board, "/ca.pem", (DATA / "localhost.pem").read_text())
        add_settings(cli, "CA_FILE = '/ca.pem'\n")
        found = examined(cli)
    assert found.results["memory"] == "warning"
    assert "and TLS takes some 40,960 more during a call" in found["memory"]


@pytest.mark.slow
def test_limits_that_end_the_turn_early_are_a_warning(agent: Cli) -> None:
    add_settings(agent, "MAX_TURNS = 2\n")
    found = examined(agent)
    assert found["memory"].startswith("warning: heap ")
    assert "the turn ended after 2 of 5 LLM calls" in found["memory"]


def test_a_program_without_an_agent_has_no_turn(cli: Cli) -> None:
    found = examined(cli)
    assert found["memory"].startswith("not run: not on this board: ")
    assert found["name"] == "not run: not on this board: its settings name no BASE_URL"
    assert found["endpoint"].startswith("not run: not on this board: ")
    assert found.results["store"] == "ok"


def test_what_needs_modules_that_were_left_out_is_not_run(cli: Cli, mine: Path) -> None:
    assert cli("deploy", mine).code == 0
    found = examined(cli)
    assert found.results["endpoint"] == found.results["memory"] == "not run"
    assert "no module named 'budget_core." in found["endpoint"]


def test_the_program_starts_again_also_after_an_interrupt(
    agent: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    import budget_cpython.board.doctor as doctor

    def interrupt(device: object) -> object:
        raise KeyboardInterrupt

    monkeypatch.setitem(doctor._CHECKS, "files", (interrupt, ()))
    assert agent("doctor").code == 130
    assert runs(agent.board)
