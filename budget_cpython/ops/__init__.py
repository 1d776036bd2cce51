"""What operators see of a ledger: the tree of accounts, how near each limit is, and forecasts."""
