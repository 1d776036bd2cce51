"""Budgets round frameworks: their models, runs and tools."""
