"""In what order streams work: what one does to memory that another one uses must come after a wait, and so must what the host reads."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import NamedTuple

import torch
from torch import Tensor
from torch.cuda._sanitizer import StreamSynchronizations

from engine.bench.emulated_cuda.faults import StreamOrderError
from engine.bench.emulated_cuda.memory import Block

DEFAULT = 0


class Coming(NamedTuple):
    """What a copy puts into ``target``, memory of the host. It is the work ``number`` of ``stream``."""

    target: Tensor
    values: Tensor
    stream: int
    number: int


class Streams:
    """All streams of a device; ``current`` is the one that work goes to."""

    def __init__(self) -> None:
        self._order = StreamSynchronizations()
        self._coming: list[Coming] = []
        self._numbers, self._streams = count(1), count(DEFAULT)
        self.current = Stream(self)

    def number(self) -> int:
        """Of a new stream."""
        stream = next(self._streams)
        self._order.create_stream(stream)
        return stream

    def use(self, read: Iterable[Block], written: Iterable[Block]) -> int:
        """Work of the current stream; its number. StreamOrderError if it has not waited for the last of another's that matters."""
        stream, number = self.current.number, next(self._numbers)
        self._order.update_seq_num(stream, number)
        for block in read:
            self._after(stream, block.written, "reads what")
            block.read[stream] = number
        for block in written:
            self._after(stream, block.written, "writes where")
            for reader in block.read.items():
                self._after(stream, reader, "writes where")
            block.written, block.read = (stream, number), {}
        return number

    def bring(self, target: Tensor, values: Tensor, source: Block) -> None:
        """Copies ``values`` to the host's ``target``, which is not waited for: until the host has waited it has nothing of them."""
        number = self.use([source], [])
        self._coming.append(Coming(target, values.clone(), self.current.number, number))
        target.fill_(torch.nan if target.is_floating_point() else 0 if target.dtype == torch.bool else torch.iinfo(target.dtype).min)

    def _arrive(self) -> None:
        known, coming = self._order.host_sync_state, self._coming
        self._coming = [each for each in coming if each.number > known.get(each.stream, -1)]
        for each in coming:
            if each.number <= known.get(each.stream, -1):
                with torch.inference_mode():  # as it may be a tensor of such a mode
                    each.target.copy_(each.values)

    def _after(self, stream: int, other: tuple[int, int] | None, does: str) -> None:
        if other and not self._order.is_ordered_after(stream, other[1], other[0]):
            raise StreamOrderError(f"stream {stream} {does} stream {other[0]} works without a wait for it")

    def event(self) -> int:
        """The number of a new event."""
        event = next(self._numbers)
        self._order.create_event(event)
        return event

    def record(self, event: int, stream: int) -> None:
        """What ``stream`` has to do by now as that of ``event``."""
        self._order.record_state(event, stream)

    def wait(self, stream: int, event: int) -> None:
        self._order.stream_wait_for_event(stream, event)

    def host_waits(self, stream: int | None = None) -> None:
        """For a stream, or for all."""
        if stream is None:
            self._order.sync_all_streams()
        else:
            self._order.all_streams_wait_for_stream(stream)
        self._arrive()

    def host_waits_for(self, event: int) -> None:
        self._order.all_streams_wait_for_event(event)
        self._arrive()

    @contextmanager
    def on(self, stream: "Stream") -> Iterator[None]:
        before, self.current = self.current, stream
        try:
            yield
        finally:
            self.current = before


class Stream:
    """What of ``torch.cuda.Stream`` the engine uses."""

    def __init__(self, streams: Streams) -> None:
        self._streams, self.number = streams, streams.number()

    def wait_stream(self, other: "Stream") -> None:
        self.wait_event(other.record_event())

    def wait_event(self, event: "Event") -> None:
        self._streams.wait(self.number, event.number)

    def record_event(self, event: "Event | None" = None) -> "Event":
        event = event or Event(self._streams)
        event.record(self)
        return event


class Event:
    """What of ``torch.cuda.Event`` the engine and FSDP use. ``waits`` is told when the host waits."""

    def __init__(self, streams: Streams, waits: Callable[[str], None] = lambda _: None) -> None:
        self._streams, self._waits, self.number = streams, waits, streams.event()

    def record(self, stream: Stream | None = None) -> None:
        self._streams.record(self.number, (stream or self._streams.current).number)

    def wait(self, stream: Stream | None = None) -> None:
        self._streams.wait((stream or self._streams.current).number, self.number)

    def synchronize(self) -> None:
        self._waits("synchronize")
        self._streams.host_waits_for(self.number)
