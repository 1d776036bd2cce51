"""The model in the path of Azure's deployments."""

import re
from typing import Any
from urllib.parse import quote, unquote

_DEPLOYMENT = re.compile(r"/deployments/([^/]+)/")


def model_of(path: str, body: dict[str, Any]) -> str:
    """Return the model that a body names, or the deployment in the path."""
    model = body.get("model")
    if isinstance(model, str) and model:
        return model
    found = _DEPLOYMENT.search(path)
    return unquote(found[1]) if found else ""


def path_with(path: str, model: str) -> str:
    """Return a path with its deployment, if there is one, named like a model."""
    name = f"/deployments/{quote(model, safe='')}/"
    return _DEPLOYMENT.sub(lambda _: name, path, count=1)
