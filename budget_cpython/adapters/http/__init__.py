"""Budgets round the HTTP clients of SDKs: their requests, answers and streams."""
