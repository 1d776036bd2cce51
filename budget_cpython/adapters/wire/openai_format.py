"""The base of OpenAI's formats: the model is in the body, or in the path of Azure's deployments."""

import re
from typing import Final
from urllib.parse import quote, unquote

from budget_cpython.adapters.wire.format import Json, WireFormat, as_list, as_name
from budget_cpython.prices.candidate_models import CandidateModels

_DEPLOYMENT: Final = re.compile(r"/deployments/([^/]+)/", re.IGNORECASE)


class OpenAIFormat(WireFormat):
    """A request of OpenAI's API, or of Azure's."""

    @property
    def deployment(self) -> str | None:
        """The deployment in the path, which answers whatever model the body names."""
        found = _DEPLOYMENT.search(self.path)
        return unquote(found[1]) if found else None

    def model_of(self, body: Json) -> str:
        """Return the deployment in the path, or the first model that the body names."""
        return self.deployment or next(iter(_named(body)), "")

    def candidates_of(self, body: Json) -> CandidateModels:
        """Return the models that may answer: `model`, and the `models` of OpenRouter's requests."""
        return CandidateModels(self.vendor, _named(body))

    def path_for(self, model: str) -> str:
        """Return the path, with Azure's deployment named like the model."""
        name = f"/deployments/{quote(model, safe='')}/"
        return _DEPLOYMENT.sub(lambda _: name, self.path, count=1)


def _named(body: Json) -> tuple[str, ...]:
    names = map(as_name, [body.get("model"), *as_list(body.get("models"))])
    return tuple(name for name in names if name is not None)
