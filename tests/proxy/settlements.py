"""A server whose models end each call as a case says, and a program that asks them all."""

import json
import sys
from typing import Any

import httpx

from budget_core import Price
from tests.proxy.support import CHAT, Behind, Request
from tests_micro.settlement_cases import CASES, ERRORS, LIMIT, MESSAGES, PRICE

# what HTTP can show; each has a model of its own
SENT = [
    case
    for case in CASES
    if ERRORS.get(case.get("error", ""), (None, 0))[1] is not None and "no_http" not in case
]
PRICES: dict[str, Price] = {f"case-{number}": PRICE for number in range(len(SENT))}


def behind() -> Behind:
    """Return the server."""
    return Behind(_answer)


def _answer(http: Request) -> None:
    asked = json.loads(http.body)
    case = SENT[int(asked["model"].partition("-")[2])]
    status = ERRORS[case["error"]][1] if "error" in case else 200
    if status >= 300:
        http.reply({"error": {"message": "no"}}, status)
        return
    if "stream" not in case:
        if status:
            message = {"role": "assistant", "content": "hi"}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            http.reply({"model": asked["model"], "choices": [choice], "usage": _usage(case)})
        http.close_connection = True
        return
    http.begin_stream()
    for piece in case["stream"]:
        http.event(_chunk(asked["model"], piece))
    if status:
        for last in (_chunk(asked["model"], _usage(case)), "[DONE]", None):
            http.event(last)
    http.close_connection = True


def _usage(case: Any) -> Any:
    answer = case["answer"]
    return {**answer["usage"], **({"cost": answer["cost"]} if "cost" in answer else {})}


def _chunk(model: str, piece: Any) -> dict[str, Any]:
    head = {"id": "1", "object": "chat.completion.chunk", "created": 0, "model": model}
    if not isinstance(piece, str):
        return {**head, "choices": [], "usage": piece or None}
    return {**head, "choices": [{"index": 0, "delta": {"content": piece}}], "usage": None}


def ask(url: str) -> None:
    """Ask each model once, whatever comes of it."""
    for model, case in zip(PRICES, SENT, strict=True):
        body = {"model": model, "messages": MESSAGES, "max_tokens": LIMIT}
        try:
            httpx.post(url + CHAT, json={**body, "stream": "stream" in case}, timeout=120)
        except httpx.HTTPError:
            pass  # it broke off


if __name__ == "__main__":
    ask(sys.argv[1])
