"""A budget round a command: `microbudget run`."""
