"""Prometheus and Grafana speak of what is measured."""

import json
import re

import pytest
import yaml
from deployment_files import INFRA, PORTS, compose, environment
from fastapi.testclient import TestClient

from backend.api import create_app
from backend.database import Database
from backend.migrate import upgrade
from backend.services.identity import users
from backend.services.identity.tokens import issue
from backend.settings import Settings


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The names of what /metrics says."""
    settings = Settings(home=tmp_path_factory.mktemp("home"))
    database = Database(settings.database)
    upgrade(database)
    with database.write() as session:
        token = issue(session, users.create(session, "prometheus", "viewer"), "token", "its own", "viewer", None)[1]
    client = TestClient(create_app(settings), base_url="http://localhost")
    client.get("/healthz")
    text = client.get("/metrics", headers={"Authorization": f"Bearer {token}"}).text
    database.close()
    kinds = re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE)
    parts = {f"{name}_{part}" for name, kind in kinds if kind == "histogram" for part in ("bucket", "count", "sum")}
    return {name for name, _ in kinds} | parts


def expressions() -> list[str]:
    rules = yaml.safe_load((INFRA / "monitoring" / "alerts.yml").read_text())["groups"]
    alerts = [rule["expr"] for group in rules for rule in group["rules"]]
    dashboard = json.loads((INFRA / "monitoring" / "grafana" / "dashboards" / "longtail.json").read_text())
    return alerts + [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]


def test_dashboards_and_alerts_speak_of_what_is_measured(measured: set[str]) -> None:
    used = {name for expression in expressions() for name in re.findall(r"\b(?:longtail|process)_\w+", expression)}
    assert used <= measured
    assert len(used) >= 15


def test_only_what_nobody_keeps_waiting_raises_the_alarm_of_a_stuck_queue() -> None:
    """How old the oldest run is says nothing: it may wait for GPUs that others use."""
    rules = yaml.safe_load((INFRA / "monitoring" / "alerts.yml").read_text())["groups"]
    (stuck,) = (rule["expr"] for group in rules for rule in group["rules"] if rule.get("alert") == "LongtailQueueStuck")
    assert "longtail_queue_stuck_seconds" in stuck
    assert "longtail_queue_oldest_seconds" not in stuck


def test_all_that_is_measured_can_be_seen(measured: set[str]) -> None:
    """But for what this process alone is about, and what follows from something else."""
    used = " ".join(expressions())
    ours = {name for name in measured if name.startswith("longtail_") and not name.endswith(("_sum", "_count", "_bucket", "_created"))}
    assert {name for name in ours if name not in used} == set()


def test_panels_have_their_own_place() -> None:
    panels = json.loads((INFRA / "monitoring" / "grafana" / "dashboards" / "longtail.json").read_text())["panels"]
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels]
    assert len(set(places)) == len({panel["id"] for panel in panels}) == len(panels)
    sources = yaml.safe_load((INFRA / "monitoring" / "grafana" / "datasources" / "longtail.yaml").read_text())["datasources"]
    assert {panel["datasource"]["uid"] for panel in panels} == {source["uid"] for source in sources}


def test_prometheus_asks_the_api() -> None:
    config = yaml.safe_load((INFRA / "monitoring" / "prometheus.yml").read_text())
    (job,) = config["scrape_configs"]
    assert (job["metrics_path"], job["static_configs"][0]["targets"]) == ("/metrics", [f"api:{PORTS['api']}"])
    assert all((INFRA / "monitoring" / name).is_file() for name in config["rule_files"])
    assert '"api"' in environment(compose()["services"]["api"])["LONGTAIL_ALLOWED_HOSTS"]
