"""Scenarios of exoclaw's own agent loop with our budgets in it, for MicroPython and CPython.

`python -m tests.agent.exoclaw.scenarios [NAME…]` prints what each scenario saw as a line of JSON.
`SCENARIO_FOLDER` names the folder they may write to, `SCENARIO_ENDPOINT` the base URL of an
embedded endpoint.
"""

from . import fillers  # noqa: F401 - before anything of exoclaw
