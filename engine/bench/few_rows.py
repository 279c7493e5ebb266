"""``bench few_rows``: what it costs to check drafts. A pass over a few tokens of one request against a pass over one, and the drawing of a
few tokens from real vocabularies, on one thread."""

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import torch

from engine.bench.testbed import machine
from engine.errors import ConfigError
from engine.models.load import load_model, resolve
from engine.rollout.data_type import native_data_type
from engine.rollout.interface import Request, Sampling
from engine.rollout.native.runner import Runner
from engine.rollout.native.sampling import TokenSampler
from engine.rollout.response import Response
from engine.speculation.speculator import StepPlan
from engine.speculation.strategy import Context

MODELS = ("small", "smollm2-135m")
CPU = torch.device("cpu")
TYPES = (torch.float32, torch.float16, torch.bfloat16)
WIDTHS = (1, 5, 9)
CONTEXT = 128
ROWS = 6
VOCABULARIES = (49_152, 151_936)
LAWS = {"temperature 1": Sampling(), "temperature 0.7, top-p 0.95": Sampling(0.7, 0.95)}
SPREADS = {"peaked": 5.0, "flat": 1.0}
"""Of random logits, which are normal. The nucleus of the first has a few tokens, that of the other thousands."""


def run(quick: bool, model: str) -> dict[str, Any]:
    """Milliseconds, medians of rounds in which all take turns. ``model``: one of MODELS, or ``all``."""
    chosen = [name for name in MODELS if model in ("all", name)]
    if not chosen:
        raise ConfigError(f"--model: few_rows measures {', '.join(MODELS)}, not {model}; leave it out for all")
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    rounds = 3 if quick else 25
    return {
        "facts": machine() | {"context": CONTEXT, "sampled_rows": ROWS},
        "passes": {name: _passes(name, rounds) for name in chosen},
        "sampling": {law: _sampling(sampling, rounds) for law, sampling in LAWS.items()},
    }


@torch.inference_mode()
def _passes(model_name: str, rounds: int) -> dict[str, Any]:
    """Of every data type; ``auto`` names the one that a run would take."""
    model = load_model(resolve(model_name), torch.float32)
    response = Response(Request(0, 0, (0,) * CONTEXT))
    sampler = TokenSampler(Sampling(), model.config.vocab_size, CPU)
    arms: dict[tuple[str, str], Callable[[], object]] = {}
    for dtype in TYPES:
        runner = Runner(model.config, torch.empty(0, dtype=dtype), drafting=False)
        runner.load_target({key: weight.detach() for key, weight in model.named_parameters()})
        runner.reserve(1, CONTEXT + WIDTHS[-1] + 1)
        for width in WIDTHS:
            arms[_word(dtype), str(width)] = _pass(runner, sampler, response, width)
    found = _medians(arms, rounds)
    types = {}
    for name in map(_word, TYPES):
        milliseconds = [found[name, str(width)] for width in WIDTHS]
        types[name] = {"ms": milliseconds, "against_one": [round(each / milliseconds[0], 3) for each in milliseconds[1:]]}
    return {"auto": _word(native_data_type(CPU, model.config.hidden_size)), "types": types}


def _pass(runner: Runner, sampler: TokenSampler, response: Response, width: int) -> Callable[[], object]:
    given = [(0,) * (width - 1)] if width > 1 else None
    return lambda: runner.decode([response], sampler, StepPlan(Context(1), given=given))


@torch.inference_mode()
def _sampling(sampling: Sampling, rounds: int) -> dict[str, dict[str, float]]:
    """Noise and tokens of ROWS positions, by how the law is shaped and by vocabulary."""
    arms = {(shape, str(size)): _draw(sampling, size, spread) for shape, spread in SPREADS.items() for size in VOCABULARIES}
    found = _medians(arms, rounds)
    return {shape: {str(size): found[shape, str(size)] for size in VOCABULARIES} for shape in SPREADS}


def _draw(sampling: Sampling, vocabulary: int, spread: float) -> Callable[[], object]:
    logits = spread * torch.randn(ROWS, vocabulary, generator=torch.Generator().manual_seed(0))
    sampler, request = TokenSampler(sampling, vocabulary, CPU), torch.tensor([0])
    positions, rows = torch.arange(ROWS)[None], torch.arange(ROWS)
    return lambda: sampler.sample(logits, sampler.noise(request, positions).rows(rows))


def _medians(arms: dict[tuple[str, str], Callable[[], object]], rounds: int) -> dict[tuple[str, str], float]:
    """Milliseconds of each; the first round, which is not counted, prepares what has to be."""
    seconds: dict[tuple[str, str], list[float]] = {name: [] for name in arms}
    for _ in range(rounds + 1):
        for name, work in arms.items():
            seconds[name].append(_time(work))
    return {name: round(1000 * median(each[1:]), 3) for name, each in seconds.items()}


def _time(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _word(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
