"""What every HTTP service here shares: connections, keys, addresses and refusals."""
