"""A deploy sends the root certificate that an endpoint needs, and the board verifies it by that."""

import ssl
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from budget_cpython.board import device
from budget_cpython.board.build import listed_files
from budget_cpython.board.certificates import endpoint_roots, file_roots
from budget_cpython.board.connection import BoardConnection
from budget_cpython.board.errors import BoardError, UsageError
from tests.board.emulator.client import Terminal
from tests.board.emulator.noon import NoonBoard
from tests.chat.server import DATA, Server

from .support import Cli, digests, read_file

PROMPT = b"\n> "
ROOT = ssl.PEM_cert_to_DER_cert((DATA / "root.pem").read_text())


@pytest.fixture
def server() -> Iterator[Server]:
    """An endpoint with a chain of three certificates."""
    serving = Server(tls=True, certificate="signed")
    yield serving
    serving.close()


@pytest.fixture
def trusting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have this machine trust the root of that chain, and no other."""
    monkeypatch.setenv("SSL_CERT_FILE", str(DATA / "root.pem"))


@pytest.fixture
def cli(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Cli]:
    with NoonBoard(tmp_path / "flash.img", heap="512k", romfs=tmp_path / "rom.img") as board:
        yield Cli(board, capsys)


def secrets(folder: Path, port: int, scheme: str = "https") -> Path:
    path = folder / "secret.py"
    url = f"{scheme}://localhost:{port}/known"
    path.write_text(f'API_KEY = "sk-mine"\nBASE_URL = "{url}"\nMODEL = "small"\n')
    return path


def answer(cli: Cli) -> str:
    """Return what the agent answers to a question."""
    cli.board.power_on()
    with Terminal(cli.board.port) as terminal:
        terminal.read_until(PROMPT)
        return terminal.answer(b"Hello?\r", PROMPT).decode()


def is_listed(cli: Cli) -> bool:
    """Whether `deployed.py` lists the certificate, for the doctor to compare."""
    listed = listed_files(read_file(cli.board, "/deployed.py"))
    return sha256(ROOT).hexdigest().startswith(listed.get("/ca.der", "none"))


def test_the_board_trusts_the_endpoint_by_the_root_that_was_deployed(
    cli: Cli, server: Server, trusting: None, tmp_path: Path
) -> None:
    options = ("--romfs", "--secrets", secrets(tmp_path, server.port))
    said = cli("deploy", "unix", *options)
    assert (said.code, said.err) == (0, "")
    assert f"certificates for https://localhost:{server.port}/known: Root for tests" in said.out
    assert read_file(cli.board, "/ca.der") == ROOT
    assert is_listed(cli)
    assert "Grüße 😀" in answer(cli)
    assert server.served["known"]["model"] == "small"
    said = cli("deploy", "unix", "--romfs")  # the endpoint is in the secrets on the board
    assert "nothing to copy" in said.out
    assert "Root for tests" in said.out


def test_certificates_of_a_file_are_sent_instead(
    cli: Cli, server: Server, trusting: None, tmp_path: Path
) -> None:
    both = tmp_path / "both.pem"
    both.write_text((DATA / "root.pem").read_text() + (DATA / "localhost.pem").read_text())
    options = ("--romfs", "--secrets", secrets(tmp_path, server.port))
    assert cli("deploy", "unix", *options, "--ca", both).code == 0
    assert ROOT in read_file(cli.board, "/ca.der")
    assert len(read_file(cli.board, "/ca.der")) > len(ROOT)
    assert "Grüße 😀" in answer(cli)
    assert cli("deploy", "unix", *options, "--ca", DATA / "localhost.pem").code == 0
    assert "connection trouble" in answer(cli)


def test_an_endpoint_that_is_not_trusted_is_a_warning_and_certificates_there_stay(
    cli: Cli, server: Server, tmp_path: Path
) -> None:
    options = ("--romfs", "--secrets", secrets(tmp_path, server.port))
    said = cli("deploy", "unix", *options)
    assert said.code == 0
    assert "this machine does not trust it: unable to get local issuer" in said.out
    assert "the board has no /ca.der with certificates for https://localhost" in said.out
    assert "--ca FILE" in said.out
    assert cli("deploy", "unix", *options, "--ca", DATA / "root.pem").code == 0
    said = cli("deploy", "unix", *options)
    assert "does not trust it" in said.out
    assert "no /ca.der" not in said.out
    assert "nothing to copy" in said.out
    assert read_file(cli.board, "/ca.der") == ROOT
    assert is_listed(cli)


def test_certificates_there_that_are_read_wrong_are_not_written_back(
    cli: Cli, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ("--romfs", "--secrets", secrets(tmp_path, server.port))
    assert cli("deploy", "unix", *options, "--ca", DATA / "root.pem").code == 0

    class Bad(BoardConnection):
        """A connection that loses the end of each file that it reads."""

        def read(self, path: str) -> bytes:
            return super().read(path)[:-1]

    with monkeypatch.context() as patch:
        patch.setattr(device, "BoardConnection", Bad)
        said = cli("deploy", "unix", *options)
    assert said.code == 1
    assert "/ca.der differs after the copy: try again" in said.err
    assert read_file(cli.board, "/ca.der") == ROOT


def test_an_http_endpoint_needs_no_certificates(cli: Cli, tmp_path: Path) -> None:
    options = ("--romfs", "--secrets", secrets(tmp_path, 8080, "http"))
    said = cli("deploy", "unix", *options, "--ca", DATA / "root.pem")
    assert said.code == 2
    assert "--ca is for an https BASE_URL" in said.err
    assert cli("deploy", "unix", *options).code == 0
    assert "/ca.der" not in digests(cli.board)


def test_each_kind_of_trouble_has_its_words(server: Server) -> None:
    for url, words in (
        (f"https://127.0.0.1:{server.port}/v1", "does not trust it"),
        ("https://localhost:1/v1", "cannot be reached: Connection refused"),
        ("https://no-such-host.invalid/v1", "cannot be reached: "),
    ):
        with pytest.raises(BoardError, match=words):
            endpoint_roots(url)


def test_a_plain_server_has_no_root() -> None:
    plain = Server()
    with pytest.raises(BoardError, match=r"TLS 1\.2 failed"):
        endpoint_roots(f"https://localhost:{plain.port}/v1")
    plain.close()


def test_a_file_may_be_pem_or_der_and_has_to_have_certificates(tmp_path: Path) -> None:
    der = tmp_path / "root.der"
    der.write_bytes(ROOT)
    assert file_roots(DATA / "root.pem") == file_roots(der) == {ROOT: "Root for tests"}
    for path, words in (
        (DATA / "README.md", "there are no certificates in it"),
        (tmp_path / "none", "No such file"),
    ):
        with pytest.raises(UsageError, match=words):
            file_roots(path)
