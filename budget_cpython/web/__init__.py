"""Shared by all HTTP services here: connections, keys, addresses and refusals."""
