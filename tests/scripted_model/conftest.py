"""Fixtures of the endpoint tests."""

from collections.abc import Iterator

import openai
import pytest

from scripted_model import ScriptedEndpoint

from .support import sdk


@pytest.fixture
def endpoint() -> Iterator[ScriptedEndpoint]:
    with ScriptedEndpoint() as endpoint:
        yield endpoint


@pytest.fixture
def client(endpoint: ScriptedEndpoint) -> Iterator[openai.OpenAI]:
    with sdk(endpoint) as client:
        yield client
