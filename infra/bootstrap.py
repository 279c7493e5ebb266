"""Sets up .venv and runs what a developer does every day:
``python3 infra/bootstrap.py demo|test|test-all|lint|serve|gpu|setup|upgrade``.

Needs Python 3.11 or newer and nothing else; idempotent. Installs the versions that constraints.txt names, unless LONGTAIL_UNLOCKED
is set; ``upgrade`` renews that file. uv installs, set up as the user's pip is, and pip where uv cannot. LONGTAIL_TORCH_INDEX, if set,
names a further package index for torch alone, such as that of PyTorch's small CPU builds (see the install page of PyTorch).

``gpu`` measures with the PyTorch that this machine has. LONGTAIL_WHEELS, if set, names a folder of wheels for what else it lacks.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from typing import Any

from gpu_venv import beside_own_packages
from package_installer import find_uv, install, install_serving_code, install_torch, unlocked, uv_environment
from project_venv import CONSTRAINTS, PYPROJECT, ROOT, VENV, SetupError, create, environment, program, say, tail, usable

CLIENT = "backend/client"
MINIMUM = (3, 11)
USAGE = "usage: python3 infra/bootstrap.py demo|test|test-all|lint|serve|gpu|setup|upgrade [ARGS]"
COMPILE = "pip compile --quiet --universal --all-extras --group installer --no-annotate --no-emit-package longtail-client"
STYLE = (("ruff", "check", "."), ("ruff", "format", "--check", "."))
TYPES = ("mypy",)
WORKERS = "3"
"""Of pytest-xdist on two cores: one of them mostly waits for the processes that it has started."""


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


def stamp(extras: tuple[str, ...]) -> dict[str, Any]:
    """What an installation depends on."""
    files = ("pyproject.toml", f"{CLIENT}/pyproject.toml", "constraints.txt")
    digests = {file: hashlib.sha256((ROOT / file).read_bytes()).hexdigest() for file in files}
    return {**digests, "unlocked": unlocked(), "python": platform.python_version(), "extras": list(extras)}


def installed(recorded: dict[str, Any], wanted: dict[str, Any]) -> bool:
    """Whether an installation stamped ``recorded`` has all of ``wanted``; more extras do no harm."""
    return {**recorded, "extras": []} == {**wanted, "extras": []} and set(wanted["extras"]) <= set(recorded["extras"])


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
            install_serving_code()
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
    os.execvpe(program(command[0]), command, environment())


def run_all(commands: tuple[tuple[str, ...], ...]) -> int:
    """Runs commands until one fails; its exit code, or 0."""
    for command in commands:
        say(" ".join(command))
        code = run([program(command[0]), *command[1:]])
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
    with subprocess.Popen([program(TYPES[0])], cwd=ROOT, env=environment(), stdout=subprocess.PIPE, text=True) as types:
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
        python = program("python")
    else:
        python = str(beside_own_packages(ROOT / ".venv-gpu", os.environ.get("LONGTAIL_WHEELS")))
    return run([python, "-m", "engine.bench.gpu", *arguments])


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
