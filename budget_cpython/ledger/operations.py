"""The table of a ledger's operations: what is known of each, for whatever passes them on."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Operation:
    """One operation; its arguments and its answer are those of its method of `JournaledLedger`.

    - `method`, `noun`: its request to a service; the noun begins the URL.
    - `right`: one that a key needs, or several of which it needs one, as in `charge or reserve`.
    - `on_account`: whether it is about one account; `also_on_all`: whether a request may leave that
      out, for all that its key is for.
    - `errors`: statuses of its own of an answer.
    - `settles`: whether calls that wait may be granted afterwards.
    - `together`: whether several go in one request, or one transaction.
    - `is_lookup`: whether it looks up one hold, or the limits that one account has now.
    - `for_operators`: whether it is one of `Journal`, which workflows do not depend on.
    """

    name: str
    method: str
    noun: str
    right: str
    on_account: bool = True
    also_on_all: bool = False
    errors: tuple[int, ...] = ()
    settles: bool = False
    together: bool = False
    is_lookup: bool = False
    for_operators: bool = False

    @property
    def is_short(self) -> bool:
        """Whether it takes about as long whatever else the ledger holds."""
        return self.together or self.is_lookup


_ROWS = (
    Operation("reserve", "POST", "reserve", "reserve", errors=(409, 429), together=True),
    Operation("charge", "POST", "charge", "charge", errors=(409,), settles=True, together=True),
    Operation("commit", "POST", "commit", "reserve", settles=True, together=True),
    Operation("renew", "POST", "renew", "reserve", errors=(409, 429), settles=True, together=True),
    Operation("release", "POST", "release", "reserve", settles=True, together=True),
    Operation("extend", "POST", "extend", "reserve", errors=(409,), together=True),
    Operation("hold", "GET", "hold", "read", is_lookup=True),
    Operation("balance", "GET", "balance", "read", is_lookup=True),
    Operation("history", "GET", "history", "read"),
    Operation("limits", "GET", "limits", "read", is_lookup=True),
    Operation("set_limits", "PUT", "limits", "limits", errors=(409,), settles=True),
    Operation("accounts", "GET", "accounts", "read", on_account=False),
    Operation("devices", "GET", "devices", "read", on_account=False),
    Operation("expire", "POST", "expire", "limits", settles=True, on_account=False),
    Operation("balances", "GET", "balances", "read", also_on_all=True, for_operators=True),
    Operation("open_holds", "GET", "holds", "read", also_on_all=True, for_operators=True),
    Operation("events", "GET", "events", "read", also_on_all=True, for_operators=True),
    Operation("usage", "GET", "usage", "read", also_on_all=True, for_operators=True),
    Operation("note", "POST", "events", "limits", also_on_all=True, for_operators=True),
    Operation("add_usage", "POST", "usage", "charge or reserve", for_operators=True),
)
OPERATIONS = {row.name: row for row in _ROWS}
TOGETHER = tuple(row.name for row in _ROWS if row.together)
