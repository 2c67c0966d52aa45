"""The manifests of the examples: what they have to say for runs to be handed over."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from anarchon import MemoryBackend, Scheduler
from anarchon._durations import parse_ms
from anarchon._store_urls import backend_at

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
LONGEST_REQUEST = 30  # seconds; gunicorn ends what takes longer


def exit_timeout() -> float:
    return Scheduler(MemoryBackend())._options.exit_seconds


def graceful_timeout(command: list[str]) -> float:
    """Return gunicorn's limit; the command is no text, which a shell would run."""
    assert isinstance(command, list)
    assert command[0] == "gunicorn"
    return float(command[command.index("--graceful-timeout") + 1])


@pytest.fixture
def pods():
    manifest = yaml.safe_load((EXAMPLES / "kubernetes" / "deployment.yaml").read_text())
    assert (manifest["apiVersion"], manifest["kind"]) == ("apps/v1", "Deployment")
    return manifest["spec"]


@pytest.fixture
def services():
    return yaml.safe_load((EXAMPLES / "docker_compose" / "compose.yaml").read_text())["services"]


def test_a_pod_has_time_to_hand_its_runs_over(pods):
    spec = pods["template"]["spec"]
    (web,) = spec["containers"]
    limit = graceful_timeout(web["command"])
    assert max(exit_timeout(), LONGEST_REQUEST) <= limit
    assert limit + 10 <= spec["terminationGracePeriodSeconds"]


def test_pods_come_before_others_go(pods):
    update = pods["strategy"]["rollingUpdate"]
    assert pods["replicas"] > 1
    assert (update["maxUnavailable"], update["maxSurge"] > 0) == (0, True)
    labels = pods["template"]["metadata"]["labels"]
    assert pods["selector"]["matchLabels"] == labels


def test_pods_share_one_store_and_are_not_throttled(pods):
    (web,) = pods["template"]["spec"]["containers"]
    (store,) = [one for one in web["env"] if one["name"] == "FLASK_ANARCHON_BACKEND"]
    assert set(store["valueFrom"]) == {"secretKeyRef"}
    assert "cpu" not in web["resources"]["limits"]
    assert web["readinessProbe"]["httpGet"]["port"] == web["ports"][0]["containerPort"]


def test_a_container_has_time_to_hand_its_runs_over(services):
    web = services["web"]
    limit = graceful_timeout(web["command"])
    assert max(exit_timeout(), LONGEST_REQUEST) <= limit
    assert limit + 10 <= parse_ms(web["stop_grace_period"], what="stop_grace_period") / 1000


def test_containers_share_one_store(services):
    url = services["web"]["environment"]["FLASK_ANARCHON_BACKEND"]
    backend = backend_at(url.replace("${STORE_PASSWORD:?}", "secret"), what="compose.yaml")
    assert type(backend).__name__ == "PostgresBackend"
    assert url.endswith(f"@store/{services['store']['environment']['POSTGRES_DB']}")
    assert services["web"]["deploy"]["replicas"] > 1
    assert services["web"]["depends_on"] == ["store"]
