"""What the tests of the embedded endpoint share: clients, messages and requests."""

import http.client
import json
import socket
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

import openai

from scripted_model import ScriptedEndpoint

PATIENCE = 60.0
HELLO: Any = [{"role": "user", "content": "How do tomatoes grow on a balcony?"}]
ASK: Any = [
    {"role": "system", "content": "You read the files of a folder."},
    {"role": "user", "content": "What do the files say?"},
]
NOTICE: Any = {"role": "user", "content": "[Budget notice] 80% is used. Wrap up."}
FILES = {
    "notes.md": "Kept since May.\n\n## Garden notes\nWater twice.",
    "todo.txt": "\n\n  Buy seeds\n# not a heading here\n",
}
LISTING = "notes.md\t44\ngone.md\t7\ntodo.txt\n"


def tool(name: str) -> Any:
    parameters = {"type": "object", "properties": {"path": {"type": "string"}}}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


TOOLS: Any = [tool("list_files"), tool("read_file")]
CALL: Any = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def sdk(endpoint: ScriptedEndpoint, key: str = "any") -> openai.OpenAI:
    return openai.OpenAI(
        api_key=key,
        base_url=endpoint.base_url,
        max_retries=0,
        timeout=PATIENCE,
        http_client=openai.DefaultHttpxClient(trust_env=False),
    )


def connect(endpoint: ScriptedEndpoint) -> http.client.HTTPConnection:
    address = urlsplit(endpoint.base_url)
    assert address.hostname is not None
    return http.client.HTTPConnection(address.hostname, address.port, timeout=PATIENCE)


def send(
    endpoint: ScriptedEndpoint,
    body: Any,
    method: str = "POST",
    path: str = "/v1/chat/completions",
    headers: Any = None,
) -> tuple[http.client.HTTPResponse, Any]:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    with closing(connect(endpoint)) as connection:
        connection.request(method, path, raw, headers or {})
        response = connection.getresponse()
        return response, json.loads(response.read())


def start(endpoint: ScriptedEndpoint, model: str, **more: Any) -> http.client.HTTPConnection:
    connection = connect(endpoint)
    body = json.dumps({"model": model, "messages": HELLO, **more})
    connection.request("POST", "/v1/chat/completions", body)
    return connection


def raw_exchange(endpoint: ScriptedEndpoint, request: bytes) -> bytes:
    """Send bytes as they are and return everything that comes back until the server closes."""
    address = urlsplit(endpoint.base_url)
    with socket.create_connection((address.hostname, address.port), PATIENCE) as connection:
        connection.sendall(request)
        with connection.makefile("rb") as answer:
            return answer.read()


def run_tool(call: Any) -> Any:
    if call.function.name == "list_files":
        text = LISTING
    else:
        path = json.loads(call.function.arguments)["path"]
        text = FILES.get(path, f"Error: no such file: {path}")
    return {"role": "tool", "tool_call_id": call.id, "content": text}


def step(client: openai.OpenAI, messages: Any, **more: Any) -> Any:
    """Make one model call, run the tools it asks for, and return its choice."""
    choice = client.chat.completions.create(model="scripted", messages=messages, **more).choices[0]
    messages.append(choice.message.model_dump(exclude_none=True))
    messages.extend(run_tool(call) for call in choice.message.tool_calls or ())
    return choice


def steps(client: openai.OpenAI, messages: Any, count: int) -> list[str]:
    """Make `count` model calls with the tools on offer and name the tool and path of each."""
    asked = []
    for _ in range(count):
        (call,) = step(client, messages, tools=TOOLS).message.tool_calls
        asked.append(json.loads(call.function.arguments).get("path", call.function.name))
    return asked


def stream_lines(endpoint: ScriptedEndpoint, **more: Any) -> list[Any]:
    """Return the parsed events of a stream, after checking that it ends with [DONE]."""
    with closing(start(endpoint, more.pop("model", "m"), stream=True, **more)) as connection:
        response = connection.getresponse()
        assert response.headers["Content-Type"] == "text/event-stream"
        assert response.headers["Transfer-Encoding"] == "chunked"
        events = response.read().decode().split("\n\n")
    assert events[-2:] == ["data: [DONE]", ""]
    return [json.loads(event.removeprefix("data: ")) for event in events[:-2]]


def plus(**more: Any) -> dict[str, Any]:
    return {"model": "m", "messages": HELLO, **more}


CALLING: Any = {"role": "assistant", "content": None, "tool_calls": [CALL]}
RESULT: Any = {"role": "tool", "tool_call_id": "c1", "content": "done"}


def events(endpoint: ScriptedEndpoint, path: str, body: Any) -> list[Any]:
    """Return the data of a stream's events, after checking that each is named for its type."""
    with closing(connect(endpoint)) as connection:
        connection.request("POST", path, json.dumps(body))
        response = connection.getresponse()
        assert response.headers["Content-Type"] == "text/event-stream"
        found = response.read().decode().replace("\r\n", "\n").split("\n\n")
    assert found.pop() == ""
    return [_data(event) for event in found]


def _data(event: str) -> Any:
    *names, line = event.split("\n")
    data = json.loads(line.removeprefix("data: "))
    assert names == ([f"event: {data['type']}"] if "type" in data else [])
    return data
