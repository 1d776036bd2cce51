"""The base of OpenAI's formats: the model is in the body, or in the path of Azure's deployments."""

import re
from typing import Final
from urllib.parse import quote, unquote

from budget_cpython.adapters.wire.format import Json, WireFormat, as_text

_DEPLOYMENT: Final = re.compile(r"/deployments/([^/]+)/")


class OpenAIFormat(WireFormat):
    """A request of OpenAI's API, or of Azure's."""

    def model_of(self, body: Json) -> str:
        """Return the model that a body names, or the deployment in the path."""
        found = _DEPLOYMENT.search(self.path)
        return as_text(body.get("model")) or (unquote(found[1]) if found else "")

    def path_for(self, model: str) -> str:
        """Return the path, with Azure's deployment named like the model."""
        name = f"/deployments/{quote(model, safe='')}/"
        return _DEPLOYMENT.sub(lambda _: name, self.path, count=1)
