"""The service that serves a ledger over HTTP, and its clients."""
