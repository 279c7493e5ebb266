"""Runs functions of tensors as CUDA graphs that share one memory pool, or eagerly where there is no graph."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from engine.rollout.native.graphs.step_memory import DRIVER, LIMIT

WARM_UPS = 2

Function = Callable[[dict[str, Tensor]], dict[str, Tensor]]


@dataclass(frozen=True)
class Recording:
    """A function recorded on its ``inputs``: ``replay`` writes ``outputs``, for what the inputs then hold."""

    inputs: dict[str, Tensor]
    outputs: dict[str, Tensor]
    replay: Callable[[], None]

    @property
    def bytes(self) -> int:
        """Of all that no other graph uses, too."""
        return DRIVER + sum(tensor.nbytes for part in (self.inputs, self.outputs) for tensor in part.values())


class Recorder(Protocol):
    """What a device has for graphs."""

    @property
    def bytes(self) -> int:
        """Memory of all recordings, without their inputs."""
        ...

    def record(self, function: Function, inputs: dict[str, Tensor]) -> Recording:
        """The outputs need not hold anything before the first replay."""
        ...

    def clear(self) -> None:
        """Frees the memory of all recordings, which their owner has dropped."""
        ...


class GraphPool:
    """A graph repeats the operations of its first run on the memory of its first run. So a function

    - reads what changes from its inputs, or from tensors that stay where they are (weights; a cache until there is a new one: then
      ``clear``), and for equal keys everything else is equal, too;
    - may write to such tensors, but in a way that can be repeated: the first run calls it several times;
    - never waits for the device (no ``item``, no shapes that depend on values).
    """

    def __init__(self, device: torch.device, recorder: Recorder | None = None, limit: int = LIMIT) -> None:
        """``recorder`` is the device's own unless given: CUDA graphs, or none on a CPU, where everything is eager. Graphs have ``limit``
        bytes (see Recording); the least recently used go if there are more, and later ones have their memory."""
        self._limit = limit
        self._recorder = recorder or (CudaRecorder(device) if device.type == "cuda" else None)
        self._recordings: dict[Hashable, Recording] = {}

    @property
    def bytes(self) -> int:
        """Memory of the graphs and their inputs."""
        inputs = [tensor for recording in self._recordings.values() for tensor in recording.inputs.values()]
        return sum(tensor.nbytes for tensor in inputs) + (self._recorder.bytes if self._recorder else 0)

    def run(self, key: Hashable | None, function: Function, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The outputs of ``function``: the graph's own tensors, which hold until the next ``run`` of any key.

        Without a key it has no graph. ValueError if the inputs' names, shapes or types are not those of the key's first run.
        """
        if key is None or self._recorder is None:
            return function(dict(inputs))
        if key not in self._recordings:
            static = {name: tensor.clone(memory_format=torch.contiguous_format) for name, tensor in inputs.items()}
            self._recordings[key] = self._recorder.record(function, static)
            self._evict()
        recording = self._recordings[key] = self._recordings.pop(key)  # the last one is the one used last
        if _layout(inputs) != _layout(recording.inputs):
            raise ValueError(f"the graph of {key} was recorded for {_layout(recording.inputs)}, not {_layout(inputs)}")
        for name, static_input in recording.inputs.items():
            static_input.copy_(inputs[name])
        recording.replay()
        return recording.outputs

    def _evict(self) -> None:
        """All but the newest may go."""
        sizes = {key: recording.bytes for key, recording in self._recordings.items()}
        excess = sum(sizes.values()) - self._limit
        for key in list(sizes)[:-1]:
            if excess > 0:
                excess -= sizes[key]
                del self._recordings[key]

    def clear(self) -> None:
        """Drops all graphs and frees their memory; the next run of a key records it again."""
        self._recordings.clear()
        if self._recorder:
            self._recorder.clear()


class CudaRecorder:
    """CUDA graphs in one memory pool: what one graph needs only while it runs, the others use as well."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        # One stream for all graphs: torch shares a pool's memory only within a stream.
        self._stream: torch.cuda.Stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._pool = torch.cuda.graph_pool_handle()
        self._bytes = 0

    @property
    def bytes(self) -> int:
        """As torch reserves it; what the driver keeps of each graph is not in it."""
        return self._bytes

    def record(self, function: Function, inputs: dict[str, Tensor]) -> Recording:
        """Runs ``function`` to have every library ready, then captures it."""
        current = torch.cuda.current_stream(self._device)
        self._stream.wait_stream(current)
        with torch.cuda.stream(self._stream):
            for _ in range(WARM_UPS):
                function(inputs)
        current.wait_stream(self._stream)
        torch.cuda.synchronize(self._device)
        torch.cuda.empty_cache()
        before = torch.cuda.memory_reserved(self._device)
        graph = torch.cuda.CUDAGraph()
        # What another thread does, such as the learner's, is no part of it, and must not spoil it.
        with torch.cuda.graph(graph, pool=self._pool, stream=self._stream, capture_error_mode="thread_local"):
            outputs = function(inputs)
        self._bytes += torch.cuda.memory_reserved(self._device) - before
        return Recording(inputs, outputs, graph.replay)

    def clear(self) -> None:
        self._pool = torch.cuda.graph_pool_handle()
        self._bytes = 0
        torch.cuda.empty_cache()


def _layout(tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    return {name: (tuple(tensor.shape), tensor.dtype) for name, tensor in tensors.items()}
