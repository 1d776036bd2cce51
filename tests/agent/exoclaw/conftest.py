"""Fixtures of the exoclaw tests."""

import pytest

from scripted_model import ScriptedEndpoint

from .play import Played, play


@pytest.fixture(scope="session", params=["cpython", "micropython"])
def runtime(request: pytest.FixtureRequest) -> str:
    """Name each runtime in turn."""
    return str(request.param)


@pytest.fixture(scope="session")
def played(runtime: str, tmp_path_factory: pytest.TempPathFactory) -> Played:
    """Return what all scenarios saw, and what the endpoint was sent."""
    with ScriptedEndpoint() as endpoint:
        played = play(runtime, tmp_path_factory.mktemp(runtime), endpoint=endpoint.base_url)
        played.requests = [request.body for request in endpoint.requests]
    return played
