"""Sets up .venv and runs what a developer does every day:
``python3 infra/bootstrap.py demo|test|test-all|lint|serve|gpu|setup|upgrade``.

Needs Python 3.11 or newer and nothing else; idempotent. Installs the versions that constraints.txt names, unless LONGTAIL_UNLOCKED
is set; ``upgrade`` renews that file. uv installs, set up as the user's pip is, and pip where uv cannot. LONGTAIL_TORCH_INDEX, if set,
names a further package index for torch alone, such as that of PyTorch's small CPU builds (see the install page of PyTorch).

``gpu`` measures with the PyTorch that this machine has. LONGTAIL_WHEELS, if set, names a folder of wheels for what else it lacks.
"""

from __future__ import annotations

import ast
import fcntl
import functools
import hashlib
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYPROJECT = ROOT / "pyproject.toml"
CONSTRAINTS = ROOT / "constraints.txt"
CLIENT = "backend/client"
MINIMUM = (3, 11)
HEARTBEAT_SECONDS = 30
SHOWN_LINES = 15
USAGE = "usage: python3 infra/bootstrap.py demo|test|test-all|lint|serve|gpu|setup|upgrade [ARGS]"
MEASURING = (
    "pydantic",
    "pydantic-settings",
    "pyyaml",
    "safetensors",
    "psutil",
    "nvidia-ml-py",
    "gguf",
    "math-verify",
    "pyarrow",
    "pytest",
    "pytest-timeout",
    "pytest-xdist",
    "hypothesis",
)
"""What measuring on a GPU imports, besides torch and transformers, which the machine brings."""
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
COMPILE = "pip compile --quiet --universal --all-extras --group installer --no-annotate --no-emit-package longtail-client"
STYLE = (("ruff", "check", "."), ("ruff", "format", "--check", "."))
TYPES = ("mypy",)
WORKERS = "3"
"""Of pytest-xdist on two cores: one of them mostly waits for the processes that it has started."""


class SetupError(Exception):
    """What is missing, and what to do."""


def say(message: str) -> None:
    print(f"bootstrap: {message}", flush=True)


def check_python(version: tuple[int, int]) -> None:
    """Goes on with a newer Python of this machine if ``version`` is too old; SetupError if there is none."""
    if version >= MINIMUM:
        return
    names = [f"python{MINIMUM[0]}.{MINIMUM[1] + newer}" for newer in range(4)]
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        needed, current = (".".join(map(str, each)) for each in (MINIMUM, version))
        raise SetupError(
            f"Python {needed} or newer is needed, this is {current}; install one and start again: apt-get install {names[0]}-venv"
        )
    os.execv(found, [found, *sys.argv])


def environment() -> dict[str, str]:
    """The caller's without what would leak other installations into .venv, or make every process compile all packages anew."""
    foreign = ("PYTHONPATH", "PYTHONHOME", "PIP_USER", "PIP_TARGET", "PIP_PREFIX", "PYTHONDONTWRITEBYTECODE")
    kept = {name: value for name, value in os.environ.items() if name not in foreign}
    return {**kept, "VIRTUAL_ENV": str(VENV), "PATH": f"{VENV / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}"}


def usable(venv: Path) -> bool:
    """Whether ``venv`` runs, has pip, and still lies where it was made (its scripts hold absolute paths)."""
    activate = venv / "bin" / "activate"
    if not activate.is_file() or str(venv) not in activate.read_text(encoding="utf-8"):
        return False
    try:
        probe = [str(venv / "bin" / "python"), "-c", "import pip, sys; print(sys.prefix)"]
        result = subprocess.run(probe, capture_output=True, text=True, env=environment(), check=False)
    except OSError:
        return False
    return result.returncode == 0 and Path(result.stdout.strip()).resolve() == venv.resolve()


def create(venv: Path) -> None:
    """Makes ``venv`` anew with the standard library, or with virtualenv where Debian has left ensurepip out."""
    say(f"creating {venv.name}")
    failures = []
    for module in ("venv", "virtualenv"):
        command = [sys.executable, "-m", module, "--clear", str(venv)]
        result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if result.returncode == 0 and usable(venv):
            return
        failures.append(result.stdout)
    if "ensurepip" in failures[0]:
        package = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
        raise SetupError(f"this Python cannot make virtual environments; install what it lacks and start again: apt-get install {package}")
    raise SetupError(f"cannot create {venv}:\n{tail(failures[0])}")


def unlocked() -> bool:
    return bool(os.environ.get("LONGTAIL_UNLOCKED"))


def stamp(extras: tuple[str, ...]) -> dict[str, Any]:
    """What an installation depends on."""
    files = ("pyproject.toml", f"{CLIENT}/pyproject.toml", "constraints.txt")
    digests = {file: hashlib.sha256((ROOT / file).read_bytes()).hexdigest() for file in files}
    return {**digests, "unlocked": unlocked(), "python": platform.python_version(), "extras": list(extras)}


def installed(recorded: dict[str, Any], wanted: dict[str, Any]) -> bool:
    """Whether an installation stamped ``recorded`` has all of ``wanted``; more extras do no harm."""
    return {**recorded, "extras": []} == {**wanted, "extras": []} and set(wanted["extras"]) <= set(recorded["extras"])


def tail(text: str) -> str:
    return "\n".join(text.strip().splitlines()[-SHOWN_LINES:])


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


def constrained() -> list[str]:
    return [] if unlocked() else ["--constraint", CONSTRAINTS.name]


def pip(*arguments: str) -> None:
    """Installs with pip; SetupError with its last lines if it fails."""
    command = [str(VENV / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"]
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
            target = ["--python", str(VENV / "bin" / "python")]  # whatever UV_PYTHON or UV_SYSTEM_PYTHON say
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
    command = [str(VENV / "bin" / "python"), "-m", "pip", "config", "list"]
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
    if list(VENV.glob("lib/python*/site-packages/torch/version.py")):
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
    command = [str(VENV / "bin" / "python"), "-m", "pip", "index", "versions", "torch"]
    return "+cpu" in subprocess.run(command, capture_output=True, text=True, env=environment(), check=False).stdout


def install_sglang() -> None:
    """SGLang without its CUDA packages: the tests bring a stand-in for its kernels. Where there is none to install they are skipped."""
    requirement = re.findall(r'"(sglang==[^"]*)"', PYPROJECT.read_text(encoding="utf-8"))[0]
    try:
        install("--no-deps", requirement)
    except SetupError:
        say(f"{requirement} cannot be installed here, so its tests will be skipped")


def setup(*extras: str) -> None:
    """Makes .venv hold this project with ``extras``; does nothing if it already does. SetupError if there is no such extra."""
    check_python(sys.version_info[:2])
    import tomllib  # which older Pythons do not have

    offered = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    if unknown := set(extras) - offered.keys():
        raise SetupError(f"there is no extra {', '.join(sorted(unknown))}; there are {', '.join(sorted(offered))}")
    with PYPROJECT.open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        record = VENV / "longtail.json"
        if not usable(VENV):
            create(VENV)
        wanted = stamp(extras)
        if record.is_file() and installed(json.loads(record.read_text(encoding="utf-8")), wanted):
            return
        install_torch()
        say("installing (about a minute the first time)")
        install("--editable", CLIENT, "--editable", f".[{','.join(extras)}]" if extras else ".")
        if "test" in extras:
            install_sglang()
        record.write_text(json.dumps(wanted), encoding="utf-8")


def upgrade(*arguments: str) -> int:
    """Renews constraints.txt: the newest versions that go together, for every extra, Python and machine; then installs them and tests."""
    setup("test")
    uv = find_uv()
    if uv is None:
        raise SetupError("constraints.txt is renewed by uv, which is not here")
    command = [uv, *COMPILE.split(), "--python-version", ".".join(map(str, MINIMUM)), "--custom-compile-command", "make upgrade"]
    variables = {name: value for name, value in uv_environment().items() if name not in ("UV_FIND_LINKS", "UV_CONSTRAINT")}
    result = subprocess.run([*command, PYPROJECT.name], cwd=ROOT, env=variables, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise SetupError(f"these packages do not go together:\n{tail(result.stderr)}")
    if local := re.findall(r"^\S+==\S*\+\S*", result.stdout, re.MULTILINE):
        raise SetupError(f"an index that pip is told of offers builds for this kind of machine alone: {', '.join(local)}")
    CONSTRAINTS.write_text(result.stdout, encoding="utf-8")
    return test(*arguments)


def replace_by(*command: str) -> None:
    """Becomes ``command`` in the project's folder, so that signals and its exit code need no forwarding."""
    os.chdir(ROOT)
    os.execvpe(str(VENV / "bin" / command[0]), command, environment())


def run_all(commands: tuple[tuple[str, ...], ...]) -> int:
    """Runs commands until one fails; its exit code, or 0."""
    for command in commands:
        say(" ".join(command))
        code = run([str(VENV / "bin" / command[0]), *command[1:]])
        if code != 0:
            say(f"{command[0]} failed")
            return code if code > 0 else 128 - code
    return 0


def run(command: list[str]) -> int:
    """Its exit code. Ctrl-C reaches it by itself, and SIGTERM is passed on: it ends what it has started, however long that takes."""
    with subprocess.Popen(command, cwd=ROOT, env=environment()) as process:
        signal.signal(signal.SIGTERM, lambda *_: process.terminate())
        while True:
            with suppress(KeyboardInterrupt):
                return process.wait()


def lint() -> int:
    setup("test")
    return run_all((*STYLE, TYPES))


def test(*arguments: str) -> int:
    """Style, then types beside every test; with LONGTAIL_TESTS=all the tests have their full size."""
    setup("test")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if code := run_all(STYLE):
        return code
    say("mypy, beside what follows")
    with subprocess.Popen([VENV / "bin" / TYPES[0]], cwd=ROOT, env=environment(), stdout=subprocess.PIPE, text=True) as types:
        try:
            code = run_all((("pytest", "-n", WORKERS, "--dist", "loadscope", *arguments),))
            say(f"mypy: {types.communicate()[0].strip()}")
        finally:
            types.kill()
    return code or types.returncode


def gpu(*arguments: str) -> int:
    """Measures what needs a GPU, with the PyTorch of this machine; with --emulate rehearses that without one, in .venv."""
    check_python(sys.version_info[:2])
    if "--emulate" in arguments:
        setup("test")
        python = VENV / "bin" / "python"
    else:
        python = beside_own_packages(ROOT / ".venv-gpu", os.environ.get("LONGTAIL_WHEELS"))
    return run([str(python), "-m", "engine.bench.gpu", *arguments])


def beside_own_packages(venv: Path, wheels: str | None) -> Path:
    """The Python of ``venv``, made of this one with all that it has installed, and what of MEASURING it lacked, out of the folder
    ``wheels`` or the index. What cannot be had is said: the parts that need it will be left out. SetupError if there is no such folder."""
    if wheels is not None and not Path(wheels).is_dir():
        raise SetupError(f"LONGTAIL_WHEELS={wheels}: there is no such folder")
    python = venv / "bin" / "python"
    if not python.exists():
        made = subprocess.run(
            [sys.executable, "-m", "venv", "--system-site-packages", str(venv)], capture_output=True, text=True, check=False
        )
        if made.returncode != 0:
            say(f"this Python cannot make virtual environments, so nothing is installed:\n{tail(made.stdout + made.stderr)}")
            return Path(sys.executable)
    source = ["--no-index", "--find-links", wheels] if wheels else []
    for name in absent(python, MEASURING):
        command = [str(python), "-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check", *source, name]
        if subprocess.run(command, capture_output=True, text=True, check=False).returncode != 0:
            say(f"{name} cannot be had here")
    return python


def absent(python: Path, names: tuple[str, ...]) -> list[str]:
    """Those of the packages ``names`` that ``python`` does not see."""
    asked = "import sys\nfrom importlib.metadata import distributions\nprint(*(found.metadata['Name'] for found in distributions()))"
    seen = subprocess.run([str(python), "-c", asked], capture_output=True, text=True, check=True).stdout.split()
    normal = {re.sub(r"[-_.]+", "-", name).lower() for name in seen}
    return [name for name in names if name not in normal]


def main(name: str = "", *arguments: str) -> int:
    if name == "setup":
        setup(*arguments)
    elif name == "demo":
        setup()
        replace_by("longtail", "demo", *arguments)
    elif name == "serve":
        setup()
        replace_by("longtail", "up", *arguments)
    elif name == "test":
        return test(*arguments)
    elif name == "test-all":
        os.environ["LONGTAIL_TESTS"] = "all"
        return test(*arguments)
    elif name == "lint":
        return lint()
    elif name == "gpu":
        return gpu(*arguments)
    elif name == "upgrade":
        return upgrade(*arguments)
    else:
        say(USAGE)
        return 2
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: whoever installs is ended, too
    try:
        given = sys.argv[1:]
        sys.exit(main(*given[:1], *given[2 if given[1:2] == ["--"] else 1 :]))
    except SetupError as problem:
        say(str(problem))
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
