"""The errors of ledgers that only servers have."""

from budget_core.ledger.errors import LedgerUnavailableError


class LedgerCorruptError(LedgerUnavailableError):
    """A ledger's file is damaged, was removed, or is not the one that was there.

    Nothing is granted, also not offline, until it is restored; docs/ledger.md says how.
    """
