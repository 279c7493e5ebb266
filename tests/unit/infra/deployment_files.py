"""What the files under infra/ say, parsed, and what they may speak of."""

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from backend.settings import Settings
from backend.stack.local_stack import DASHBOARD_PORT

ROOT = Path(__file__).parents[3]
INFRA = ROOT / "infra"
PREFIX = "LONGTAIL_"
FIELDS = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields}
CLIENTS_OWN = {"LONGTAIL_URL", "LONGTAIL_PUBLIC_URL", "LONGTAIL_TOKEN"}
PORTS = {"api": Settings.model_fields["port"].default, "dashboard": DASHBOARD_PORT}


def compose() -> dict[str, Any]:
    parsed: dict[str, Any] = yaml.safe_load((INFRA / "compose.yaml").read_text())
    return parsed


def kubernetes() -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = yaml.safe_load((INFRA / "kubernetes" / "longtail.yaml").read_text())["items"]
    return items


def pods() -> Iterator[dict[str, Any]]:
    for item in kubernetes():
        if item["kind"] == "Deployment":
            yield from containers(item["spec"]["template"]["spec"])


def containers(spec: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for container in [*spec.get("initContainers", []), *spec["containers"]]:
        yield container | {"pod": spec}


def code_worker() -> dict[str, Any]:
    deployment, _ = yaml.safe_load_all((INFRA / "kubernetes" / "code-worker.yaml").read_text())
    (found,) = containers(deployment["spec"]["template"]["spec"])
    return found


def ray_manifests() -> tuple[Any, Any]:
    """The cluster, and who may speak to it."""
    cluster, policy = yaml.safe_load_all((INFRA / "kubernetes" / "raycluster.yaml").read_text())
    return cluster, policy


def kubernetes_workers() -> list[dict[str, Any]]:
    cluster, _ = ray_manifests()
    (worker,) = [pod for pod in pods() if pod["name"] == "worker"]
    _, on_head = containers(cluster["spec"]["headGroupSpec"]["template"]["spec"])
    return [worker, code_worker(), on_head]


def mounted(container: dict[str, Any]) -> set[str]:
    return {mount["mountPath"] for mount in container["volumeMounts"]}


def runnable(module: str) -> bool:
    """Whether ``python -m module`` starts something."""
    spec = importlib.util.find_spec(module)
    return spec is not None and (spec.submodule_search_locations is None or importlib.util.find_spec(f"{module}.__main__") is not None)


def environment(service: dict[str, Any]) -> dict[str, str]:
    return service.get("environment") or {}
