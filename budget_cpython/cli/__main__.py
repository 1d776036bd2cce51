"""Run as `python -m budget_cpython.cli`, where nothing is installed."""

import sys

from budget_cpython.cli import main

sys.exit(main())
