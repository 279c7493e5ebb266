"""How to do a run again: its configuration as a file, the command, and what it was made by. And how much memory it takes."""

import shlex
from collections.abc import Sequence
from typing import Any

import yaml

from dashboard.analysis.run_config import section, speculates
from longtail.schemas.attempts import Attempt
from longtail.schemas.runs import Run

PACKAGES = ("torch", "transformers", "ray", "numpy", "sglang", "longtail")


def config_yaml(run: Run) -> str:
    return str(yaml.safe_dump(run.config, sort_keys=False, allow_unicode=True))


def commands(run: Run, attempt: Attempt | None) -> str:
    """Of a shell, in a checkout of Longtail: the commit first, where it is known."""
    git = (attempt and attempt.environment and attempt.environment.longtail) or run.source
    checkout = f"git checkout {git.commit}\n" if git else ""
    note = "# the run was made with changes that are not in this commit\n" if git and git.dirty else ""
    return f"{note}{checkout}longtail submit {run.id}.yaml"


def versions(attempt: Attempt | None) -> list[tuple[str, str]]:
    """What the attempt ran in, by name; empty where nobody told."""
    if attempt is None or attempt.environment is None:
        return []
    found = attempt.environment
    machine = f"{found.host}: {found.cpu}, {found.cores} cores"
    gpus = ", ".join(gpu.name for gpu in found.gpus)
    packages = [(name, found.packages[name]) for name in PACKAGES if name in found.packages]
    return [("Python", found.python), *packages, ("System", found.platform), ("Machine", machine), *([("GPUs", gpus)] if gpus else [])]


def memory_command(config: dict[str, Any]) -> str:
    """``longtail plan-memory`` for a run of this configuration."""
    cluster, rollout, algorithm = (section(config, name) for name in ("cluster", "rollout", "algorithm"))
    learner = section(cluster, "learner")
    parallel = section(rollout, "sglang").get("tensor_parallel", 1) if rollout.get("engine") == "sglang" else 1
    context = rollout.get("max_prompt_tokens", 256) + rollout.get("max_new_tokens", 1024)
    lora = learner.get("lora")
    parts = [
        f"longtail plan-memory {shlex.quote(section(config, 'model').get('path', ''))}",
        f"--gpus {cluster.get('workers', 1) * parallel} --tensor-parallel {parallel}",
        f"--parallel {learner.get('parallel', 'ddp')} --precision {learner.get('precision', 'float32')}",
        f"--tokens {algorithm.get('tokens_per_microbatch', 2048)} --requests {rollout.get('max_batch', 64)} --context {context}",
        f"--recipe {section(config, 'drafter').get('recipe', 'eagle')}",
        *_flags(
            {
                "--keep-activations": not learner.get("activation_checkpointing"),
                "--cpu-offload": bool(learner.get("cpu_offload")),
                "--no-reference": algorithm.get("kl_coefficient") == 0,
                "--no-drafter": not speculates(config),
                "--keep-cache": rollout.get("engine") == "sglang" and not section(rollout, "sglang").get("release_memory"),
                f"--lora {lora.get('rank') if lora else ''}": bool(lora),
            }
        ),
    ]
    return " ".join(parts)


def _flags(wanted: dict[str, bool]) -> Sequence[str]:
    return [flag for flag, is_set in wanted.items() if is_set]
