"""The pool's buffers, on a device whose graphs run the recorded function again; and real CUDA graphs where there is a GPU."""

import pytest
import torch
from torch import Tensor

from engine.rollout.native.graphs.plan import Capture, GraphPlan, bucket
from engine.rollout.native.graphs.pool import Function, GraphPool, Recording
from engine.rollout.native.graphs.step_memory import DRIVER
from engine.speculation.strategy import OFF

CPU = torch.device("cpu")
SPOILT = -12345.0


class Rerun:
    """Behaves like graphs in one memory pool: a replay reads the recorded inputs, and leaves no other graph's outputs intact."""

    def __init__(self) -> None:
        self.outputs: list[dict[str, Tensor]] = []
        self.cleared = 0

    @property
    def bytes(self) -> int:
        return 1000 * len(self.outputs)

    def record(self, function: Function, inputs: dict[str, Tensor]) -> Recording:
        outputs = {name: torch.full_like(tensor, SPOILT) for name, tensor in function(inputs).items()}
        self.outputs.append(outputs)

        def replay() -> None:
            results = function(inputs)
            for others in self.outputs:
                for tensor in others.values():
                    tensor.fill_(SPOILT)
            for name, tensor in outputs.items():
                tensor.copy_(results[name])

        return Recording(inputs, outputs, replay)

    def clear(self) -> None:
        self.outputs = []
        self.cleared += 1


def double(inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    return {"y": 2 * inputs["x"]}


def affine(inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    return {"sum": inputs["x"] @ inputs["weight"] + 1, "x": inputs["x"].clone()}


def never(_: dict[str, Tensor]) -> dict[str, Tensor]:
    raise AssertionError("a recorded graph calls no function")


@pytest.fixture
def pool() -> GraphPool:
    return GraphPool(CPU, Rerun())


def test_graphs_compute_what_the_functions_do(pool: GraphPool) -> None:
    for seed in range(10):
        torch.manual_seed(seed)
        inputs = {"x": torch.randn(4, 3), "weight": torch.randn(3, 2)}
        for key, function in (("double", double), ("affine", affine)):
            actual = pool.run(key, function if seed == 0 else never, inputs)
            expected = function(inputs)
            assert actual.keys() == expected.keys()
            assert all(torch.equal(actual[name], expected[name]) for name in expected)


def test_the_callers_tensors_are_copied_and_never_kept(pool: GraphPool) -> None:
    mine = torch.ones(2)
    pool.run("double", double, {"x": mine})
    pool.run("double", double, {"x": torch.full((2,), 5.0)})
    assert mine.tolist() == [1, 1]
    mine.fill_(9)
    assert pool.run("double", double, {"x": torch.ones(2)})["y"].tolist() == [2, 2]


def test_inputs_may_be_views(pool: GraphPool) -> None:
    assert pool.run("double", double, {"x": torch.ones(1).expand(3)})["y"].tolist() == [2, 2, 2]
    assert pool.run("double", double, {"x": torch.arange(9)[::3].float()})["y"].tolist() == [0, 6, 12]


def test_outputs_are_the_same_memory_in_every_run_and_hold_until_the_next(pool: GraphPool) -> None:
    one = pool.run("double", double, {"x": torch.ones(2)})["y"]
    other = pool.run("double", double, {"x": torch.zeros(2)})["y"]
    assert one.data_ptr() == other.data_ptr()
    assert one.tolist() == [0, 0]
    pool.run("affine", affine, {"x": torch.ones(1, 1), "weight": torch.ones(1, 1)})
    assert one.tolist() == [SPOILT, SPOILT]


@pytest.mark.parametrize(
    "wrong",
    [
        {"x": torch.ones(1)},
        {"x": torch.ones(2, 2)},
        {"x": torch.ones(2, dtype=torch.long)},
        {"z": torch.ones(2)},
        {"x": torch.ones(2), "z": torch.ones(2)},
    ],
    ids=["broadcast", "shape", "type", "name", "one more"],
)
def test_inputs_that_a_graph_was_not_recorded_for_are_refused(pool: GraphPool, wrong: dict[str, Tensor]) -> None:
    pool.run("double", double, {"x": torch.full((2,), 3.0)})
    with pytest.raises(ValueError, match="the graph of double was recorded for"):
        pool.run("double", double, wrong)
    assert pool.run("double", double, {"x": torch.ones(2)})["y"].tolist() == [2, 2]


def test_without_a_key_a_function_runs_eagerly(pool: GraphPool) -> None:
    for size in (1, 3):
        assert pool.run(None, double, {"x": torch.ones(size)})["y"].tolist() == [2] * size
    pool.run("double", double, {"x": torch.ones(1)})
    assert pool.bytes == 1000 + 4, "only one graph"


def test_a_cpu_runs_everything_eagerly_by_the_same_call() -> None:
    plan = GraphPlan.of({OFF: range(1, 9)}, 8)
    pool = GraphPool(CPU)
    for capture in plan:
        assert pool.run(capture, double, {"x": torch.ones(capture.batch)})["y"].tolist() == [2] * capture.batch
    assert pool.bytes == 0
    pool.clear()


def test_keys_are_recorded_once_each() -> None:
    recorder = Rerun()
    pool = GraphPool(CPU, recorder)
    for batch in range(1, 9):
        chosen = Capture("target", bucket(batch, 8), 1)
        x = torch.arange(chosen.batch) + 1.0
        assert pool.run(chosen, double, {"x": x})["y"].tolist() == (2 * x).tolist()
    assert len(recorder.outputs) == 4
    assert pool.bytes == 4 * 1000 + (1 + 2 + 4 + 8) * 4


def test_after_clear_a_graph_is_recorded_anew(pool: GraphPool) -> None:
    pool.run("double", double, {"x": torch.ones(2)})
    pool.clear()
    assert pool.bytes == 0
    assert pool.run("double", affine, {"x": torch.ones(1, 3), "weight": torch.ones(3, 1)})["sum"].tolist() == [[4]]


def test_the_graphs_used_longest_ago_go_when_they_take_too_much() -> None:
    """Two of these fit; what is used in between stays."""
    recorder = Rerun()
    pool = GraphPool(CPU, recorder, limit=2 * (DRIVER + 2 * 400))
    inputs = {"x": torch.ones(100)}
    for key, recorded in (("a", 1), ("b", 2), ("a", 2), ("c", 3), ("a", 3), ("c", 3), ("b", 4), ("c", 4), ("a", 5)):
        assert pool.run(key, double, inputs)["y"].sum() == 200
        assert len(recorder.outputs) == recorded, key
    assert pool.run("large", double, {"x": torch.ones(DRIVER)})["y"].sum() == 2 * DRIVER, "the newest one stays, whatever it takes"
    assert len(pool._recordings) == 1


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_cuda_graphs_compute_the_same_and_share_their_memory() -> None:
    device = torch.device("cuda")
    weight = torch.randn(512, 512, device=device) / 20

    def layers(inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        x = inputs["x"]
        for _ in range(8):
            x = torch.tanh(x @ weight)
        return {"last": x[:1].clone()}

    pool = GraphPool(device)
    reserved = []
    for rows in (8192, 4096):
        for seed in range(3):
            x = torch.randn(rows, 512, device=device, generator=torch.Generator(device).manual_seed(seed))
            actual = pool.run(rows // 4096, layers, {"x": x})["last"]
            torch.testing.assert_close(actual, layers({"x": x})["last"], atol=1e-5, rtol=0)
        reserved.append(pool.bytes)
    second = reserved[1] - reserved[0] - 4096 * 512 * 4  # without its input
    assert reserved[0] > 8192 * 512 * 4
    assert second <= 2 * 2**20, "the smaller graph works in the memory of the larger one"
    pool.clear()
    assert pool.bytes == 0
