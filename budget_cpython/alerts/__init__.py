"""Alerts: crossings of limits as events of a ledger, and their delivery to those who answer."""
