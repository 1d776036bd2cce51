"""The settings of alerts."""

import re
from pathlib import Path
from typing import Any

import pytest

from budget_cpython.alerts.channels import AlertChannel, alert_channels, read_alerts
from budget_cpython.ledger.journal import LedgerEvent
from tests.alerts.support import KEY, SECRET
from tests.paths import ROOT

URL = "https://example.com/budgets"
SOURCE = "env:ALERTS_SECRET"
SLACK_URL = "https://hooks.slack.com/services/T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX"


def one(**row: Any) -> AlertChannel:
    (found,) = alert_channels({"alerts": [{"to": URL, **row}]})
    return found


def crossing(account: str, percent: int = 80) -> LedgerEvent:
    return LedgerEvent("threshold", account, {"percent": percent})


def test_a_channel_needs_a_url_alone() -> None:
    found = one()
    assert (found.to, found.format, found.at, found.accounts) == (
        URL,
        "cloudevents",
        (80, 100),
        ("**",),
    )
    assert found.forecast
    assert found.name.startswith("example.com-")
    assert found.name == one(at=[10]).name != one(to=URL + "/").name


def test_a_channel_wants_its_shares_of_its_accounts() -> None:
    found = one(accounts=["org/**", "lab"], at=[100, 80, 80], forecast=False)
    assert found.at == (80, 100)
    for account in ("org", "org/team/ann", "lab"):
        assert found.wants(crossing(account))
        assert not found.wants(crossing(account, 90))
        assert not found.wants(LedgerEvent("forecast", account, {}))
    for account in ("organ", "lab/ann", "other"):
        assert not found.wants(crossing(account))
    assert one().wants(LedgerEvent("forecast", "any", {}))


def test_secrets_are_read_from_the_environment_and_files_and_shown_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALERTS_SECRET", SECRET)
    (tmp_path / "url").write_text("https://hooks.example.com/T0/hidden\n")
    found = one(to=f"@{tmp_path / 'url'}", secret=SOURCE)
    assert found.key == KEY
    assert found.to.endswith("/hidden")
    assert "hidden" not in repr(found) + found.name
    assert str(KEY) not in repr(found)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"to": "ftp://example.com"}, "a URL such as"),
        ({"to": "https://"}, "a URL such as"),
        ({"to": "http://[::1"}, "a URL such as"),
        ({"to": "https://ex ample.com"}, "a URL such as"),
        ({"to": 5}, "must be a URL"),
        ({"to": "env:NOT_THERE"}, "not in env:NOT_THERE"),
        ({"format": "xml"}, "one of cloudevents"),
        ({"at": [0]}, "whole percents"),
        ({"at": [50.5]}, "whole percents"),
        ({"at": [True]}, "whole percents"),
        ({"at": 1001}, "whole percents"),
        ({"accounts": "org/*/x*"}, "or PATH/\\*\\*, or"),
        ({"accounts": 5}, "or PATH"),
        ({"forecast": "yes"}, "true or false"),
        ({"name": "a b"}, "letters, digits"),
        ({"source": "a b"}, "a URI"),
        ({"secret": SECRET}, "@FILE or env:VARIABLE"),
        ({"shares": [1]}, "known are"),
    ],
)
def test_what_is_malformed_is_refused_without_a_secret(row: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said) as caught:
        one(**row)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("secret", ["hunter2", "whsec_aGk=", "whsec_%%%", "whsec_" + "A" * 400])
def test_a_secret_that_signs_nothing_is_refused(
    secret: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALERTS_SECRET", secret)
    with pytest.raises(ValueError, match="base64 of 24 to 64 bytes") as caught:
        one(secret=SOURCE)
    assert secret not in str(caught.value)


@pytest.mark.filterwarnings("ignore")  # of its imports
def test_apprise_takes_what_it_knows() -> None:
    assert one(to="json://localhost/", format="apprise").name.startswith("json-")
    with pytest.raises(ValueError, match="no URL that apprise knows"):
        one(to="nowhere://there", format="apprise")
    with pytest.raises(ValueError, match="signs nothing"):
        one(to="json://localhost/", format="apprise", secret=SOURCE)


def test_two_channels_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="two"):
        alert_channels({"alerts": [{"to": URL}, {"to": URL, "at": 10}]})


def test_a_file_without_alerts_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "budgets.toml"
    file.write_text('[accounts."org"]\nlimit = "$5/day"\n')
    with pytest.raises(ValueError, match="has no"):
        read_alerts(str(file))
    assert read_alerts(str(file), needed=False) == []
    file.write_text("[alerts]\nto = 5")
    with pytest.raises(ValueError, match="each headed"):
        read_alerts(str(file))
    file.write_text("to = ")
    with pytest.raises(ValueError, match="not TOML"):
        read_alerts(str(file))


@pytest.mark.filterwarnings("ignore")  # of apprise's imports
def test_the_example_of_the_page_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (example,) = re.findall(r"```toml\n(.*?)```", (ROOT / "docs/alerts.md").read_text(), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ALERTS_SECRET", SECRET)
    monkeypatch.setenv("SLACK_URL", SLACK_URL)
    Path("mail.url").write_text("mailto://ann:word@example.com\n")
    Path("budgets.toml").write_text(example)
    first, desk, mail = read_alerts("budgets.toml")
    assert first == AlertChannel(
        first.name, URL, "cloudevents", (50, 80, 100), ("org/**", "lab"), True, KEY
    )
    assert desk == AlertChannel("desk", SLACK_URL, "apprise", (100,), ("**",), False)
    assert mail == AlertChannel("mail", "mailto://ann:word@example.com", "apprise")
