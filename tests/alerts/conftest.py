"""Keep the files of these tests in memory, and make engines for them."""

from tests.ledger.conftest import engine as engine
from tests.ledger.sqlite.conftest import tmp_path as tmp_path
