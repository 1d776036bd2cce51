"""The dashboard and the rules of alerts ask for what `/metrics` exports, and for nothing else."""

import json
import re
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import pytest
import yaml

from scripted_model import ScriptedEndpoint
from tests.paths import ROOT
from tests.proxy.support import ASKED, CHAT, budgeted, get, post
from tests.telemetry.test_prometheus import PRICES, Samples, samples

FOLDER = ROOT / "docs/operating"
DASHBOARD = json.loads((FOLDER / "grafana_dashboard.json").read_text("utf-8"))
RULES = yaml.safe_load((FOLDER / "prometheus_rules.yml").read_text("utf-8"))
OF_PROMETHEUS = {"instance", "job", "le"}
WORDS = {"and", "or", "unless", "bool", "by"}
IN_BRACES = re.compile(r"\{(.*?)\}")
MATCHER = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")
GROUPING = re.compile(r"\bby\s*\(([^)]*)\)")
NAME = re.compile(r"[a-zA-Z_]\w*(?!\w*\s*\()")


@pytest.fixture(scope="module")
def exported() -> Samples:
    limits = "2 calls/day + $1/day"
    with (
        ScriptedEndpoint() as endpoint,
        budgeted(endpoint.root_url, limits, metrics=10, prices=PRICES) as (url, _, _),
    ):
        for _ in range(3):
            post(url + CHAT, json=ASKED)
        return samples(get(url + "/metrics").text)


def queries() -> Iterator[str]:
    for panel in DASHBOARD["panels"]:
        yield from (target["expr"] for target in panel.get("targets", ()))
    for group in RULES["groups"]:
        yield from (rule["expr"] for rule in group["rules"])


def names_in(query: str) -> set[str]:
    """Return the names of metrics in a query of Prometheus."""
    plain = re.sub(r'"[^"]*"', "", query)
    plain = GROUPING.sub("", IN_BRACES.sub("", plain))
    plain = re.sub(r"\[[^\]]*\]", "", plain)
    return set(NAME.findall(plain)) - WORDS


def labels_in(query: str) -> set[str]:
    """Return the names of labels in a query of Prometheus."""
    found = {name for inside in IN_BRACES.findall(query) for name in MATCHER.findall(inside)}
    return found | {name.strip() for row in GROUPING.findall(query) for name in row.split(",")}


def labels_of(exported: Samples) -> set[str]:
    return {name for rows in exported.values() for labels in rows for name, _ in labels}


def test_queries_are_read() -> None:
    query = 'sum by (account, x) (rate(a_total{b=~"$c",d!="e"}[5m])) * 60 > f and g / time()'
    assert names_in(query) == {"a_total", "f", "g"}
    assert labels_in(query) == {"account", "x", "b", "d"}


@pytest.mark.parametrize("query", sorted(set(queries())))
def test_each_query_asks_for_metrics_and_labels_that_are_exported(
    query: str, exported: Samples
) -> None:
    assert names_in(query)
    assert names_in(query) <= {*exported, "up"}
    assert labels_in(query) <= labels_of(exported) | OF_PROMETHEUS


def test_texts_name_labels_that_are_exported(exported: Samples) -> None:
    legends = [
        target["legendFormat"]
        for panel in DASHBOARD["panels"]
        for target in panel.get("targets", ())
    ]
    named = {name for text in legends for name in re.findall(r"\{\{(\w+)\}\}", text)}
    for group in RULES["groups"]:
        for rule in group["rules"]:
            named |= set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
    assert named <= labels_of(exported) | OF_PROMETHEUS


def test_the_variables_of_the_dashboard_are_there(exported: Samples) -> None:
    variables = {one["name"]: one["query"] for one in DASHBOARD["templating"]["list"]}
    used = set(re.findall(r"\$\{?([a-z]+)\b", json.dumps(DASHBOARD["panels"])))
    assert used == set(variables)
    for name in variables.keys() - {"datasource"}:
        query: str = variables[name]["query"]
        metric, label = query.removeprefix("label_values(").removesuffix(")").split(", ")
        assert label in {name for labels in exported[metric] for name, _ in labels}


def test_the_panels_of_the_dashboard_have_places_of_their_own() -> None:
    panels: list[Any] = DASHBOARD["panels"]
    assert DASHBOARD["schemaVersion"] >= 39  # Grafana 11
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = [panel["gridPos"] for panel in panels]
    assert all(place["x"] >= 0 and place["x"] + place["w"] <= 24 for place in places)
    for one, other in combinations(places, 2):
        apart_x = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        apart_y = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert apart_x or apart_y
    for panel in panels:
        for target in panel.get("targets", ()):
            assert target["datasource"] == {"type": "prometheus", "uid": "${datasource}"}


def test_each_rule_has_a_severity_and_a_summary() -> None:
    rules = [rule for group in RULES["groups"] for rule in group["rules"]]
    assert len({rule["alert"] for rule in rules}) == len(rules)
    for rule in rules:
        assert rule["labels"]["severity"] in ("info", "warning", "critical")
        assert rule["annotations"]["summary"]
