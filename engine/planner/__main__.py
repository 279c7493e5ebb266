"""``python -m engine.planner MODEL``, which is ``longtail plan-memory``: whether a run fits into the memory of its GPUs, and what takes it.

Exit code 0: it fits; 1: it does not; 2: a mistake the user can mend.
"""

import argparse
import json
import sys
from dataclasses import asdict

from pydantic import ValidationError

from engine.config import describe
from engine.config.learner import LearnerConfig, LoraConfig
from engine.drafter.kind import RECIPE_KINDS
from engine.errors import LongtailError
from engine.planner.drafter_memory import UNROLLS
from engine.planner.memory import GB, Hardware, Load
from engine.planner.memory_plan import MemoryPlan, plan
from engine.planner.model_shape import PRESETS, shape
from engine.planner.published_figures import PublishedFigure, published_figures
from engine.planner.weight_sync import sync_seconds

MOST = 10**9


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line; returns the exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.known and options.json:
        parser.error("--known has no JSON: it compares in words")
    if options.known:
        for line in published_figures():
            print(_comparison(line))
        return 0
    try:
        found = plan(shape(options.model), _hardware(options), _learner(options), _load(options))
    except LongtailError as error:
        print(f"{error.code} error: {error}", file=sys.stderr)
        return error.exit_code
    except ValidationError as error:
        print("\n".join(f"config error: {describe(fault)}" for fault in error.errors()), file=sys.stderr)
        return LongtailError.exit_code
    _print(options, found)
    return 0 if found.fits else 1


def _print(options: argparse.Namespace, found: MemoryPlan) -> None:
    if options.json:
        print(json.dumps(asdict(found)))
        return
    print(f"{options.model} on {options.nodes} x {options.gpus} GPUs of {options.gpu_memory:g} GB, GB on the fullest GPU:")
    for name, size in found.parts.items():
        print(f"  {name:24}{size / GB:9.2f}")
    for name, size in found.phases.items():
        print(f"{name:26}{size / GB:9.2f}")
    print(f"host memory of a worker   {found.host / GB:9.2f}")
    print(f"cache of a worker at most {found.cache:9,} tokens")
    seconds = sync_seconds(shape(options.model), _hardware(options), sharded=options.parallel == "fsdp")
    print(f"new weights into SGLang on the same GPU (CUDA IPC): {seconds:.2f} s, on links of an H100")
    print(f"requests at once, of {options.context:,} tokens: {found.together} of {options.requests}; if more are so long, some wait")
    print("fits" if found.fits else "DOES NOT FIT")


def _comparison(line: PublishedFigure) -> str:
    unit = 1024 if line.predicted < GB / 1000 else GB
    name = "KiB" if unit == 1024 else "GB"
    told = f"fits into {line.limit / unit:.0f}" if line.limit else f"{(line.published or 0) / unit:.1f}"
    return f"{line.what}: predicted {line.predicted / unit:.1f} {name}, published {told} {name} - {line.source}"


def _hardware(options: argparse.Namespace) -> Hardware:
    if options.nodes * options.gpus % options.tensor_parallel:
        raise LongtailError(f"--tensor-parallel {options.tensor_parallel} does not divide {options.nodes * options.gpus} GPUs")
    return Hardware(options.nodes, options.gpus, int(options.gpu_memory * GB), options.tensor_parallel)


def _learner(options: argparse.Namespace) -> LearnerConfig:
    return LearnerConfig(
        parallel=options.parallel,
        precision=options.precision,
        activation_checkpointing=not options.keep_activations,
        cpu_offload=options.cpu_offload,
        lora=LoraConfig(rank=options.lora) if options.lora else None,
    )


def _load(options: argparse.Namespace) -> Load:
    return Load(
        options.tokens,
        options.requests,
        options.context,
        not options.no_reference,
        not options.no_drafter,
        not options.keep_cache,
        RECIPE_KINDS[options.recipe],
        UNROLLS[options.recipe],
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="longtail plan-memory", description="Memory of a run on each GPU, by arithmetic")
    parser.add_argument(
        "model",
        nargs="?",
        default="7B",
        help=f"{', '.join(PRESETS)}, a name of longtail models, or a Hugging Face folder (config.json is enough)",
    )
    parser.add_argument("--nodes", type=_positive, default=1)
    parser.add_argument("--gpus", type=_positive, default=8, help="GPUs of a node")
    parser.add_argument("--gpu-memory", type=_gigabytes, default=80.0, metavar="GB", help="of a GPU, in 10^9 bytes")
    parser.add_argument("--tensor-parallel", type=_positive, default=1, metavar="GPUS", help="GPUs of a worker")
    parser.add_argument("--parallel", choices=("ddp", "fsdp"), default="fsdp", help="cluster.learner.parallel")
    precisions = ("auto", "float32", "bfloat16")
    parser.add_argument("--precision", choices=precisions, default="auto", help="cluster.learner.precision; auto is bfloat16 on a GPU")
    parser.add_argument("--keep-activations", action="store_true", help="cluster.learner.activation_checkpointing: false")
    parser.add_argument("--cpu-offload", action="store_true", help="cluster.learner.cpu_offload: true")
    parser.add_argument("--lora", type=_positive, metavar="RANK", help="cluster.learner.lora.rank")
    parser.add_argument("--tokens", type=_positive, default=8_192, help="algorithm.tokens_per_microbatch; a longer sequence stands alone")
    parser.add_argument("--requests", type=_positive, default=32, help="rollout.max_batch")
    parser.add_argument("--context", type=_positive, default=8_192, help="longest prompt and response together, in tokens")
    parser.add_argument("--no-reference", action="store_true", help="algorithm.kl_coefficient: 0")
    parser.add_argument("--no-drafter", action="store_true", help="speculation.enabled: false")
    parser.add_argument("--recipe", choices=tuple(UNROLLS), default="eagle", help="drafter.recipe")
    parser.add_argument("--keep-cache", action="store_true", help="rollout.sglang.release_memory: false")
    parser.add_argument("--known", action="store_true", help="only compare with published figures")
    parser.add_argument("--json", action="store_true", help="bytes, as JSON")
    return parser


def _positive(text: str) -> int:
    if not (text.isdecimal() and 1 <= int(text[:12]) < MOST):
        raise argparse.ArgumentTypeError(f"{text[:24]} is no whole number from 1 to {MOST - 1:,}")
    return int(text)


def _gigabytes(text: str) -> float:
    value = float(text)
    if not 0 < value < MOST:
        raise argparse.ArgumentTypeError(f"{text} is not above 0 and below {MOST:,}")
    return value


if __name__ == "__main__":
    sys.exit(main())
