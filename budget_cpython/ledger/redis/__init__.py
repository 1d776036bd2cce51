"""A ledger in Redis or Valkey: one script an operation, so that any number of machines share it."""

try:
    import redis as _redis  # noqa: F401 - to say what is missing
except ImportError as error:
    raise ImportError("a ledger in Redis needs: pip install 'microbudget[redis]'") from error

from budget_cpython.ledger.redis.ledgers import AsyncRedisLedger, RedisLedger

__all__ = ["AsyncRedisLedger", "RedisLedger"]
