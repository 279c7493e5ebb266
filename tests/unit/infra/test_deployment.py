"""The files under infra/ say what the code says: commands, ports, settings, routes, names of metrics."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
from deployment_files import (
    CLIENTS_OWN,
    FIELDS,
    INFRA,
    PORTS,
    PREFIX,
    ROOT,
    code_worker,
    compose,
    containers,
    environment,
    kubernetes,
    kubernetes_workers,
    mounted,
    pods,
    ray_manifests,
    runnable,
)

from backend.api import create_app
from backend.settings import Settings
from engine.tasks.sandbox import _walls

WORKERS = ("worker", "worker-code", "worker-gpu")
OF_A_PLACE = {"LONGTAIL_HOME", "LONGTAIL_ENGINE_COMMAND"}
DOCKERFILES = sorted(INFRA.glob("*.Dockerfile"))
UNITS = sorted((INFRA / "systemd").glob("*.service"))
PROFILE = INFRA / "seccomp-code.json"
SECCOMP = """
import ctypes, json, os, sys
library = ctypes.CDLL("libseccomp.so.2")
library.seccomp_init.restype = ctypes.c_void_p
context = ctypes.c_void_p(library.seccomp_init(0x7FFF0000))
for name in json.loads(sys.argv[1]):
    library.seccomp_rule_add(context, 0x00050001, library.seccomp_syscall_resolve_name(name.encode()), 0)
assert library.seccomp_load(context) == 0
other = ["--reuid=10001", "--regid=10001", "--clear-groups", "--bounding-set=-all", "--inh-caps=-all"] if os.getuid() == 0 else []
os.execvp("setpriv", ["setpriv", *other, "--no-new-privs", *sys.argv[2:]])
"""
"""Refuses the calls that its first argument lists, and becomes the command that the others are."""


def bubblewraps_own() -> list[str]:
    """As the sandbox of code tasks starts it, but for what it binds."""
    return list(takewhile(lambda word: word != "--ro-bind-try", _walls()))


def under(refused: Sequence[str], *command: str) -> int:
    """The exit code of ``command`` as user 10001 without capabilities, where these system calls are refused."""
    return subprocess.run([sys.executable, "-c", SECCOMP, json.dumps(refused), *command], capture_output=True, check=False).returncode


def is_pinned(image: str) -> bool:
    return re.fullmatch(r"[\w./-]+:(?!latest)[\w.-]+", image) is not None


# --- settings


def example() -> dict[str, tuple[str, str]]:
    """By variable: its value, and what the line before says of it."""
    found, said = {}, ""
    for line in (INFRA / ".env.example").read_text().splitlines():
        if match := re.fullmatch(r"(?:# )?([A-Z_]+)=(.*)", line):
            found[match[1]], said = (match[2].strip("'"), said), ""
        else:
            said = line.removeprefix("# ") if line.startswith("# ") and "---" not in line else ""
    return found


def test_the_example_has_every_setting_with_its_default() -> None:
    given = {name: value for name, (value, _) in example().items() if name.startswith(PREFIX)}
    assert set(given) == FIELDS
    for name in FIELDS - OF_A_PLACE:
        field = name.removeprefix(PREFIX).lower()
        default = Settings.model_fields[field].default
        assert getattr(Settings.model_validate({field: parsed(given[name])}), field) == default, name


def parsed(text: str) -> Any:
    return json.loads(text) if text.startswith("[") else text


def test_every_setting_is_explained() -> None:
    silent = [name for name, (_, said) in example().items() if not said and name not in ("LONGTAIL_PORT", "REDIS_PASSWORD")]
    assert silent == []


# --- compose


def test_compose_starts_what_there_is_on_ports_that_fit() -> None:
    services = compose()["services"]
    ours = {name: service for name, service in services.items() if str(service["image"]).startswith("longtail:")}
    assert set(ours) == {"migrate", "api", *WORKERS, "dashboard"}
    for service in ours.values():
        python, flag, module, *options = service["command"]
        assert (python, flag, runnable(module)) == ("python", "-m", True)
        assert (ROOT / service["build"]["dockerfile"]).is_file()
        if "--port" in options:
            assert int(options[options.index("--port") + 1]) == PORTS["dashboard"]
    assert environment(ours["api"])["LONGTAIL_HOST"] == "0.0.0.0"


def test_runs_may_read_the_folders_with_models_and_data() -> None:
    (settings,) = [item["data"] for item in kubernetes() if item["kind"] == "ConfigMap"]
    cluster, _ = ray_manifests()
    (on_gpus,) = containers(cluster["spec"]["workerGroupSpecs"][0]["template"]["spec"])
    (api,) = [pod for pod in pods() if pod["name"] == "api"]
    for field, folder in (("data_roots", "/data"), ("model_roots", "/models")):
        name = f"{PREFIX}{field.upper()}"
        for service in (compose()["services"][name] for name in ("api", *WORKERS)):
            assert Path(folder) in getattr(Settings.model_validate({field: parsed(environment(service)[name])}), field)
            assert [volume for volume in service["volumes"] if volume.endswith(f":{folder}:ro")]
        assert folder in json.loads(settings[name])
        assert all(folder in mounted(container) for container in (api, on_gpus, *kubernetes_workers()))
    assert {"MODELS_FOLDER", "DATA_FOLDER"} <= set(example())


def test_a_dashboard_asks_the_api_itself_and_links_to_where_browsers_reach_it() -> None:
    """The way through proxy or ingress needs their certificate, which may be of a CA that nobody here knows."""
    (pod,) = [{each["name"]: each["value"] for each in pod["env"]} for pod in pods() if pod["name"] == "dashboard"]
    for given, address in ((environment(compose()["services"]["dashboard"]), "http://api:8000"), (pod, "http://longtail-api:8000")):
        assert (given["LONGTAIL_URL"], given["LONGTAIL_PUBLIC_URL"].partition("://")[0]) == (address, "https")


def test_compose_knows_our_settings() -> None:
    for name, service in compose()["services"].items():
        unknown = {key for key in environment(service) if key.startswith(PREFIX)} - FIELDS - CLIENTS_OWN
        assert unknown == set(), name


def test_compose_holds_no_secret_and_asks_for_each() -> None:
    text = (INFRA / "compose.yaml").read_text()
    asked = set(re.findall(r"(?<!\$)\$\{(\w+)", text))
    assert asked <= set(example()), "what .env has to say stands in the example"
    assert set(re.findall(r"\$\{(\w+):\?", text)) == {"DOMAIN", "POSTGRES_PASSWORD", "REDIS_PASSWORD", "TORCH_INDEX"}
    assert [name for name, (value, _) in example().items() if "PASSWORD" in name and value] == []


def test_compose_lets_nobody_in_but_through_the_proxy() -> None:
    services = compose()["services"]
    published = {name: service["ports"] for name, service in services.items() if service.get("ports")}
    assert published.pop("proxy")
    assert all(str(port).startswith("127.0.0.1:") for ports in published.values() for port in ports)
    for name in ("postgres", "redis", "worker"):
        assert services[name]["networks"] == ["inside"]
    assert compose()["networks"]["inside"] == {"internal": True}


def test_compose_confines_our_processes() -> None:
    for service in (each for each in compose()["services"].values() if str(each["image"]).startswith("longtail:")):
        assert service["cap_drop"] == ["ALL"]
        assert service["read_only"] is True
        assert "no-new-privileges:true" in service["security_opt"]
        assert "privileged" not in service


def test_engines_inherit_no_password() -> None:
    """A user's reward function runs in them; what they may not know of our own settings, the supervisor takes out."""
    passwords = {name for name in example() if name.endswith("_PASSWORD")}
    for name in ("api", *WORKERS):
        assert {environment(compose()["services"][name])[password] for password in passwords} == {""}


def test_a_worker_has_the_time_to_hand_its_runs_over() -> None:
    needed = sum(Settings.model_fields[name].default for name in ("handover_seconds", "grace_seconds"))
    services = compose()["services"]
    assert all(int(services[name]["stop_grace_period"].removesuffix("s")) > 2 * needed for name in WORKERS)
    unit = (INFRA / "systemd" / "longtail-worker@.service").read_text()
    assert int(re.findall(r"TimeoutStopSec=(\d+)", unit)[0]) > 2 * needed
    assert "KillMode=mixed" in unit, "the engines are the worker's to stop"
    assert all(worker["pod"]["terminationGracePeriodSeconds"] > 2 * needed for worker in kubernetes_workers())


def test_every_worker_is_watched() -> None:
    """By the file that it touches."""
    for service in (compose()["services"][name] for name in WORKERS):
        assert environment(service)["LONGTAIL_ALIVE_FILE"] in " ".join(service["healthcheck"]["test"])
    for worker in kubernetes_workers():
        (file,) = [each["value"] for each in worker["env"] if each["name"] == "LONGTAIL_ALIVE_FILE"]
        assert all(file in worker[probe]["exec"]["command"][-1] for probe in ("startupProbe", "livenessProbe"))
        assert str(Path(file).parent) in mounted(worker)


@pytest.mark.parametrize("age", [None, 0, 300])
def test_a_probe_fails_once_the_file_is_old(tmp_path: Path, age: int | None) -> None:
    shell, flag, script = kubernetes_workers()[0]["livenessProbe"]["exec"]["command"]
    file = tmp_path / "alive"
    if age is not None:
        file.touch()
        os.utime(file, (time.time() - age,) * 2)
    checked = subprocess.run([shell, flag, script.replace("/tmp/longtail-worker", str(file))], capture_output=True, check=False)
    assert (checked.returncode == 0) is (age == 0)


def test_images_are_pinned() -> None:
    images = {service["image"] for service in compose()["services"].values()} | {pod["image"] for pod in pods()}
    bases = {match for file in DOCKERFILES for match in re.findall(r"^FROM (\S+)", file.read_text(), re.MULTILINE)}
    assert [image for image in images | bases if not is_pinned(image)] == []


# --- images


@pytest.mark.parametrize("file", DOCKERFILES, ids=lambda file: file.stem)
def test_an_image_is_made_of_what_there_is_and_runs_as_nobody_special(file: Path) -> None:
    text = file.read_text()
    for source in re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE):
        assert all((ROOT / name).exists() for name in source.split())
    last = text.rpartition("FROM ")[2]
    assert last.index("\nUSER 10001") < last.index("\nCMD ")
    assert "HEALTHCHECK" in last
    command = json.loads(re.findall(r"^CMD (.+)$", last, re.MULTILINE)[-1])
    assert runnable(command[2])
    assert 'ENTRYPOINT ["tini", "--"]' in last, "the first process of a container has to look after those that others leave behind"
    assert re.search(r"apt-get install .* tini ", last)
    assert not re.search(r"(?i)(password|secret|token)\s*=", text)
    for_users = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"].keys() - {"test", "sglang-imports"}
    on_gpus = {"sglang"} if "cpu" in file.name else set()
    assert set(re.findall(r'"\.\[([\w,]+)\]"', text)[0].split(",")) == for_users - on_gpus


def test_the_image_without_gpus_has_no_cuda() -> None:
    """Nobody builds it without saying where the CPU build of PyTorch is."""
    text = (INFRA / "cpu.Dockerfile").read_text()
    assert text.index('torch --index-url "${TORCH_INDEX:?') < text.index('".[')
    assert re.search(r"^ARG TORCH_INDEX$", text, re.MULTILINE)
    assert compose()["services"]["api"]["build"]["args"]["TORCH_INDEX"].startswith("${TORCH_INDEX:?")


# --- code tasks


def test_workers_of_code_tasks_may_keep_programs_apart() -> None:
    service, worker = compose()["services"]["worker-code"], code_worker()
    assert {"seccomp=./seccomp-code.json", "apparmor=unconfined", "systempaths=unconfined"} < set(service["security_opt"])
    assert worker["pod"]["securityContext"]["seccompProfile"]["localhostProfile"] == PROFILE.name
    assert (worker["pod"]["hostUsers"], worker["securityContext"]["procMount"]) == (False, "Unmasked")
    given = {each["name"]: each["value"] for each in worker["env"]}["LONGTAIL_LABELS"], environment(service)["LONGTAIL_LABELS"]
    assert given == ('["code"]', '["code"]')
    (other,) = [pod for pod in pods() if pod["name"] == "worker"]
    assert all(worker[name] == other[name] for name in ("image", "args", "envFrom", "volumeMounts", "livenessProbe"))


def test_bubblewrap_works_under_our_seccomp_profile_and_under_no_stricter_one() -> None:
    """As nobody special, without any capability, as in a container."""
    profile = json.loads(PROFILE.read_text())
    (refused,) = profile["syscalls"]
    assert (profile["defaultAction"], refused["action"], refused["errnoRet"]) == ("SCMP_ACT_ALLOW", "SCMP_ACT_ERRNO", 1)
    program = [*bubblewraps_own(), "--ro-bind", "/usr", "/usr", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64"]
    if under([], "true") or under([], *program, "true"):
        pytest.skip("this machine has no user namespaces, or no libseccomp")
    assert under(refused["names"], *program, "true") == 0
    assert under([*refused["names"], "mount"], *program, "true") != 0, "a rule is kept"


@pytest.mark.parametrize("file", DOCKERFILES, ids=lambda file: file.stem)
def test_hadolint_has_nothing_to_say(file: Path) -> None:
    if shutil.which("hadolint") is None:
        pytest.skip("hadolint is not installed")
    checked = subprocess.run(["hadolint", str(file)], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout


# --- systemd


def starts(unit: Path) -> list[str]:
    found: list[str] = re.findall(r"^ExecStart=(.+)$", unit.read_text(), re.MULTILINE)
    return found[0].split()


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_unit_starts_what_there_is(unit: Path) -> None:
    program, flag, module, *options = starts(unit)
    assert (Path(program).name, flag, runnable(module)) == ("python", "-m", True)
    assert "--port" not in options or int(options[-1]) == PORTS["dashboard"]
    assert "EnvironmentFile=/etc/longtail/longtail.env" in unit.read_text()
    named = set(re.findall(r"\b(LONGTAIL_\w+)=", unit.read_text()))
    assert named <= FIELDS | CLIENTS_OWN


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_systemd_understands_a_unit(unit: Path, tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    for each in UNITS:
        (tmp_path / each.name).write_text(each.read_text().replace(starts(each)[0], "/bin/true"))
    command = ["systemd-analyze", "verify", "--man=no", str(tmp_path / unit.name)]
    found = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | {"SYSTEMD_UNIT_PATH": f"{tmp_path}:"})
    assert (found.returncode, found.stderr) == (0, "")


# --- proxy


def test_the_proxy_leads_every_route_to_the_api_and_keeps_measures_inside() -> None:
    text = (INFRA / "Caddyfile").read_text()
    private = re.findall(r"@private path (.+)", text)[0].split()
    public = re.findall(r"@api path (.+)", text)[0].split()
    paths = {*create_app(Settings()).openapi()["paths"], "/openapi.json"}
    assert {"/metrics", "/readyz"} == set(private)
    led = {path for path in paths for pattern in public if re.fullmatch(pattern.replace("*", ".*"), path)}
    assert led | set(private) == paths
    assert set(re.findall(r"reverse_proxy (?:@api )?(\S+)", text)) == {f"{name}:{port}" for name, port in PORTS.items()}
    assert text.index("@private") < text.index("@api")


# --- Kubernetes


def test_kubernetes_starts_what_there_is() -> None:
    config = kubernetes()
    found = {pod["name"]: pod for pod in pods()}
    assert set(found) == {"migrate", "api", "worker", "dashboard"}
    for name, pod in found.items():
        assert runnable(pod["args"][2])
        assert "command" not in pod, "it would take the place of the image's tini"
        assert pod["securityContext"]["readOnlyRootFilesystem"] is True
        assert pod["pod"]["securityContext"]["runAsNonRoot"] is True
        assert {each["name"] for each in pod.get("env", ()) if each["name"].startswith(PREFIX)} <= FIELDS | CLIENTS_OWN
        assert [port["containerPort"] for port in pod.get("ports", ())] == ([PORTS[name]] if name in PORTS else [])
    (settings,) = [item["data"] for item in config if item["kind"] == "ConfigMap"]
    assert set(settings) <= FIELDS
    services = {item["metadata"]["name"]: item["spec"]["ports"][0]["port"] for item in config if item["kind"] == "Service"}
    assert services == {f"longtail-{name}": port for name, port in PORTS.items()}
    assert json.loads(settings["LONGTAIL_ALLOWED_HOSTS"])[-1] in services
