"""Send an alert to a channel: one attempt."""

import logging
import time
from collections.abc import Callable

import httpx

from budget_core.errors import BudgetError
from budget_cpython.alerts.channels import AlertChannel
from budget_cpython.alerts.messages import CLOUD_EVENT, AlertMessage, cloud_event
from budget_cpython.alerts.signature import signed_headers

THREADS = "microbudget-alerts"  # begins the names of threads that send
TIMEOUT_S = 15.0  # three of them are less than a lease
MOST_RETRY_AFTER_S = 3600
_LOGGERS = ("httpx", "apprise", "urllib3.connectionpool")  # which log URLs


class AlertNotSentError(BudgetError):
    """A channel did not take an alert.

    The message is the cause in a word or two, such as `HTTP 503` or `ConnectError`. The channel
    asked for `retry_after_s` seconds of rest, 0 if it did not.
    """

    def __init__(self, reason: str, retry_after_s: int = 0) -> None:
        super().__init__(reason)
        self.retry_after_s = retry_after_s


class AlertSender:
    """Sends alerts over HTTP, from any number of threads; `clock` returns Unix seconds.

    A channel has `timeout_s` to be connected to, to be sent to, and to answer.
    Certificates are verified and redirects are not followed: an answer other than 2xx is a failure.
    Threads whose names begin with `THREADS` log no URL, which may have a token in it.
    """

    def __init__(
        self, clock: Callable[[], float] = time.time, timeout_s: float = TIMEOUT_S
    ) -> None:
        self._clock = clock
        self._client = httpx.Client(timeout=timeout_s, follow_redirects=False)
        for name in _LOGGERS:
            logging.getLogger(name).addFilter(_is_not_ours)

    def close(self) -> None:
        """Close its connections."""
        self._client.close()

    def send(self, channel: AlertChannel, message: AlertMessage) -> None:
        """Send an alert, or raise `AlertNotSentError`."""
        if channel.format == "apprise":
            _notify(channel, message)
        else:
            self._post(channel, message)

    def _post(self, channel: AlertChannel, message: AlertMessage) -> None:
        body = cloud_event(message)
        headers = signed_headers(message.id, int(self._clock()), body, channel.key)
        headers["content-type"] = CLOUD_EVENT
        headers["user-agent"] = "microbudget"
        try:
            with self._client.stream("POST", channel.to, content=body, headers=headers) as answer:
                status, again = answer.status_code, answer.headers.get("retry-after", "")
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
            raise AlertNotSentError(type(error).__name__) from None
        if not 200 <= status < 300:
            rest = min(int(again[:9]), MOST_RETRY_AFTER_S) if _is_number(again) else 0
            raise AlertNotSentError(f"HTTP {status}", rest)


def _notify(channel: AlertChannel, message: AlertMessage) -> None:
    import apprise

    try:
        target = apprise.Apprise()
        target.add(channel.to)
        sent = target.notify(body=message.text, title=message.title)
    except Exception as error:  # noqa: BLE001 - plugins raise what they like, and may name the URL
        raise AlertNotSentError(type(error).__name__) from None
    if not sent:
        raise AlertNotSentError("apprise could not send it")


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _is_not_ours(record: logging.LogRecord) -> bool:
    return not (record.threadName or "").startswith(THREADS)
