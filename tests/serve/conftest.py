"""Keep the files of these tests in memory."""

from tests.in_memory import tmp_path as tmp_path
