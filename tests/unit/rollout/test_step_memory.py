"""What a cache leaves free beside it holds what steps take, as counted on an emulated GPU."""

import pytest
import torch
from native_cases import make_target, random_drafter, strategies
from test_graph_pool import Rerun

from engine.bench.emulated_cuda.device import EmulatedCuda
from engine.bench.emulated_cuda.memory import CUDA
from engine.rollout.interface import Request, Sampling
from engine.rollout.native import row_chunks
from engine.rollout.native.graphs import step_memory
from engine.rollout.native.graphs.plan import Capture, GraphPlan
from engine.rollout.native.graphs.step_memory import DRIVER, LIMIT, UNUSED, Widths, graph_memory
from engine.rollout.native.runner import Runner
from engine.rollout.native.sampling import TokenSampler
from engine.rollout.response import Response
from engine.speculation.speculator import StepPlan
from engine.speculation.strategy import OFF, Context, Strategy

BATCH, VOCABULARY, LENGTH = 8, 4096, 20
QWEN = Widths(152_064, 3_584, 3 * 18_944, 2)
"""Of 7 B."""


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_chunks, "ON_A_GPU", 4 * VOCABULARY)
    monkeypatch.setattr(step_memory, "ON_A_GPU", 4 * VOCABULARY)
    monkeypatch.setattr(step_memory, "CATCHING_UP", BATCH * LENGTH)


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("sampling", [Sampling(seed=1), Sampling(2.0, 0.99, seed=1)], ids=["all tokens", "cut by top-p"])
@torch.inference_mode()
def test_steps_take_no_more_than_is_left(sampling: Sampling) -> None:
    """Of trees, chains and none in turn, and with a long draft that is given."""
    speculation = strategies((4, 3, 8), (3, 1, 3))
    target = make_target(vocabulary=VOCABULARY, tie_word_embeddings=False)
    plan = GraphPlan.of_engine(speculation, BATCH)
    responses = [Response(Request(number, number, (1,) * LENGTH)) for number in range(BATCH)]
    shapes = [Strategy.of(each) for each in speculation.strategies]
    with EmulatedCuda() as device:
        runner = Runner(target.config, torch.empty(0, device=CUDA, dtype=torch.bfloat16), True, plan, Rerun())
        runner.load_target(target.state_dict())
        runner.load_drafter(random_drafter(target))
        runner.reserve(BATCH, 128)
        sampler = TokenSampler(sampling, VOCABULARY, CUDA)
        there = device.bytes
        device.forget()
        runner.prefill(range(BATCH), [response.known for response in responses])
        context, given = Context(BATCH), [(2,) * max(each.verify for each in shapes)] + [None] * (BATCH - 1)
        steps = [StepPlan(context), *(StepPlan(context, each, each) for each in shapes), StepPlan(context, shapes[0], shapes[0], given)]
        for step in steps if sampling.top_p == 1 else steps[-1:]:  # a cut takes many launches, which are slow to emulate
            runner.decode(responses, sampler, step)
        taken = device.peak - there
    left = runner._beside - UNUSED - DRIVER * plan.captures
    shared = max(step_memory._working(capture, runner._widths) for capture in plan)  # others cannot have it, but where all is emulated
    assert 0.5 < taken / (left - shared) <= 1


def test_at_the_size_of_7b_by_hand() -> None:
    """Of trees of (8, 4, 24) and (8, 4, 12) for up to 128 requests: 3,200 rows of logits, 1,152 of noise."""
    trees = [Strategy("eagle", 8, 4, verify) for verify in (24, 12)]
    plan = GraphPlan.of(dict.fromkeys([OFF, *trees], range(1, 129)), 128)
    row = 4 * QWEN.vocabulary
    chunk = step_memory.DRAWN * 2**25
    assert step_memory.drawing(3200, QWEN) == chunk
    graphs = LIMIT + DRIVER + 3200 * row + 512 * (row + row // 2) + chunk
    assert graph_memory(plan, QWEN) == graphs
    assert step_memory.step_memory(plan, QWEN) == graphs + 3200 * row + max(3200 * row // 2, chunk) + 1152 * row + UNUSED
    few = [Capture("target", 2, 1), Capture("draft", 2, 1, 4)]
    small = GraphPlan(frozenset(few[:1]), frozenset(few[1:]), 2)
    working = 2 * (row + row // 2) + step_memory.DRAWN * 2 * QWEN.vocabulary
    assert graph_memory(small, QWEN) == 2 * DRIVER + 2 * row + row + working
    assert graph_memory([*few, *few], QWEN) == 2 * (2 * DRIVER + 2 * row + row) + working, "equal graphs work on one memory"
    assert graph_memory(GraphPlan(frozenset(), frozenset(), 1), QWEN) == 0


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("sampling", [Sampling(0.7, seed=1), Sampling(2.0, 0.99, seed=1), Sampling(temperature=0)])
@pytest.mark.parametrize("rows_kept", [0, 30], ids=["noise made anew", "noise kept"])
@torch.inference_mode()
def test_what_is_drawn_does_not_depend_on_chunks(monkeypatch: pytest.MonkeyPatch, sampling: Sampling, rows_kept: int) -> None:
    logits, found = 3 * torch.randn(30, VOCABULARY, generator=torch.Generator().manual_seed(0)), []
    for at_once in (row_chunks.ON_A_GPU, 2**40):
        monkeypatch.setattr(row_chunks, "ON_A_GPU", at_once)
        with EmulatedCuda():
            sampler = TokenSampler(sampling, VOCABULARY, CUDA)
            requests, memory = torch.arange(10, device=CUDA), torch.empty(rows_kept, VOCABULARY, device=CUDA)
            noise = sampler.noise(requests, 5 + torch.arange(3, device=CUDA).expand(10, -1), memory)
            drawn = sampler.sample(logits.to(CUDA), noise.rows(torch.arange(30, device=CUDA)))
            guessed = sampler.guesses(logits.to(CUDA)[:20], noise.level(1, repeats=2), 3)
            found.append([each.cpu() for each in (*drawn, *guessed)])
    assert all(torch.equal(some, whole) for some, whole in zip(*found, strict=True))
