"""What the engine captures in CUDA graphs is what PyTorch's compiler would let into one: no operation of it has a size or a number that
depends on values."""

from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager

import pytest
import torch
from native_cases import make_engine, make_guessable, make_requests, make_target, strategies
from torch import Tensor
from torch._inductor.utils import get_first_incompatible_cudagraph_node
from torch.fx.experimental.proxy_tensor import make_fx

from engine.bench.emulated_cuda.device import EmulatedCuda
from engine.bench.emulated_cuda.memory import CUDA
from engine.rollout.interface import Sampling
from engine.rollout.native.decoder_layer import DecoderLayer, ForwardPass
from engine.rollout.native.graphs.pool import Function, GraphPool


class TracedPool(GraphPool):
    """Traces whatever has a graph, once. Its functions run twice, which they must stand."""

    traced: dict[Hashable, object]

    def run(self, key: Hashable | None, function: Function, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        if key is not None and key not in TracedPool.traced:
            traced = make_fx(function)(dict(inputs))
            TracedPool.traced[key] = get_first_incompatible_cudagraph_node(traced)
            assert any(node.op == "call_function" for node in traced.graph.nodes)
        return super().run(key, function, inputs)


@contextmanager
def traced() -> Iterator[dict[Hashable, object]]:
    """Of every graph, the first operation that may not be in one, or None."""
    with pytest.MonkeyPatch.context() as patched, EmulatedCuda():
        patched.setattr("engine.rollout.native.forward_passes.GraphPool", TracedPool)
        patched.setattr(TracedPool, "traced", {}, raising=False)
        yield TracedPool.traced


def generate() -> None:
    target = make_target(tie_word_embeddings=False)
    engine = make_engine(target, make_guessable(target), strategies((3, 2, 5)), slots=2, device=CUDA)
    engine.generate(make_requests(2, 48), Sampling(max_new_tokens=4))


def test_every_captured_operation_may_be_in_a_graph() -> None:
    with traced() as found:
        generate()
    assert len(found) > 1
    assert set(found.values()) == {None}


def test_a_write_where_values_say_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    attend: Callable[..., Tensor] = DecoderLayer._attend

    def planted(layer: DecoderLayer, query: Tensor, step: ForwardPass, number: int) -> Tensor:
        return attend(layer, torch.index_put(query, (query > 1e9,), query.new_zeros(())), step, number)

    monkeypatch.setattr(DecoderLayer, "_attend", planted)
    with traced() as found, pytest.raises(Exception, match="waits for the device in a capture"):
        generate()
    assert "index_put" in str(next(iter(found.values())))
