"""An embedded endpoint: the formats of OpenAI, Anthropic and Google around a scripted model.

It serves demos and tests on 127.0.0.1 and needs no network, no key and no other package. Any
model name is answered by the scripted model, except the names in `scripts.SCRIPTS`, which answer
in another manner, and those in `faults.FAULTS`, which fail or misbehave on purpose so that a
client can be tried against them. `ScriptedEndpoint.scripts` has replies of the caller's own.

A request passes the modules in this order, and each imports only from those before it: `checks`
(shapes, errors), `calls` (what was asked and replied), `formats` (a request read, an answer
written), `model` and `scripts` (the reply), `usage` (tokens), `http_handler` (HTTP), `faults`
(models that misbehave), `server` (routes, and what is recorded).
"""

from scripted_model.calls import Answer, Asked, Reply, ScriptedToolCall, ScriptedUsage
from scripted_model.checks import ApiError
from scripted_model.server import ReceivedRequest, ScriptedEndpoint

__all__ = [
    "Answer",
    "ApiError",
    "Asked",
    "ReceivedRequest",
    "Reply",
    "ScriptedEndpoint",
    "ScriptedToolCall",
    "ScriptedUsage",
]
