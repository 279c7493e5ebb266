"""An interpreter whose processes are copies of one that has everything imported; with ``make test-all`` a true one."""

import atexit
import functools
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from sizes import ALL

TESTS = Path(__file__).parents[1]
IMPORTED_BY_RAY = ("aiohttp.web", "attr", "google.protobuf.message", "jsonschema", "msgpack", "prometheus_client", "requests", "uvloop")
"""Ray itself is not imported: it reads the environment of its process when it is loaded."""
ENGINE = ("engine.run", "engine.cluster.worker", "engine.cluster.learner_only_rank", *IMPORTED_BY_RAY)
SGLANG = (
    "engine.rollout.sglang.host",
    "sglang.srt.entrypoints.engine",
    "sglang.srt.managers.detokenizer_manager",
    "sglang.srt.managers.scheduler",
    "sglang.srt.models.registry",
    "sglang.srt.speculative.eagle_worker_v2",
    "sglang.srt.speculative.ngram_worker",
    "sglang.srt.speculative.standalone_worker_v2",
)


@functools.cache
def forked_python(*modules: str) -> str:
    """The path of an interpreter whose processes have ``modules`` imported. Its server starts with the first call, in the environment
    of that, and ends with this process."""
    return sys.executable if ALL else start_server(*modules)[0]


def start_server(*modules: str) -> "tuple[str, subprocess.Popen[str]]":
    """As ``forked_python``, whatever the size of the tests; and the server, which ends with its standard input."""
    folder = Path(tempfile.mkdtemp(prefix="forked-python-"))
    client, address = folder / "python", folder / "server"
    source = (TESTS / "forked_python" / "client.py").read_text(encoding="utf-8")
    client.write_text(f"#!{sys.executable} -IS\n{source}\n\nmain({sys.executable!r}, {str(address)!r})\n", encoding="utf-8")
    client.chmod(0o755)
    command = [sys.executable, "-m", "forked_python.server", str(address), str(client), *modules]
    path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    server = subprocess.Popen(
        command, env=os.environ | {"PYTHONPATH": path}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert server.stdin
    assert server.stdout
    atexit.register(server.stdin.close)
    if server.stdout.readline() != "ready\n":
        server.kill()
        shutil.rmtree(folder)
        raise RuntimeError("the server of forked processes did not start; its errors are above")
    return str(client), server
