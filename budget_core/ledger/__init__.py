"""Budgets by path that many calls, agents, processes and machines share."""
