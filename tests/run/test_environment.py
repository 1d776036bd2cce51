"""The variables of SDKs, and the upstreams behind them."""

import re

import pytest

from budget_cpython.run.environment import VARIABLES, for_command, plan_routes

URL = "http://127.0.0.1:8400"
LOCAL = "http://localhost:8000/v1"


def test_the_vendors_are_the_upstreams_of_variables_that_are_not_set() -> None:
    routes = plan_routes({"OPENAI_BASE_URL": ""}, {})
    assert routes.upstreams == {
        "openai": "https://api.openai.com/v1",
        "anthropic": "https://api.anthropic.com",
        "google": "https://generativelanguage.googleapis.com",
    }
    said = routes.environment({"HOME": "/home/me"}, URL)
    assert said.pop("HOME") == "/home/me"
    assert said == {
        "OPENAI_BASE_URL": f"{URL}/openai/v1",
        "OPENAI_API_BASE": f"{URL}/openai/v1",
        "ANTHROPIC_BASE_URL": f"{URL}/anthropic",
        "ANTHROPIC_API_URL": f"{URL}/anthropic",
        "ANTHROPIC_API_BASE": f"{URL}/anthropic",
        "GOOGLE_GEMINI_BASE_URL": f"{URL}/google",
        "GEMINI_API_BASE": f"{URL}/google/v1beta",
        "no_proxy": "127.0.0.1",
        "NO_PROXY": "127.0.0.1",
    }


@pytest.mark.parametrize(
    ("variable", "said", "path"),
    [
        ("OPENAI_BASE_URL", LOCAL, "/openai/v1"),
        ("OPENAI_API_BASE", "http://localhost:4000", "/openai"),
        ("OPENAI_BASE_URL", "https://example.org/api/paas/v4", "/openai"),
        ("ANTHROPIC_BASE_URL", "https://example.org/claude", "/anthropic"),
        ("ANTHROPIC_BASE_URL", "https://api.anthropic.com/v1/", "/anthropic/v1"),
        ("GEMINI_API_BASE", "https://example.org/v1beta", "/gemini_api_base"),
    ],
)
def test_a_variable_that_is_set_says_its_vendors_upstream(
    variable: str, said: str, path: str
) -> None:
    routes = plan_routes({variable: said}, {})
    alike = [name for name, place in VARIABLES.items() if place == VARIABLES[variable]]
    assert {routes.paths[name] for name in alike} == {path}
    assert routes.upstreams[path.split("/")[1]] == said
    assert list(routes.upstreams)[:3] == ["openai", "anthropic", "google"]


def test_a_variable_with_another_url_has_an_upstream_of_its_own() -> None:
    before = {"OPENAI_BASE_URL": LOCAL, "OPENAI_API_BASE": "http://localhost:4000"}
    routes = plan_routes(before, {})
    assert routes.upstreams["openai"] == LOCAL
    assert routes.upstreams["openai_api_base"] == "http://localhost:4000"
    assert routes.paths["OPENAI_API_BASE"] == "/openai_api_base"


def test_an_upstream_that_is_given_takes_the_place_of_all_its_variables() -> None:
    before = {"OPENAI_BASE_URL": LOCAL, "OPENAI_API_BASE": "http://localhost:4000"}
    routes = plan_routes(before, {"openai": "https://example.org/v1"})
    assert routes.upstreams["openai"] == "https://example.org/v1"
    assert routes.paths["OPENAI_API_BASE"] == routes.paths["OPENAI_BASE_URL"] == "/openai/v1"


def test_variables_without_a_common_url_matter_where_they_are_set() -> None:
    before = {"AZURE_OPENAI_ENDPOINT": "https://me.openai.azure.com/"}
    routes = plan_routes(before, {})
    assert routes.upstreams["azure_openai_endpoint"] == "https://me.openai.azure.com/"
    assert routes.paths["AZURE_OPENAI_ENDPOINT"] == "/azure_openai_endpoint"
    assert "AZURE_API_BASE" not in routes.paths


def test_other_variables_are_set_by_a_path_or_in_front_of_their_url() -> None:
    before = {"MY_LLM": "http://localhost:9000/v1"}
    more = ["GROQ_API_BASE=groq/", "OTHER=/openai/v1", "MY_LLM", "OPENAI_BASE_URL"]
    routes = plan_routes(before, {"groq": "https://api.groq.com/openai/v1"}, more)
    assert routes.paths["GROQ_API_BASE"] == "/groq"
    assert routes.paths["OTHER"] == routes.paths["OPENAI_BASE_URL"] == "/openai/v1"
    assert routes.paths["MY_LLM"] == "/my_llm/v1"
    assert routes.upstreams["my_llm"] == "http://localhost:9000/v1"


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("MY_LLM", "--set MY_LLM needs the URL that $MY_LLM has now, but it is not set"),
        ("MY_LLM=/x/v1", "must begin with an upstream: one of openai, anthropic, google"),
        ("MY_LLM=", "must begin with an upstream"),
        ("MY LLM=/openai", "not 'MY LLM=/openai'"),
    ],
)
def test_a_variable_without_an_upstream_is_refused(row: str, says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        plan_routes({}, {}, [row])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"NO_PROXY": "example.org"}, "example.org,127.0.0.1"),
        ({"no_proxy": "example.net", "NO_PROXY": "example.org"}, "example.net,127.0.0.1"),
        ({"no_proxy": "*"}, "*"),
    ],
)
def test_hosts_that_need_no_http_proxy_are_kept(before: dict[str, str], after: str) -> None:
    said = plan_routes(before, {}).environment(before, URL)
    assert (said["no_proxy"], said["NO_PROXY"]) == (after, after)


def test_a_command_gets_no_variable_of_ours_and_no_secret_of_the_ledger() -> None:
    url = "postgresql://budgets:secret@db/budgets"
    before = {
        "MICROBUDGET_ENGINE": url,
        "MICROBUDGET_KEYS": "keys.json",
        "DATABASE": url,
        "LEDGER_KEY": "mb.me.secret",
        "PGPASSWORD": "secret",
        "PGHOST": "db",
        "OPENAI_API_KEY": "of-the-client",
    }
    kept = {"PGHOST": "db", "OPENAI_API_KEY": "of-the-client"}
    assert for_command(before, url, "env:LEDGER_KEY") == kept
    drawn_on_by_others = for_command(before)
    assert drawn_on_by_others == {**kept, "LEDGER_KEY": "mb.me.secret"}
    own = {"PGPASSWORD": "secret", "LEDGER_KEY": "mb.me.secret"}
    assert for_command(own, "redis://db", "@LEDGER_KEY") == own
    assert for_command(own) == own
