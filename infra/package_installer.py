"""Installs packages into .venv: with uv, set up as the user's pip is, and with pip where uv cannot."""

from __future__ import annotations

import ast
import functools
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import project_venv
from project_venv import CONSTRAINTS, PYPROJECT, ROOT, SetupError, environment, program, say, tail

HEARTBEAT_SECONDS = 30
UV_NAMES = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "no-index": "UV_NO_INDEX",
    "constraint": "UV_CONSTRAINT",
    "trusted-host": "UV_INSECURE_HOST",
    "cert": "SSL_CERT_FILE",
    "client-cert": "SSL_CLIENT_CERT",
    "proxy": "ALL_PROXY",
    "default-timeout": "UV_HTTP_TIMEOUT",
    "timeout": "UV_HTTP_TIMEOUT",
}
PIP_ALONE = {"pre", "prefer-binary", "no-binary", "only-binary", "require-hashes"}  # what uv is not told, and packages depend on


def unlocked() -> bool:
    return bool(os.environ.get("LONGTAIL_UNLOCKED"))


def constrained() -> list[str]:
    return [] if unlocked() else ["--constraint", CONSTRAINTS.name]


def run_installer(command: list[str], variables: dict[str, str]) -> None:
    """Runs it quietly, with a sign of life now and then; SetupError with its last lines if it fails."""
    began = time.monotonic()
    with subprocess.Popen(command, cwd=ROOT, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        while True:
            try:
                output, _ = process.communicate(timeout=HEARTBEAT_SECONDS)
                break
            except subprocess.TimeoutExpired:
                say(f"still installing ({time.monotonic() - began:.0f} s)")
            except KeyboardInterrupt:
                process.terminate()
                raise
    if process.returncode != 0:
        raise SetupError(tail(output))


def pip(*arguments: str) -> None:
    """Installs with pip; SetupError with its last lines if it fails."""
    command = [program("python"), "-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"]
    try:
        run_installer([*command, *constrained(), *arguments], environment())
    except SetupError as problem:
        raise SetupError(
            f"pip failed; its last lines:\n{problem}\n"
            "Try again (what is downloaded stays). If it stays so: is there a network, a proxy to set (HTTPS_PROXY), 6 GB of free disk?"
        ) from None


def install(*arguments: str) -> None:
    """Installs with uv, or with pip where there is no uv or it fails; SetupError if pip fails, too."""
    uv = find_uv()
    if uv is not None:
        build = [] if unlocked() else ["--build-constraints", CONSTRAINTS.name]
        try:
            target = ["--python", program("python")]  # whatever UV_PYTHON or UV_SYSTEM_PYTHON say
            return run_installer([uv, "pip", "install", "--quiet", *target, *constrained(), *build, *arguments], uv_environment())
        except SetupError as problem:
            say(f"uv failed, so pip installs instead; the last lines of uv:\n{problem}")
    return pip(*arguments)


@functools.cache
def find_uv() -> str | None:
    """The uv of this machine, or the one that pip installs into .venv; None if there is none or pip is set up as uv cannot be."""
    if alone := PIP_ALONE & set(pip_settings()):
        say(f"pip installs, not uv, because pip is told {', '.join(sorted(alone))}")
        return None
    path = environment()["PATH"]
    if shutil.which("uv", path=path) is None:
        try:
            pip("uv")
        except SetupError:
            say("uv cannot be installed here, so pip installs, which takes longer")
    return shutil.which("uv", path=path)


@functools.cache
def pip_settings() -> dict[str, str]:
    """What the user's configuration files and PIP_* variables tell pip; the later of these goes before the earlier."""
    command = [program("python"), "-m", "pip", "config", "list"]
    lines = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False).stdout.splitlines()
    by_scope: dict[str, dict[str, str]] = {"global": {}, "install": {}, ":env:": {}}
    for scope, name, value in re.findall(r"^(global|install|:env:)\.([\w-]+)=(.*)$", "\n".join(lines), re.MULTILINE):
        by_scope[scope][name] = ast.literal_eval(value)
    return {name: value for settings in by_scope.values() for name, value in settings.items()}


def uv_environment() -> dict[str, str]:
    """The environment in which uv looks where the user's pip looks: the best version of all indexes, certificates of the system."""
    told = {UV_NAMES[name]: value for name, value in pip_settings().items() if name in UV_NAMES}
    told = {name: ("," if name == "UV_FIND_LINKS" else " ").join(value.split()) for name, value in told.items()}
    return {"UV_INDEX_STRATEGY": "unsafe-best-match", "UV_SYSTEM_CERTS": "true", **told, **environment()}


def has_nvidia_gpu() -> bool:
    return shutil.which("nvidia-smi") is not None or Path("/proc/driver/nvidia").exists()


def install_torch() -> None:
    """torch before the rest, where it must come from LONGTAIL_TORCH_INDEX; without a GPU, a warning if pip would take a CUDA build."""
    if list(project_venv.VENV.glob("lib/python*/site-packages/torch/version.py")):
        return
    requirement = re.findall(r'^\s*"(torch[^"]*)"', PYPROJECT.read_text(encoding="utf-8"), re.MULTILINE)[0]
    index = os.environ.get("LONGTAIL_TORCH_INDEX")
    if index:
        say("installing torch from LONGTAIL_TORCH_INDEX")
        install(requirement, "--extra-index-url", index)
    elif sys.platform == "linux" and not has_nvidia_gpu() and not offers_cpu_build():
        say("no NVIDIA GPU here, but the package index offers CUDA builds of torch only (3 GB; they run on a CPU too).")
        say("For a small install set LONGTAIL_TORCH_INDEX to the index of CPU builds that PyTorch's install page names, and start again.")


def offers_cpu_build() -> bool:
    """Whether pip, as the user has configured it, sees a CPU build of torch; it then takes it by itself."""
    command = [program("python"), "-m", "pip", "index", "versions", "torch"]
    return "+cpu" in subprocess.run(command, capture_output=True, text=True, env=environment(), check=False).stdout


def install_serving_code() -> None:
    """SGLang without its CUDA packages, for which the tests bring a stand-in, and the code of vLLM's format for drafters. Where there is
    none to install, its tests are skipped."""
    import tomllib

    tables = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))
    for requirements in (tables["project"]["optional-dependencies"]["sglang"], tables["dependency-groups"]["drafter-format"]):
        try:
            install("--no-deps", *requirements)
        except SetupError:
            say(f"{' '.join(requirements)} cannot be installed here, so its tests will be skipped")
