"""Serve a ledger over HTTP: an ASGI app, `budget_cpython.serve.app.make_app`."""
