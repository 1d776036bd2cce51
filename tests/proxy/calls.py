"""Make calls with an SDK's default client, and print a line of JSON for each: its status.

usage: python calls.py openai|anthropic|langchain|litellm|google-genai URL COUNT

It runs in environments that have that SDK only.
"""

import json
import os
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

MESSAGES: Any = [{"role": "user", "content": "hello"}]
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"


def of_openai(url: str) -> Callable[[], object]:
    """Return a call of OpenAI's SDK."""
    client = import_module("openai").OpenAI(base_url=f"{url}/v1", api_key="mine")
    return lambda: client.chat.completions.create(model="scripted", messages=MESSAGES)


def of_anthropic(url: str) -> Callable[[], object]:
    """Return a call of Anthropic's SDK."""
    client = import_module("anthropic").Anthropic(base_url=url, api_key="mine")
    return lambda: client.messages.create(model="scripted", max_tokens=50, messages=MESSAGES)


def of_langchain(url: str) -> Callable[[], object]:
    """Return a call of LangChain's model."""
    kind = import_module("langchain_openai").ChatOpenAI
    model = kind(base_url=f"{url}/v1", api_key="mine", model="scripted")
    return lambda: model.invoke("hello")


def of_litellm(url: str) -> Callable[[], object]:
    """Return a call of LiteLLM."""
    litellm = import_module("litellm")
    more = {"api_base": f"{url}/v1", "api_key": "mine"}
    return lambda: litellm.completion(model="openai/scripted", messages=MESSAGES, **more)


def of_google_genai(url: str) -> Callable[[], object]:
    """Return a call of Google's SDK."""
    client = import_module("google.genai").Client(api_key="mine", http_options={"base_url": url})
    return lambda: client.models.generate_content(model="scripted", contents="hello")


def status_of(call: Callable[[], object]) -> tuple[int, str]:
    """Return the status of a call, and what its error says."""
    try:
        call()
    except Exception as error:  # noqa: BLE001 - each SDK has errors of its own
        status = getattr(error, "status_code", None) or getattr(error, "code", None)
        return status if isinstance(status, int) else 0, repr(error)
    return 200, ""


def main(name: str, url: str, count: str) -> None:
    """Make the calls."""
    call = globals()["of_" + name.replace("-", "_")](url)
    for _ in range(int(count)):
        status, text = status_of(call)
        print(json.dumps({"status": status, "text": text}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
