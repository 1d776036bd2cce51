"""Keep the files of these tests in memory, and make engines for them."""

from tests.in_memory import tmp_path as tmp_path
from tests.ledger.conftest import engine as engine
