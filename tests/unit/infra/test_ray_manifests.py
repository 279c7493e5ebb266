"""A Ray cluster on Kubernetes: its worker, and who may speak to it."""

import json
import re

from deployment_files import ROOT, kubernetes, pods, ray_manifests, runnable

from backend.settings import Settings


def test_a_ray_cluster_runs_the_same_ray() -> None:
    cluster, _ = ray_manifests()
    assert cluster["kind"] == "RayCluster"
    low, high = re.findall(r'"ray>=(\d+)\.\d+,<(\d+)"', (ROOT / "pyproject.toml").read_text())[0]
    assert int(low) <= int(cluster["spec"]["rayVersion"].split(".")[0]) < int(high)


def test_the_worker_of_a_ray_cluster_is_on_its_head() -> None:
    """With all that the head has of Ray; its settings are those of the other workers."""
    cluster, _ = ray_manifests()
    pod = cluster["spec"]["headGroupSpec"]["template"]["spec"]
    head, worker = pod["containers"]
    assert runnable(worker["args"][2])
    assert "command" not in worker
    assert worker["image"] == head["image"]
    assert {"/tmp", "/dev/shm"} < {mount["mountPath"] for mount in worker["volumeMounts"]}
    assert worker["volumeMounts"] == head["volumeMounts"]
    (other,) = [each for each in pods() if each["name"] == "worker"]
    assert worker["envFrom"] == other["envFrom"]
    assert pod["terminationGracePeriodSeconds"] == other["pod"]["terminationGracePeriodSeconds"]
    (labels,) = [json.loads(each["value"]) for each in worker["env"] if each["name"] == "LONGTAIL_LABELS"]
    assert Settings(labels=labels).labels == ("ray",)


def test_only_who_has_its_token_and_is_of_it_speaks_to_a_ray_cluster() -> None:
    """Whoever can, runs code: also the platform sends runs to this cluster only."""
    cluster, policy = ray_manifests()
    name = cluster["metadata"]["name"]
    assert cluster["spec"]["authOptions"] == {"mode": "token"}
    worker = cluster["spec"]["headGroupSpec"]["template"]["spec"]["containers"][1]
    env = {each["name"]: each for each in worker["env"]}
    assert env["RAY_AUTH_MODE"]["value"] == "token"
    assert env["RAY_AUTH_TOKEN"]["valueFrom"]["secretKeyRef"] == {"name": name, "key": "auth_token"}
    ours = {"matchLabels": {"ray.io/cluster": name}}
    assert (policy["spec"]["podSelector"], policy["spec"]["policyTypes"]) == (ours, ["Ingress"])
    (allowed,) = policy["spec"]["ingress"]
    assert allowed["from"][0] == {"podSelector": ours}
    assert [each["podSelector"]["matchLabels"] for each in allowed["from"][1:]] == [{"app.kubernetes.io/name": "kuberay-operator"}]
    (settings,) = [item for item in kubernetes() if item["kind"] == "ConfigMap"]
    assert json.loads(settings["data"]["LONGTAIL_RAY_ADDRESSES"]) == [f"{name}-head-svc:6379"]
