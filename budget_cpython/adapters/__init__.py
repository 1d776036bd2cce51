"""Budgets round the clients and frameworks that agents are written with."""
