"""The place of a database among those of one ledger: a wrong list of them is refused."""

from dataclasses import dataclass, field
from uuid import UUID, uuid4

from budget_core.ledger.errors import LedgerUnavailableError


@dataclass
class LedgerId:
    """The id of a ledger, as the first of its databases says that is asked; `None` before."""

    known: UUID | None = None


@dataclass(frozen=True)
class Place:
    """Which database this is, from 1, `of` how many, in the order that a ledger is given."""

    number: int = 1
    of: int = 1
    ledger: LedgerId = field(default_factory=LedgerId)

    def __str__(self) -> str:
        return f"database {self.number} of {self.of}"

    def new_id(self) -> UUID:
        """Return the id for a schema that is made here.

        Raises `LedgerUnavailableError` if it is that of a first database that is out of reach.
        """
        if self.ledger.known is not None:
            return self.ledger.known
        if self.number > 1:
            raise LedgerUnavailableError(f"{self} is new: begin it when the first is in reach")
        return uuid4()

    def check(self, schema: str, ledger: UUID, number: int, of: int) -> None:
        """Raise `LedgerUnavailableError` if a database says that it has another place."""
        if (number, of) != (self.number, self.of):
            raise LedgerUnavailableError(
                f"schema {schema} there says that it is database {number} of {of} of its ledger, "
                f"not {self.number} of {self.of}: give all databases of the ledger, in their order"
            )
        if self.ledger.known not in (None, ledger):
            raise LedgerUnavailableError(
                f"schema {schema} there is of another ledger than the other databases: it says "
                f"{ledger}, they say {self.ledger.known}"
            )
        self.ledger.known = ledger
