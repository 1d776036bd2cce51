"""LiteLLM: it calls no tools, so the loop is one's own."""

from typing import Any

import pytest

pytest.importorskip("litellm")

import litellm

from tests.adapters.three_calls.cases import MODEL, Job, ThreeCalls
from tests.adapters.three_calls.test_openai import OpenAIClient


class LiteLLM(OpenAIClient):
    """A loop of one's own round `completion`."""

    title, package = "LiteLLM, a loop of one's own", "litellm"
    ours = "`budgeted(litellm)`"

    def run(self, job: Job) -> object:
        llm = job.budgeted(litellm)

        def create(**options: Any) -> Any:
            return llm.completion(
                **{**options, "model": f"openai/{MODEL}"},
                api_base=job.endpoint.base_url,
                api_key="k",
                num_retries=2,
            )

        return self.loop(job, create)


class TestLiteLLM(ThreeCalls):
    framework = LiteLLM()
