"""The validator of the FinOps Foundation, on a report in the form of FOCUS."""

import csv
import subprocess
import sys
from pathlib import Path

import pytest

from budget_cpython.ops.report_tables import as_focus
from tests.ops.test_report import ROWS, report, row
from tests.paths import ROOT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.version_info >= (3, 12), reason="the validator's pins exclude it"),
]
ENVIRONMENT = ROOT / ".local/focus"
# Version 1.0.0 of the validator knows these by names of before 1.0, and asks for one that 1.0 left.
OLD_NAMES = {
    "InvoiceIssuerName": "InvoiceIssuer",
    "ProviderName": "Provider",
    "PublisherName": "Publisher",
    "ResourceId": "ResourceID",
}
LEFT = {"ChargeType": "Usage"}


def validator() -> Path:
    """Return the program of the validator, installed in an environment of its own."""
    done, program = ENVIRONMENT / "done", ENVIRONMENT / "bin/focus-validator"
    if not done.exists():
        python = str(ENVIRONMENT / "bin/python")
        subprocess.run([sys.executable, "-m", "venv", "--clear", ENVIRONMENT], check=True)
        pip = [python, "-m", "pip", "install", "-q"]
        subprocess.run([*pip, "pip>=25.1"], check=True)
        subprocess.run([*pip, "--group", "focus"], check=True, cwd=ROOT)
        done.touch()
    return program


def test_the_validator_of_focus_finds_nothing(tmp_path: Path) -> None:
    rows = [*ROWS, row(3, "acme/a", "free", 0), row(4, "other", "=SUM(A1)", 3)]
    file = tmp_path / "charges.csv"
    names, *charges = csv.reader(as_focus(report(rows)).splitlines())
    with file.open("w", newline="") as out:
        table = csv.writer(out)
        table.writerow([*(OLD_NAMES.get(name, name) for name in names), *LEFT])
        table.writerows([*charge, *LEFT.values()] for charge in charges)
    program = validator()
    (packages,) = ENVIRONMENT.glob("lib/*/site-packages")  # it opens a file of its own from there
    command = [str(program), "--data-file", str(file), "--validate-version", "1.0"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=packages, timeout=300)
    said = done.stdout + done.stderr
    assert "failed:" not in said, said
    assert "Validation succeeded" in said, said
