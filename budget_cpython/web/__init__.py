"""Shared by all HTTP services here: connections, keys, addresses and refusals."""

AT_ONCE = "microbudget.at_once"  # an extension of ASGI: a function that may send a whole answer
