"""What would fail on a GPU, or go wrong there unnoticed, fails on the emulated device: faults planted in the engine are each caught."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from checked_graphs import emulated
from native_cases import chains, make_engine, make_guessable, make_requests, make_target
from torch import Tensor

from engine.bench.emulated_cuda.faults import CaptureError, DeviceError, MixedDevicesError, StaleGraphError, StreamOrderError
from engine.bench.emulated_cuda.memory import CUDA
from engine.rollout.interface import Sampling
from engine.rollout.native.decoder_layer import DecoderLayer, ForwardPass
from engine.rollout.native.forward_passes import ForwardPasses
from engine.rollout.native.kv_cache import KVCache
from engine.rollout.native.placement import Placement
from engine.rollout.native.runner import Runner
from engine.rollout.native.sending import Received

Patch = pytest.MonkeyPatch


def host_index(patch: Patch) -> None:
    index = KVCache.index
    patch.setattr(KVCache, "index", lambda cache, positions, first=0: index(cache, positions, first).cpu())


def before_attention(patch: Patch, does: Callable[[Tensor, ForwardPass], Tensor]) -> None:
    attend = DecoderLayer._attend
    patch.setattr(DecoderLayer, "_attend", lambda layer, query, step, number: attend(layer, does(query, step), step, number))


def item_in_a_capture(patch: Patch) -> None:
    before_attention(patch, lambda query, _: query + 0 * query.sum().item())


def constant_of_the_cpu(patch: Patch) -> None:
    before_attention(patch, lambda query, _: query * torch.tensor(1.0))


def captured_number(patch: Patch) -> None:
    """Another one at each step."""
    steps: list[Tensor] = []

    def verify(passes: ForwardPasses, tokens: Tensor, step: Placement) -> Tensor:
        steps.append(tokens)
        shifted = lambda on, given: {"logits": passes._verify(on, given)["logits"] + len(steps)}  # noqa: E731
        return passes._run("target", shifted, step, tokens=tokens)["logits"]

    patch.setattr(ForwardPasses, "verify", verify)


def stale_address(patch: Patch) -> None:
    """The graphs of an earlier cache are kept."""

    def use(passes: ForwardPasses, cache: KVCache) -> None:
        passes._cache = cache

    patch.setattr(ForwardPasses, "use", use)


def read_across_streams(patch: Patch) -> None:
    """A pass on a stream of its own, for which nothing waits."""
    decode = Runner._decode

    def elsewhere(runner: Runner, *args: Any) -> Any:
        with torch.cuda.stream(torch.cuda.Stream()):  # type: ignore[no-untyped-call]
            return decode(runner, *args)

    patch.setattr(Runner, "_decode", elsewhere)


FAULTS: dict[Callable[[Patch], None], tuple[type[DeviceError], str]] = {
    host_index: (MixedDevicesError, "tensors of the device and of the host"),
    item_in_a_capture: (CaptureError, "item waits for the device in a capture"),
    constant_of_the_cpu: (CaptureError, "a tensor of the host in a capture"),
    captured_number: (StaleGraphError, "was captured as"),
    stale_address: (StaleGraphError, "freed since it was captured"),
    read_across_streams: (StreamOrderError, "without a wait"),
}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_planted_fault_is_caught(fault: Callable[[Patch], None], monkeypatch: Patch) -> None:
    error, message = FAULTS[fault]
    target = make_target(tie_word_embeddings=False)
    drafter = make_guessable(target)
    fault(monkeypatch)
    with emulated(), pytest.raises(error, match=message):  # noqa: PT012 - it shows by the second rollout
        engine = make_engine(target, drafter, chains(2), slots=2, device=CUDA)
        engine.generate(make_requests(2, 48), Sampling(max_new_tokens=5))
        engine.release()
        engine.resume()
        engine.generate(make_requests(2, 48), Sampling(max_new_tokens=5))


def test_a_stream_may_read_what_it_has_waited_for() -> None:
    with emulated():
        x, side = torch.ones(3, device=CUDA), torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            y = x + 1
        with pytest.raises(StreamOrderError, match="stream 0 reads what stream 1 works"):
            y.sum()
        torch.cuda.current_stream().wait_stream(side)
        assert y.sum().item() == 6


def test_work_goes_on_where_it_was_after_an_error_on_another_stream() -> None:
    with emulated():
        before = torch.cuda.current_stream()
        with pytest.raises(ZeroDivisionError), torch.cuda.stream(torch.cuda.Stream()):  # type: ignore[no-untyped-call]
            raise ZeroDivisionError
        assert torch.cuda.current_stream() is before


def test_pinned_memory_has_what_is_copied_there_when_the_host_has_waited() -> None:
    with emulated():
        x, there, event = torch.ones(3, device=CUDA), torch.zeros(3, pin_memory=True), torch.cuda.Event()  # type: ignore[no-untyped-call]
        there.copy_(x, non_blocking=True)
        event.record()
        x.zero_()
        later = torch.zeros(3, dtype=torch.long, pin_memory=True)
        later.copy_(x, non_blocking=True)
        assert there.isnan().all()
        event.synchronize()
        assert there.tolist() == [1, 1, 1]
        assert later.tolist() != [0, 0, 0], "that copy comes after the event"
        torch.cuda.synchronize()
        assert later.tolist() == [0, 0, 0]


def test_what_a_step_brought_is_read_behind_a_wait(monkeypatch: Patch) -> None:
    monkeypatch.setattr(Received, "take", lambda received: received._values.tolist())
    target = make_target(tie_word_embeddings=False)
    with emulated(), pytest.raises(ValueError, match="NaN"):
        make_engine(target, None, None, slots=2, device=CUDA).generate(make_requests(2, 48), Sampling(max_new_tokens=5))


def test_a_graph_reads_what_lies_in_its_memory_now() -> None:
    with emulated() as device:
        x, graph = torch.zeros(2, device=CUDA), torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = (x + 1).view(2, 1)
        x.copy_(torch.tensor([3.0, 4.0], device=CUDA))
        device.forget()
        graph.replay()
        assert (device.replays, device.launches.total(), device.syncs.total()) == (1, 0, 0)
        assert y.tolist() == [[4.0], [5.0]]
        del x
        with pytest.raises(StaleGraphError):
            graph.replay()


def test_what_a_graph_has_written_holds_until_another_one_is_replayed() -> None:
    with emulated():
        x, graphs = torch.zeros(2, device=CUDA), [torch.cuda.CUDAGraph() for _ in range(2)]
        outputs = []
        for graph in graphs:
            with torch.cuda.graph(graph):
                outputs.append(x + 1)
        graphs[0].replay()
        assert outputs[0].tolist() == [1, 1]
        with pytest.raises(StaleGraphError, match="another one was replayed last"):
            outputs[1].sum()
        graphs[1].replay()
        with pytest.raises(StaleGraphError):
            outputs[0].tolist()


def test_launches_are_what_works_on_memory_and_syncs_what_the_host_waits_for() -> None:
    with emulated() as device:
        x = torch.arange(6, device=CUDA)
        assert (device.launches.total(), device.bytes) == (1, 48)
        y = x.view(2, 3)[:, 1:].t().unsqueeze(0)
        assert device.launches.total() == 1, "views cost nothing there"
        y.add_(1)
        z = torch.cat((y, y))
        assert device.launches.total() == 3
        assert not device.syncs
        assert int(x[1]) == 2
        assert x[x > 4].tolist() == [5, 6]
        torch.tensor([1, 2]).to(CUDA)
        assert device.syncs.total() == 4
        torch.tensor([1, 2]).pin_memory().to(CUDA, non_blocking=True)
        assert device.syncs.total() == 4
        del x, y
        assert device.bytes == 2 * 2 * 2 * 8
        del z
        assert (device.bytes, device.peak > 100) == (0, True)
