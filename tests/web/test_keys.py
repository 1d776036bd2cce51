"""The file of keys: what it contains, who may write it, and that a change counts at once."""

import hashlib
import hmac
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from budget_cpython.web.keys import KeyFile, KeyFileError


@pytest.fixture
def keys(tmp_path: Path) -> KeyFile:
    return KeyFile(tmp_path / "keys.json")


def test_a_key_is_random_and_is_stored_as_its_hash_only(keys: KeyFile) -> None:
    tokens = [keys.add(name, "org", ["read"]) for name in ("a", "b")]
    text = Path(keys.path).read_text()
    for token in tokens:
        secret = token.rpartition(".")[2]
        assert len(secret) == 43
        assert secret not in text
        assert hashlib.sha256(token.encode()).hexdigest() in text
    assert tokens[0][-43:] != tokens[1][-43:]


def test_only_the_owner_reads_the_file_under_any_umask(keys: KeyFile) -> None:
    before = os.umask(0)
    try:
        keys.add("a", "org", ["read"])
    finally:
        os.umask(before)
    assert os.stat(keys.path).st_mode & 0o777 == 0o600


def test_a_key_is_known_by_itself_whole_and_by_nothing_else(keys: KeyFile) -> None:
    token = keys.add("a", "org", ["read"])
    other = keys.add("b", "lab", ["read"])
    found = keys.check(token)
    assert found is not None
    assert (found.name, found.account, found.rights) == ("a", "org", ("read",))
    secret, others = token.rpartition(".")[2], other.rpartition(".")[2]
    wrong = ["", "a", secret, token[:-1], token + "x", token.upper(), f"mb.b.{secret}", "mb.a."]
    wrong += [f"mb.a.{others}", f"mb.c.{secret}", f"mb.a.{secret}.", "\udcff", "mb..", "é"]
    wrong += [hashlib.sha256(token.encode()).hexdigest(), f"x.a.{secret}"]
    for one in wrong:
        assert keys.check(one) is None, one


def test_a_key_is_compared_in_constant_time_whether_its_name_is_known_or_not(
    keys: KeyFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = keys.add("a", "org", ["read"])
    compared: list[tuple[str, str]] = []

    def compare(one: str, other: str) -> bool:
        compared.append((one, other))
        return False

    monkeypatch.setattr(hmac, "compare_digest", compare)
    for number, one in enumerate((token, token[:-1], "mb.b.x", "")):
        assert keys.check(one) is None
        assert len(compared) == number + 1
        assert {len(digest) for digest in compared[number]} == {64}


def test_rights_are_kept_in_one_order_and_once(keys: KeyFile) -> None:
    token = keys.add("a", "org", ["limits", "read", "reserve", "read"])
    key = keys.check(token)
    assert key is not None
    assert key.rights == ("reserve", "read", "limits")


def test_a_bad_name_account_or_right_makes_no_key(keys: KeyFile) -> None:
    for name, account, rights in (
        ("", "org", ["read"]),
        ("a.b", "org", ["read"]),
        ("a" * 65, "org", ["read"]),
        ("a", "", ["read"]),
        ("a", "org/", ["read"]),
        ("a", "org/*", ["read"]),
        ("a", "org", []),
        ("a", "org", ["write"]),
        ("a", "org", [""]),
    ):
        with pytest.raises(ValueError, match=r"must be|at least"):
            keys.add(name, account, rights)
    assert not os.path.exists(keys.path)


def test_a_name_is_given_once_and_is_free_once_it_is_revoked(keys: KeyFile) -> None:
    first = keys.add("a", "org", ["read"])
    with pytest.raises(ValueError, match="the key 'a' exists"):
        keys.add("a", "org", ["read"])
    keys.revoke("a")
    with pytest.raises(ValueError, match="there is no key 'a'"):
        keys.revoke("a")
    second = keys.add("a", "org", ["read"])
    assert keys.check(first) is None
    assert keys.check(second) is not None


def test_revoking_where_there_are_no_keys_leaves_nothing_behind(keys: KeyFile) -> None:
    with pytest.raises(KeyFileError, match="key add"):
        keys.revoke("a")
    assert os.listdir(os.path.dirname(keys.path)) == []


def test_a_change_by_another_process_counts_at_once(keys: KeyFile) -> None:
    other = KeyFile(keys.path)
    token = keys.add("a", "org", ["read"])
    assert other.check(token) is not None
    keys.revoke("a")
    assert other.check(token) is None


def test_a_missing_or_damaged_file_lets_no_key_in(keys: KeyFile) -> None:
    token = keys.add("a", "org", ["read"])
    whole = Path(keys.path).read_bytes()
    data = json.loads(whole)
    row = data["keys"][0]
    damaged = [b"", whole[:-5], b"\xff", b"[" * 50_000, b"[]", b'{"version": 1}', b" " * (5 << 20)]
    for change in (
        {"version": 2},
        {"keys": [5]},
        {"keys": [{**row, "rights": ["write"]}]},
        {"keys": [{**row, "account": "a b"}]},
        {"keys": [{**row, "more": 1}]},
        {"keys": [{"name": "a"}]},
        {"keys": [{**row, "digest": 5}]},
        {"keys": [{**row, "digest": None}]},
        {"keys": [{**row, "digest": "é"}]},
        {"keys": [{**row, "name": 5}]},
        {"keys": [{**row, "made_at": "x"}]},
        {"keys": [{**row, "made_at": 1e400}]},
        {"keys": [row, row]},
    ):
        damaged.append(json.dumps({**data, **change}).encode())
    for one in damaged:
        Path(keys.path).write_bytes(one)
        with pytest.raises(KeyFileError, match="keys"):
            keys.check(token)
    Path(keys.path).write_bytes(whole)
    assert keys.check(token) is not None
    os.unlink(keys.path)
    with pytest.raises(KeyFileError, match="key add"):
        keys.check(token)


def test_a_file_that_others_may_write_or_that_is_a_link_is_not_trusted(keys: KeyFile) -> None:
    token = keys.add("a", "org", ["read"])
    os.chmod(keys.path, 0o620)
    with pytest.raises(KeyFileError, match="chmod 600"):
        keys.check(token)
    os.chmod(keys.path, 0o600)
    if os.geteuid() == 0:
        os.chown(keys.path, 12_345, -1)
        with pytest.raises(KeyFileError, match="another user owns"):
            keys.check(token)
        os.chown(keys.path, 0, -1)
        assert keys.check(token) is not None
    link = Path(keys.path + ".link")
    link.symlink_to(keys.path)
    with pytest.raises(KeyFileError, match="not a plain file"):
        KeyFile(link).check(token)
    os.mkfifo(keys.path + ".fifo", 0o600)
    with pytest.raises(KeyFileError, match="not a plain file"):
        KeyFile(keys.path + ".fifo").check(token)


def test_a_save_that_fails_keeps_the_keys_and_says_so(
    keys: KeyFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = keys.add("a", "org", ["read"])

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(KeyFileError, match="No space left"):
        keys.add("b", "org", ["read"])
    assert keys.check(token) is not None
    assert list(keys.keys()) == ["a"]


def test_processes_that_make_keys_at_once_lose_none(keys: KeyFile) -> None:
    program = (
        "import sys; from budget_cpython.web.keys import KeyFile, KeyFileError\n"
        "keys = KeyFile(sys.argv[1])\n"
        "for n in range(5):\n"
        "    while True:\n"
        "        try: print(keys.add(sys.argv[2] + str(n), 'org', ['read'])); break\n"
        "        except KeyFileError as error: assert 'try again' in str(error), error\n"
    )
    made: list[str] = []

    def run(name: str) -> None:
        command = [sys.executable, "-c", program, keys.path, name]
        made.extend(subprocess.check_output(command, text=True).split())

    threads = [threading.Thread(target=run, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 15
    assert all(keys.check(token) for token in made)
