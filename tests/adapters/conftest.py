"""What the tests of the adapters share: the model's endpoint, and SDKs that call nobody else."""

import os
from collections.abc import Iterator

import pytest

from scripted_model import ScriptedEndpoint

# so that a failure shows values
pytest.register_assert_rewrite(
    "tests.adapters.sdk_cases",
    "tests.adapters.model_cases",
    "tests.adapters.three_calls.cases",
)

# Read when an SDK is imported: nothing is fetched, reported or traced.
os.environ |= {
    "ANONYMIZED_TELEMETRY": "false",
    "CREWAI_DISABLE_TELEMETRY": "true",
    "CREWAI_TRACING_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
    "LANGSMITH_TRACING": "false",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
    "OTEL_SDK_DISABLED": "true",
}


@pytest.fixture
def endpoint() -> Iterator[ScriptedEndpoint]:
    """Serve the scripted model; `len(endpoint.requests)` counts the attempts of an SDK."""
    with ScriptedEndpoint() as endpoint:
        yield endpoint


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Say in the report which features a test shows, for the matrix in docs/adapters.md."""
    for mark in item.iter_markers("feature"):
        item.user_properties += [("feature", name) for name in mark.args]
