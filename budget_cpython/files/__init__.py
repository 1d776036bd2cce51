"""Files: durable replacement, locks, and files of one owner."""
