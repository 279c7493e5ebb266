"""A GPU that is not there: tensors that say ``cuda:0``, lie in the host's memory and are computed by the CPU, and ``torch.cuda`` for them.

It refuses what a GPU would refuse or get wrong (see faults.py), and counts what costs there: launches, replays of graphs, and the times
that the host waits. What it does not know: how long anything takes, and the bits of a GPU's results, which are the CPU's here.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn import Parameter
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

from engine.bench.emulated_cuda.autocast import available
from engine.bench.emulated_cuda.faults import CaptureError, MixedDevicesError, StaleGraphError, place
from engine.bench.emulated_cuda.graph import Graph
from engine.bench.emulated_cuda.memory import CUDA, Block, DeviceTensor, Names, on_device
from engine.bench.emulated_cuda.operations import changed, fills, waits
from engine.bench.emulated_cuda.streams import Event, Stream, Streams

aten = torch.ops.aten
OURS = {Tensor, Parameter, DeviceTensor}
PINNING = {aten.pin_memory, aten._pin_memory}
MEMORY = 80 * 10**9
"""Bytes that it says to have."""


class Intercepts(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Hands every operation of this thread to the device."""

    def __init__(self, device: "EmulatedCuda") -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._device = device

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if FakeTensor in types:
            return function(*args, **kwargs or {})
        if any(kind not in OURS for kind in types):  # a shard, say, which does its own part first
            return NotImplemented
        if function.overloadpacket is aten.to:  # which may have nothing to do
            with self:
                return function.decompose(*args, **kwargs or {})
        return self._device.run(function, args, kwargs or {})


class EmulatedCuda:
    """Within ``with``, in this thread. ``launches`` and ``syncs`` count by the line of the engine; ``bytes`` is what tensors take now, and
    ``peak`` the most there was."""

    def __init__(self) -> None:
        self.launches: Counter[str] = Counter()
        self.syncs: Counter[str] = Counter()
        self.replays = self.bytes = self.peak = 0
        self._streams = Streams()
        self._graph: Graph | None = None
        self._replayed: int | None = None
        self._pinned: dict[int, Tensor] = {}
        self._entered = ExitStack()

    def forget(self) -> None:
        """Counts from 0."""
        self.launches.clear()
        self.syncs.clear()
        self.replays, self.peak = 0, self.bytes

    def _forget_peak(self) -> None:
        self.peak = self.bytes

    def __enter__(self) -> "EmulatedCuda":
        self._entered.enter_context(patch.multiple(torch.cuda, create=True, **self._names()))
        self._entered.callback(torch._C._set_only_lift_cpu_tensors, torch._C._only_lift_cpu_tensors())
        torch._C._set_only_lift_cpu_tensors(True)  # torch.tensor makes its tensor on the host, and moves it where a mode sees it
        available(self._entered)
        swaps = torch.__future__.set_swap_module_params_on_conversion  # else Module.to makes two of a tied weight, as CUDA's does not
        self._entered.callback(swaps, torch.__future__.get_swap_module_params_on_conversion())
        swaps(True)
        # What is saved for a backward pass may be told of the device that torch takes ours for.
        alike = {torch.utils.checkpoint._DEFAULT_DETERMINISM_MODE: lambda saved: (saved.shape, saved.dtype)}
        self._entered.enter_context(patch.dict(torch.utils.checkpoint._allowed_determinism_checks_to_fns, alike))
        self._entered.enter_context(Names())
        self._entered.enter_context(Intercepts(self))
        return self

    def __exit__(self, *raised: object) -> None:
        self._entered.close()

    def _names(self) -> dict[str, Any]:
        return {
            "_lazy_init": lambda: None,
            "current_device": lambda: CUDA.index,
            "Stream": lambda device=None, priority=0: Stream(self._streams),  # noqa: ARG005
            "Event": lambda **options: Event(self._streams, self._counts),  # noqa: ARG005
            "current_stream": lambda device=None: self._streams.current,  # noqa: ARG005
            "stream": self._streams.on,
            "synchronize": lambda device=None: self._waits("synchronize"),  # noqa: ARG005
            "empty_cache": lambda: None,
            "memory_reserved": lambda device=None: self.bytes,  # noqa: ARG005
            "memory_allocated": lambda device=None: self.bytes,  # noqa: ARG005
            "max_memory_allocated": lambda device=None: self.peak,  # noqa: ARG005
            "reset_peak_memory_stats": lambda device=None: self._forget_peak(),  # noqa: ARG005
            "mem_get_info": lambda device=None: (MEMORY - self.bytes, MEMORY),  # noqa: ARG005
            "get_device_name": lambda device=None: "emulated",  # noqa: ARG005
            "CUDAGraph": partial(Graph, self._replays),
            "graph_pool_handle": lambda: (0, 0),
            "graph": self.capture,
        }

    @contextmanager
    def capture(
        self,
        graph: Graph,
        pool: object = None,  # noqa: ARG002
        stream: Stream | None = None,
        capture_error_mode: str = "global",  # noqa: ARG002
    ) -> Iterator[None]:
        """``torch.cuda.graph``. Unlike a GPU it runs what is captured."""
        self._graph = graph
        on: AbstractContextManager[None] = self._streams.on(stream) if stream else nullcontext()
        try:
            with on:
                yield
        finally:
            self._graph = None

    def _replays(self, graph: Graph) -> None:
        self.replays += 1
        self._replayed = graph.number
        self._streams.use(*graph.used)

    def run(self, function: Any, args: Any, kwargs: Any) -> Any:
        """An operation of torch, on tensors of the device or to make some."""
        packet = function.overloadpacket
        leaves, shape = tree_flatten((args, kwargs))
        ours = [leaf for leaf in leaves if isinstance(leaf, DeviceTensor)]
        self._check_graphs(ours)
        made_here = on_device(kwargs.get("device"))
        if not ours and not made_here:
            return self._on_host(function, args, kwargs)
        if packet is aten._to_copy:
            return self._copied(function, args[0], **kwargs)
        hosts = [leaf for leaf in leaves if isinstance(leaf, Tensor) and not isinstance(leaf, DeviceTensor) and not leaf.is_meta]
        if packet is aten.copy_ and hosts:
            return self._transferred(*args, **kwargs)
        self._check(function, hosts)
        if waits(function, ours, args):
            self._waits(str(packet))
        raw_leaves = [leaf.raw if isinstance(leaf, DeviceTensor) else leaf for leaf in leaves]
        if made_here:
            raw_leaves = [torch.device("cpu") if isinstance(leaf, torch.device) else leaf for leaf in raw_leaves]
        return self._computed(function, leaves, raw_leaves, shape)

    def _check_graphs(self, ours: Sequence[DeviceTensor]) -> None:
        """Graphs share memory: what one has written holds until another one is replayed."""
        there = {None, self._graph.number if self._graph else self._replayed}
        if any(tensor.block.graph not in there for tensor in ours):
            raise StaleGraphError("the memory of a graph is read or written, but another one was replayed last")

    def _check(self, function: Any, hosts: Sequence[Tensor]) -> None:
        if self._graph and hosts:
            raise CaptureError(f"{function} has a tensor of the host in a capture")
        if any(tensor.dim() for tensor in hosts):
            raise MixedDevicesError(f"{function} has tensors of the device and of the host, {[tuple(tensor.shape) for tensor in hosts]}")

    def _computed(self, function: Any, leaves: list[Any], raw_leaves: list[Any], shape: Any) -> Any:
        ours = [leaf for leaf in leaves if isinstance(leaf, DeviceTensor)]
        args, kwargs = tree_unflatten(raw_leaves, shape)
        results = function(*args, **kwargs)
        before = {id(tensor.raw): tensor for tensor in ours}
        blocks = {tensor.raw.untyped_storage()._cdata: tensor.block for tensor in ours}
        made: list[Block] = []

        def wrapped(result: Any) -> Any:
            if not isinstance(result, Tensor):
                return result
            if (same := before.get(id(result))) is not None:
                return same
            storage = result.untyped_storage()
            block = blocks.get(storage._cdata)
            if block is None:
                block = blocks[storage._cdata] = self._allocated(storage.nbytes())
                made.append(block)
            return DeviceTensor(result, block)

        outputs = tree_map(wrapped, results)
        written = (made if fills(function, results) else []) + changed(function, leaves, shape)
        if written:
            self._launched(function, leaves, partial(function, *args, **kwargs), results, written)
        return outputs

    def _launched(self, function: Any, leaves: list[Any], work: Any, results: Any, written: list[Block]) -> None:
        if self._graph:
            self._graph.add(function, leaves, work, results, written)
            return
        self.launches[place()] += 1
        self._streams.use([leaf.block for leaf in leaves if isinstance(leaf, DeviceTensor) and leaf.block not in written], written)

    def _allocated(self, size: int) -> Block:
        self.bytes += size
        self.peak = max(self.peak, self.bytes)
        block = Block(size, self._freed, self._graph.number if self._graph else None)
        if self._graph:
            self._graph.allocated(block)
        return block

    def _freed(self, size: int) -> None:
        self.bytes -= size

    def _on_host(self, function: Any, args: Any, kwargs: Any) -> Any:
        if function.overloadpacket is aten.is_pinned:
            return self._is_pinned(args[0])
        pins = function.overloadpacket in PINNING
        result = args[0].clone() if pins else function(*args, **{name: each for name, each in kwargs.items() if name != "pin_memory"})
        if pins or kwargs.get("pin_memory"):
            self._pinned[result.untyped_storage()._cdata] = result
        return result

    def _is_pinned(self, tensor: Tensor) -> bool:
        return tensor.untyped_storage()._cdata in self._pinned

    def _copied(self, function: Any, source: Tensor, *, device: Any = None, non_blocking: bool = False, **kwargs: Any) -> Tensor:
        """What ``to`` does if there is anything to do."""
        kwargs.pop("pin_memory", None)
        here = isinstance(source, DeviceTensor)
        there = here if device is None else on_device(device)
        raw: Tensor = source.raw if isinstance(source, DeviceTensor) else source
        result: Tensor = function(raw, **kwargs)
        if not there:
            self._waits("copy to the host")
            return result
        if not here:
            self._sends(raw, non_blocking)
        block = self._allocated(result.untyped_storage().nbytes())
        self._launched(function, [source], partial(function, raw, **kwargs), result, [block])
        return DeviceTensor(result, block)

    def _transferred(self, target: Tensor, source: Tensor, non_blocking: bool = False) -> Tensor:
        """``copy_`` between host and device."""
        if isinstance(target, DeviceTensor):
            self._sends(source, non_blocking)
            target.raw.copy_(source)
            self._launched(aten.copy_, [target, source], partial(target.raw.copy_, source), target.raw, [target.block])
        else:
            assert isinstance(source, DeviceTensor)
            if non_blocking and self._is_pinned(target):
                self._streams.bring(target, source.raw, source.block)
            else:
                self._waits("copy to the host")
                target.copy_(source.raw)
        return target

    def _sends(self, source: Tensor, non_blocking: bool) -> None:
        """From the host. Memory that is not pinned is read before the copy returns."""
        if self._graph:
            raise CaptureError("a copy from the host in a capture")
        if not (non_blocking and self._is_pinned(source)):
            self._waits("copy from the host")

    def _counts(self, what: str) -> None:
        if self._graph:
            raise CaptureError(f"{what} waits for the device in a capture")
        self.syncs[f"{what} {place()}"] += 1

    def _waits(self, what: str) -> None:
        self._counts(what)
        self._streams.host_waits(None if what == "synchronize" else self._streams.current.number)
