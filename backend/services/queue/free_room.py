"""What workers could take of the queue now, one run after the other, as scheduling.next_fitting says each time."""

from collections.abc import Iterable, Set
from typing import NamedTuple

from backend.services.queue.scheduling import Room
from longtail.schemas.queue import Reason


class Wish(NamedTuple):
    """What a run wants of its worker: a label, and so many GPUs, or none where there are fewer unless it is ``gpu_only``."""

    needs: str
    gpus: int
    gpu_only: bool

    def taken(self, room: Room) -> int | None:
        """GPUs that the run takes of this worker; None if it cannot have the run at all."""
        able = room.slots.total > 0 and self.needs in room.labels and (self.gpus <= len(room.gpus) or not self.gpu_only)
        return (self.gpus if self.gpus <= len(room.gpus) else 0) if able else None


class FreeRoom:
    def __init__(self, rooms: Iterable[Room], taken: Set[str]) -> None:
        """``taken``: GPUs that runs under way have."""
        self._rooms = sorted(rooms, key=lambda room: (len(room.labels), len(room.gpus)))  # who offers much is left to who needs it
        self._slots = [room.slots.free for room in self._rooms]
        self._taken = set(taken)
        self._kept: set[int] = set()
        """Workers that keep their GPUs for a run before."""
        self._able: dict[Wish, bool] = {}
        self._refused: dict[Wish, Reason] = {}
        """Room only gets less: what was not to be had once is not to be had later."""

    def able(self, wish: Wish) -> bool:
        """Whether any worker may have such a run, now or later."""
        if wish not in self._able:
            self._able[wish] = any(wish.taken(room) is not None for room in self._rooms)
        return self._able[wish]

    def take(self, wish: Wish) -> Reason:
        """Gives the run its place with a worker, or says why there is none."""
        if wish not in self._refused and not self._give(wish):
            self._refused[wish] = self._refusal(wish)
        return self._refused.get(wish, "next")

    def _give(self, wish: Wish) -> bool:
        """False if no worker has room; those that lack nothing but GPUs then keep theirs for this run."""
        lacking = set()
        for number, room in enumerate(self._rooms):
            gpus = wish.taken(room)
            if gpus is None or not self._slots[number] or (gpus and number in self._kept):
                continue
            free = [gpu for gpu in room.gpus if gpu not in self._taken]
            if gpus <= len(free):
                self._slots[number] -= 1
                self._taken.update(free[:gpus])
                return True
            lacking.add(number)
        self._kept |= lacking
        return False

    def _refusal(self, wish: Wish) -> Reason:
        able = [number for number, room in enumerate(self._rooms) if wish.taken(room) is not None]
        if any(self._slots[number] for number in able):
            return "gpus"
        return "behind" if any(self._rooms[number].slots.free for number in able) else "busy"
