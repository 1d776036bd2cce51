"""google-genai: the loop is the client's own automatic function calling."""

import pytest

pytest.importorskip("google.genai")

from google.genai import Client
from google.genai.types import (
    AutomaticFunctionCallingConfig,
    GenerateContentConfig,
    HttpOptions,
    HttpRetryOptions,
)

from tests.adapters.three_calls.cases import (
    MODEL,
    NO_AGENTS,
    NOT_REPEATED,
    PROMPT,
    UNLIMITED,
    Framework,
    Job,
    ThreeCalls,
)


class GoogleFunctions(Framework):
    """The client's automatic function calling."""

    title, package = "google-genai, its automatic function calling", "google-genai"
    limit, ended = "`maximum_remote_calls=3`", (3, "ends without an answer")
    ours = "`budgeted(genai.Client())`"
    lacks = {"S3": NO_AGENTS, "S10": NO_AGENTS, "S11": NOT_REPEATED}

    def run(self, job: Job) -> object:
        def look(place: str) -> str:
            """Look at a place."""
            return job.look(place)

        retries = HttpRetryOptions(attempts=3, initial_delay=0.01)
        options = HttpOptions(base_url=job.endpoint.root_url, retry_options=retries)
        client = job.budgeted(Client(api_key="k", http_options=options))
        config = GenerateContentConfig(
            system_instruction=job.scenario.system,
            tools=[look],  # a copy of it is made
            automatic_function_calling=AutomaticFunctionCallingConfig(
                maximum_remote_calls=job.limit or UNLIMITED
            ),
        )
        asked = {"model": MODEL, "contents": PROMPT, "config": config}
        if not job.scenario.streams:
            return client.models.generate_content(**asked).text
        return [piece.text for piece in client.models.generate_content_stream(**asked)]


class TestGoogleFunctions(ThreeCalls):
    framework = GoogleFunctions()
