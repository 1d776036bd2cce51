"""A process that looks at a ledger once: `watcher.py SETTINGS`, as JSON.

The settings are the ledger's `url`, the Unix second `now` of its clock and of the watch, and the
`to` and `secret` of a channel at 80 percent.
"""

import json
import sys

from budget_cpython.alerts.channels import AlertChannel
from budget_cpython.alerts.sending import AlertSender
from budget_cpython.alerts.signature import signing_key
from budget_cpython.alerts.watch import AlertWatch
from budget_cpython.ledger.opening import open_ledger
from tests.ledger.patience import NO_HURRY


def main(text: str) -> None:
    """Look once, and print what it led to."""
    said = json.loads(text)

    def clock() -> float:
        return float(said["now"])

    channel = AlertChannel(
        "ops",
        said["to"],
        at=(80,),
        forecast=False,
        key=signing_key("secret", said["secret"]),
    )
    ledger = open_ledger(said["url"], clock=clock, timeout=NO_HURRY)
    watch = AlertWatch(ledger, [channel], clock, AlertSender(clock, NO_HURRY).send)
    print(json.dumps(watch.look_once()))
    watch.close()
    ledger.close()


if __name__ == "__main__":
    main(sys.argv[1])
