"""What an attempt runs in, so that a run can be understood, and done again, later. Nothing secret leaves this file."""

import os
import platform
import re
import socket
from collections.abc import Collection, Mapping
from functools import cache
from importlib.metadata import distributions
from pathlib import Path

from backend.jobs.engine.gpu_names import VISIBLE, gpus_here
from backend.services.runs.git_state import git_state
from longtail.schemas.attempts import Environment

STARS = "***"
RELEVANT = re.compile(
    r"(LONGTAIL|CUDA|NVIDIA|NCCL|RAY|SGLANG|TORCH|PYTORCH|TRITON|OMP|MKL|OPENBLAS|HF|TRANSFORMERS|SLURM|PYTHON|TOKENIZERS)(_\w+)?"
    r"|PYTHON\w+|LD_LIBRARY_PATH|LD_PRELOAD|LANG|TZ"
)
SECRET = re.compile(r"TOKEN(?!IZERS_)|KEY|SECRET|PASSW|CREDENTIAL|AUTH|COOKIE|PRIVATE|DATABASE|BROKER|DSN", re.IGNORECASE)
OURS = re.compile(
    r"LONGTAIL_(DATABASE_URL|BROKER_URL|ARTIFACT_STORE|TOKEN)|PG(PASSWORD|PASSFILE|SERVICEFILE)"
    r"|(AWS|AZURE|GOOGLE|GCLOUD|GCE|FSSPEC)_\w+"  # with what fsspec opens the artifact store
)
IN_A_URL = re.compile(r"(?<=://)[^/@\s]+@")
LIKE_A_TOKEN = re.compile(r"\b(lt|hf|gh[pousr]|sk|pk|xox[abp])[_-][\w-]{16,}|\bAKIA[0-9A-Z]{16}\b")


@cache
def environment_record() -> Environment:
    """Of this process; an engine that it starts has the same, but for its GPUs."""
    return Environment(
        python=platform.python_version(),
        platform=platform.platform(),
        host=socket.gethostname(),
        cpu=_cpu(),
        cores=len(os.sched_getaffinity(0)),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        gpus=[each.facts for each in gpus_here()],
        longtail=git_state(root) if (root := Path(__file__).parents[3]).joinpath(".git").exists() else None,
        packages=dict(sorted((each.name, str(each.version)) for each in distributions() if each.name)),
        variables=variables(os.environ),
    )


def attempt_record(gpus: Collection[str]) -> Environment:
    """Of an engine that has these GPUs of its worker's."""
    record = environment_record()
    own = [each.facts for each in gpus_here() if {each.place, each.uuid} & set(gpus)]
    return record.model_copy(update={"gpus": own, "variables": dict(sorted((record.variables | {VISIBLE: ",".join(gpus)}).items()))})


def variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Those that matter to a run; values of names that speak of secrets, and what looks like one in others, are starred out."""
    chosen = {name: value for name, value in sorted(environment.items()) if RELEVANT.fullmatch(name)}
    redacted = {name: LIKE_A_TOKEN.sub(STARS, IN_A_URL.sub(f"{STARS}@", value)) for name, value in chosen.items()}
    return {name: STARS if SECRET.search(name) else value for name, value in redacted.items()}


def engine_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """What an engine gets of its worker's: a user's reward function runs in it, so not what opens database, broker and artifact store."""
    return {name: value for name, value in environment.items() if not OURS.fullmatch(name)}


def _cpu() -> str:
    named = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    return named[1] if named else platform.machine()
