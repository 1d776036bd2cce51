"""What only CPython can show of ledgers: engines, threads and processes."""
