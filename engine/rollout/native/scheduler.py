"""Which requests wait, which run, and in which slot: a running request's index is its slot, so slots 0 .. n - 1 are the batch."""

from collections import deque
from collections.abc import Collection, Sequence

from engine.rollout.native.layout.room import Room, Unlimited
from engine.rollout.response import Response

UNLIMITED = Unlimited()


class Scheduler:
    """Continuous batching over a fixed number of slots, first come, first served, as long as there is room."""

    def __init__(self, responses: Sequence[Response], slots: int) -> None:
        self.waiting = deque(responses)
        self.running: list[Response] = []
        self._slots = slots
        numbers: dict[tuple[int, ...], int] = {}
        self._prompts = {response.id: numbers.setdefault(response.request.prompt, len(numbers)) for response in responses}

    @property
    def unfinished(self) -> int:
        return len(self.waiting) + len(self.running)

    def admit(self, room: Room = UNLIMITED, beyond: int = 0) -> tuple[range, list[tuple[int, int]]]:
        """Fills the free slots, as long as ``room`` has pages for what is known of a response and ``beyond`` positions more, and is left
        with what those that run lack for as many, or with one for each, which it will soon need. Returns the new slots to prefill, those
        of responses that go on last, and (source, target) slots of those that share an equal prompt."""
        first = len(self.running)
        if not self.waiting or first == self._slots:
            return range(0), []
        prompts = self._prompts  # numbers: to hash a long prompt takes long
        holders = {prompts[response.id]: slot for slot, response in enumerate(self.running)}
        new, begun, siblings = list[Response](), list[Response](), list[Response]()
        free = room.free - max(first, room.missing([response.length + beyond for response in self.running]))
        while self.waiting and (admitted := first + len(new) + len(begun) + len(siblings)) < self._slots:
            response = self.waiting[0]
            sibling = not response.tokens and prompts[response.id] in holders
            free -= room.cost(response.length + beyond, len(response.request.prompt) if sibling else 0) + 1
            if free < 0 and admitted:
                break
            self.waiting.popleft()
            if response.tokens:
                begun.append(response)
            elif sibling:
                siblings.append(response)
            else:
                holders[prompts[response.id]] = -1
                new.append(response)
        new.sort(key=lambda response: len(response.request.prompt))  # prompts that are prefilled together are padded
        holders |= {prompts[response.id]: slot for slot, response in enumerate(new, first)}
        self.running += new + begun + siblings
        prefill = range(first, first + len(new) + len(begun))
        return prefill, [(holders[prompts[response.id]], slot) for slot, response in enumerate(siblings, prefill.stop)]

    def preempt(self, room: Room, beyond: int) -> list[tuple[int, int]] | None:
        """If ``room`` has no pages for ``beyond`` positions more of all that run, the one that is soonest written again waits again, before
        all others; a move as of ``retire``. None if it has. The longest one always runs on, and so it all comes to an end."""
        if room.missing([response.length + beyond for response in self.running]) <= room.free or len(self.running) == 1:
            return None
        slot = min(reversed(range(len(self.running))), key=lambda slot: self.running[slot].length)
        response, last = self.running[slot], self.running.pop()
        response.drafted = 0
        self.waiting.appendleft(response)
        if response is last:
            return []
        self.running[slot] = last
        return [(len(self.running), slot)]

    def abort(self, requests: Collection[int] | None) -> list[tuple[int, int]]:
        """Ends those that are among ``requests`` (ids; None for all); returns moves as ``retire`` does."""
        for response in (*self.running, *self.waiting):
            if requests is None or response.id in requests:
                response.finish = "abort"
        self.waiting = deque(response for response in self.waiting if not response.finish)
        return self.retire()

    def retire(self) -> list[tuple[int, int]]:
        """Drops the finished; the last running request takes a freed slot. Returns these moves as (source, target) slots."""
        moves = []
        for slot in range(len(self.running)):
            while self.running and self.running[-1].finish:
                self.running.pop()
            if slot < len(self.running) and self.running[slot].finish:
                self.running[slot] = self.running.pop()
                moves.append((len(self.running), slot))
        return moves
