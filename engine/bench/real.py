"""``bench real``: a pretrained model that nobody here made, on GSM8K: plain decoding, transformers' generate, n-grams, and drafters that
were trained before the run for so many minutes.

Drafters are trained on the file that is given, and all is measured on questions of TEST beside it. All arms of a batch but transformers'
generate the same responses, so their times compare directly; ``mismatches`` counts those that differ.
"""

import argparse
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor

from engine.bench.testbed import machine, ratio, timed
from engine.config import RolloutConfig, SpeculationConfig, StrategyConfig
from engine.config.task import MathConfig
from engine.drafter.evaluate import CHAIN, DrafterMeasurement
from engine.drafter.export import load_drafter_folder
from engine.drafter.kind import drafter_kind, weights_kind
from engine.drafter.model_card import base_model
from engine.errors import DataError
from engine.models.folder import home, read_facts
from engine.models.load import end_tokens, load_model, load_tokenizer, resolve
from engine.pretraining import command
from engine.pretraining.command import DONE
from engine.rollout.data_type import native_data_type
from engine.rollout.interface import Completion, Request, Sampling
from engine.rollout.native.engine import NativeEngine
from engine.rollout.native.from_model import engine_from_model
from engine.tasks.registry import build_task

SIZES = (1, 4, 16)
MINUTES = (10, 30, 60)
TOKENS, LONGEST = 96, 512
REPETITIONS = 3
TAIL, SIBLINGS = 32, 8
SAMPLED, WARM = Sampling(0.7, 0.95), Sampling(1.0)
TEST = "test.jsonl"
MEASURED = 64
NGRAMS = SpeculationConfig(strategies=tuple(StrategyConfig(drafter="ngram", depth=depth, verify=depth) for depth in (8, 3)), threshold=4096)


class RealBed:
    """The model on one CPU thread or one GPU, and questions that no drafter was trained on: of TEST beside ``data``."""

    def __init__(self, model: str, data: Path) -> None:
        torch.set_num_threads(1)
        torch.set_flush_denormal(True)
        self.name, self.folder = model, resolve(model)
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.dtype = native_data_type(device, read_facts(self.folder).hidden_size)
        self.model = load_model(self.folder, self.dtype).to(device)  # type: ignore[arg-type]
        fast = torch.bfloat16 if self.dtype == torch.bfloat16 else torch.float32  # transformers is slow in float16 on a CPU
        self.theirs = self.model if fast == self.dtype else load_model(self.folder, fast).to(device)  # type: ignore[arg-type]
        self.tokenizer = load_tokenizer(self.folder)
        self.ends = end_tokens(self.model, self.tokenizer)
        self._task = build_task(MathConfig(path=data.with_name(TEST)), 0, self.tokenizer)

    def requests(self, count: int, siblings: int = 1, seed: int = 0) -> list[Request]:
        prompts = self._task.prompts(seed, -(-count // siblings))
        return [Request(index, index // siblings, prompts[index // siblings].tokens) for index in range(count)]

    def long_requests(self, count: int, sampling: Sampling, seed: int) -> list[Request]:
        """Of many, the first ``count`` to which plain decoding responds with ``TOKENS`` tokens at least. DataError if there are fewer."""
        many = self.requests(max(8, 3 * count), seed=seed)
        found = self.engine(None).generate(many, _limited(sampling, TOKENS, seed))
        long = [completion.request for completion in found if completion.finish == "length"][:count]
        if len(long) < count:
            raise DataError(f"bench real: only {len(long)} of {len(many)} responses have {TOKENS} tokens, and {count} are needed")
        return long

    def engine(self, speculation: SpeculationConfig | None, drafter: Mapping[str, Tensor] | None = None) -> NativeEngine:
        return engine_from_model(
            self.model,
            self.ends,
            speculation,
            drafter,
            weights_kind(drafter) if drafter else "eagle",
            rollout=RolloutConfig(max_prompt_tokens=LONGEST),
            costs=home() / "costs",
        )


def run(quick: bool, model: str, data: Path | None, minutes: Sequence[float] | None = None) -> dict[str, Any]:
    """Arms take turns; every speed-up is a median of ratios to plain decoding in the same repetition. ``minutes`` of training of each
    drafter; ``trained`` in the result is the day of that, as kept drafters may be older than the code."""
    data = training_file("real", data)
    drafters = {each: trained_drafter(model, data, each) for each in minutes or ((1,) if quick else MINUTES)}
    bed = RealBed(model, data)
    weights = {each: load_drafter_folder(folder, bed.model.config, drafter_kind(folder)) for each, folder in drafters.items()}
    days = {
        f"{each:g}": datetime.fromtimestamp((folder / DONE).stat().st_mtime, UTC).date().isoformat() for each, folder in drafters.items()
    }
    facts = {"dtype": str(bed.dtype).removeprefix("torch.")} | machine(bed.model.device)
    result: dict[str, Any] = {"model": model, "facts": facts, "trained": days}
    result |= _measured(bed, SAMPLED, weights, quick)
    return result if quick else result | {"temperature_1": _measured(bed, WARM, weights, quick)}


def training_file(bench: str, data: Path | None) -> Path:
    """``data``, which must be there with TEST beside it: DataError."""
    if data is None or not data.is_file() or not data.with_name(TEST).is_file():
        raise DataError(f"bench {bench}: --data: give GSM8K's training file, with {TEST} beside it (JSONL with columns question, answer)")
    return data


def trained_drafter(model: str, data: Path, minutes: float) -> Path:
    """The drafter that so many minutes of training make; kept, for that is what takes the time. DataError if the one that is kept was made
    for another model."""
    folder = home() / "bench" / f"real-{Path(model).name}-{minutes:g}min"
    if (folder / DONE).exists():
        if (target := base_model(folder)) != model:
            raise DataError(f"the drafter that is kept in {folder} was trained for {target}, not for {model}; move it away")
    else:
        parser = argparse.ArgumentParser()
        command.add_arguments(parser)
        options = ["--model", model, "--task", str(data), "--minutes", f"{minutes:g}", "--out", str(folder)]
        command.train(parser.parse_args([*options, "--temperature", "0.7", "--top-p", "0.95"]))
    return folder


def _measured(bed: RealBed, sampling: Sampling, drafters: Mapping[float, Mapping[str, Tensor]], quick: bool) -> dict[str, Any]:
    engines = {"plain": bed.engine(None), "ngram": bed.engine(NGRAMS)}
    engines |= {f"{minutes:g}": bed.engine(SpeculationConfig(threshold=4096), drafter) for minutes, drafter in drafters.items()}
    for engine in engines.values():  # in which tuners learn
        engine.generate(bed.requests(8, 4, seed=99), _limited(sampling, TOKENS, 99))
    mismatches = 0
    rates: dict[int, dict[str, list[float]]] = {}
    for size in SIZES[: 1 if quick else None]:
        rates[size] = {name: [] for name in (*engines, "hf")}
        for repetition in range(1 if quick else _repetitions(size)):
            requests, drawn = bed.long_requests(size, sampling, repetition), _limited(sampling, TOKENS, repetition)
            found: dict[str, list[Completion]] = {}
            for name in _turn(engines, repetition):
                rollout = timed(engines[name], requests, drawn)
                found[name] = rollout.completions
                rates[size][name].append(rollout.rate)
            mismatches += _different(found)
            rates[size]["hf"].append(_transformers(bed, requests, drawn))
        print(size, {name: round(median(each), 1) for name, each in rates[size].items()}, "tokens/s", flush=True)
    seconds, differ = _long_tail(bed, engines, sampling, quick)
    tail = {name: round(seconds["plain"] / each, 3) for name, each in seconds.items()}
    measured = {f"{minutes:g}": _accepted(bed, sampling, drafter) for minutes, drafter in drafters.items()}
    speed = {size: {name: ratio(list(zip(each, of["plain"], strict=True))) for name, each in of.items()} for size, of in rates.items()}
    return {
        "plain_tok_s": {str(size): round(median(of["plain"]), 1) for size, of in rates.items()},
        "hf_tok_s": {str(size): round(median(of["hf"]), 1) for size, of in rates.items()},
        "long_tail_s": {name: round(each, 1) for name, each in seconds.items()},
        "ngram": {"speedup": {str(size): of["ngram"] for size, of in speed.items()}, "long_tail_speedup": tail["ngram"]},
        "minutes": {
            name: accepted | {"speedup": {str(size): of[name] for size, of in speed.items()}, "long_tail_speedup": tail[name]}
            for name, accepted in measured.items()
        },
        "mismatches": mismatches + differ,
    }


def _repetitions(size: int) -> int:
    """More of them for few requests, whose rates depend more on what they happen to say."""
    return REPETITIONS + 9 // size


def _accepted(bed: RealBed, sampling: Sampling, drafter: Mapping[str, Tensor]) -> dict[str, Any]:
    """Of chains."""
    requests = bed.requests(MEASURED, seed=7)
    found = DrafterMeasurement(bed.model, bed.ends, requests, _limited(sampling, 2 * TOKENS, 7)).measure(dict(drafter), CHAIN)
    return {"accept": found.accept_length, "accept_by_position": found.acceptance}


def _long_tail(bed: RealBed, engines: Mapping[str, NativeEngine], sampling: Sampling, quick: bool) -> tuple[dict[str, float], int]:
    """Seconds of a whole rollout to the end of its longest response, in the mean, and how many responses differ from plain ones."""
    seconds: dict[str, float] = dict.fromkeys(engines, 0.0)
    differ = 0
    repetitions = 1 if quick else REPETITIONS
    for repetition in range(repetitions):
        requests = bed.requests(TAIL, SIBLINGS, seed=50 + repetition)
        found: dict[str, list[Completion]] = {}
        for name in _turn(engines, repetition):
            found[name], _, spent = timed(engines[name], requests, _limited(sampling, LONGEST, repetition))
            seconds[name] += spent / repetitions
        differ += _different(found)
    return seconds, differ


def _turn(arms: Iterable[str], repetition: int) -> list[str]:
    """All of them, each time with another one first: the first one was often slower, whichever it was."""
    order = deque(arms)
    order.rotate(-repetition)
    return list(order)


def _different(found: Mapping[str, Sequence[Completion]]) -> int:
    """Responses of all arms that are not the plain ones."""
    pairs = (pair for completions in found.values() for pair in zip(found["plain"], completions, strict=True))
    return sum(one.tokens != other.tokens or one.logprobs != other.logprobs for one, other in pairs)


def _limited(sampling: Sampling, tokens: int, seed: int) -> Sampling:
    return Sampling(sampling.temperature, sampling.top_p, max_new_tokens=tokens, seed=seed)


def _transformers(bed: RealBed, requests: Sequence[Request], sampling: Sampling) -> float:
    """Tokens per second of transformers' own generate, to its limit, in the data type that is fastest for it."""
    longest = max(len(request.prompt) for request in requests)
    padding = [[0] * (longest - len(request.prompt)) for request in requests]
    inputs = torch.tensor([[*zeros, *request.prompt] for zeros, request in zip(padding, requests, strict=True)])
    mask = torch.tensor([[*zeros, *[1] * len(request.prompt)] for zeros, request in zip(padding, requests, strict=True)])
    torch.manual_seed(0)
    began = time.perf_counter()
    bed.theirs.generate(
        input_ids=inputs.to(bed.model.device),
        attention_mask=mask.to(bed.model.device),
        max_new_tokens=sampling.max_new_tokens,
        min_new_tokens=sampling.max_new_tokens,
        do_sample=True,
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        top_k=0,
    )
    return len(requests) * sampling.max_new_tokens / (time.perf_counter() - began)
