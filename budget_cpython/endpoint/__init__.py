"""An embedded OpenAI-compatible endpoint: the chat-completions protocol around a scripted model.

It serves demos and tests on 127.0.0.1 and needs no network, no key and no other package. Any
model name is answered by the scripted model, except the names in `faults.FAULTS`, which fail or
misbehave on purpose so that a client can be tried against them.

A request passes the modules in this order, and each imports only from those before it: `protocol`
(checks of the request), `model` (the scripted reply), `completions` (the reply as JSON objects),
`http_handler` (HTTP), `faults` (models that misbehave), `server` (routes, and what is recorded).
"""

from budget_cpython.endpoint.server import ScriptedEndpoint

__all__ = ["ScriptedEndpoint"]
