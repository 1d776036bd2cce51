"""The operators' page: a ledger's accounts, limits, spend and refusals as HTML."""
