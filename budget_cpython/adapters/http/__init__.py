"""Budgets round HTTP clients: what an SDK sends and is answered."""
