"""The queue as people see it: in which order runs are taken, and why each of them still waits."""

from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from math import floor
from typing import NamedTuple

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from backend.models import Run
from backend.models.runs import GENERATED
from backend.services.queue.free_room import FreeRoom, Wish
from backend.services.queue.gpus import taken_gpus
from backend.services.queue.scheduling import SEEN_SECONDS, QueueLimits, Room, Slots, rooms, slots
from backend.services.runs.lifecycle import CARRIED
from longtail.schemas.queue import Queue, QueuedRun, Reason

TICK_SECONDS = 0.001
UNHINDERED: frozenset[Reason] = frozenset({"next", "no_worker"})
"""Why a run waits that no other run keeps waiting, nor a limit, nor a wish of its own."""


class Queued(NamedTuple):
    """``owner`` is empty where nobody has a name."""

    run_id: str
    run_name: str
    project_id: str
    owner: str
    priority: int
    needs: str
    queued_at: float
    start_after: float | None
    gpus: int
    gpu_only: bool

    @property
    def wish(self) -> Wish:
        return Wish(self.needs, self.gpus, self.gpu_only)


@dataclass
class OwnerUsage:
    """Of an owner: when a run of theirs was taken last, and how many are under way."""

    served_at: float = 0.0
    under_way: int = 0


@dataclass(frozen=True)
class Capacity:
    """What there is for queued runs: workers, GPUs that are taken, and who has how many runs under way."""

    rooms: Sequence[Room] = ()
    turns: Mapping[str, OwnerUsage] = field(default_factory=dict)
    limits: QueueLimits = field(default_factory=QueueLimits)
    taken: Set[str] = frozenset()

    @property
    def active(self) -> int:
        return sum(turn.under_way for turn in self.turns.values())


def waiting_runs(session: Session, projects: Collection[str], limits: QueueLimits, limit: int, now: float) -> Queue:
    """The first ``limit`` queued runs of ``projects``. The places are those among the runs of all projects."""
    runs, room = _queued(session), _capacity(session, limits, now)
    shown = [each for each in positions(runs, room, now) if each[0].project_id in projects]
    everywhere = slots(room.rooms).get("", Slots(0, 0))
    return Queue(
        items=[_reply(*each) for each in shown[:limit]],
        total=len(runs),
        active=room.active,
        slots=everywhere.total,
        free=everywhere.free,
        max_active=limits.active,
        max_active_per_owner=limits.active_per_owner,
        aging_seconds=limits.aging_seconds,
    )


def stuck_seconds(session: Session, limits: QueueLimits, now: float) -> float:
    """How long the oldest queued run has waited that a worker could have taken at once, or that no living worker may ever take; 0: none."""
    found = positions(_queued(session), _capacity(session, limits, now), now)
    return max((now - run.queued_at for run, _, reason in found if reason in UNHINDERED), default=0.0)


def positions(runs: Iterable[Queued], room: Capacity, now: float) -> list[tuple[Queued, int | None, Reason]]:
    """Each run with its place and why it waits; those that no worker could take now come last, without a place."""
    free = FreeRoom(room.rooms, room.taken)
    barred: list[tuple[Queued, int | None, Reason]] = []
    able: list[Queued] = []
    for run in sorted(runs, key=lambda run: (run.queued_at, run.run_id)):
        if run.run_id.endswith(GENERATED):
            barred.append((run, None, "generated"))
        elif run.start_after is not None and run.start_after > now:
            barred.append((run, None, "time"))
        elif not free.able(run.wish):
            barred.append((run, None, "no_worker"))
        else:
            able.append(run)
    order = ordered(able, room.turns, room.limits.aging_seconds, now)
    return [*zip(order, range(1, len(order) + 1), _reasons(order, room, free), strict=True), *barred]


def ordered(runs: Iterable[Queued], turns: Mapping[str, OwnerUsage], aging_seconds: float, now: float) -> list[Queued]:
    """As workers that may carry any of them take them one after the other, while none ends: what scheduling.next_run says each time."""

    def aged(priority: int, since: float) -> int:
        return priority + floor((now - since) / aging_seconds)

    lines: dict[str, deque[Queued]] = {}
    for run in sorted(runs, key=lambda run: (-aged(run.priority, run.queued_at), run.queued_at, run.run_id)):
        lines.setdefault(run.owner, deque()).append(run)
    taken = {owner: OwnerUsage(turn.served_at, turn.under_way) for owner, turn in turns.items()}

    def rank(owner: str) -> tuple[float, ...]:
        first, turn = lines[owner][0], taken.setdefault(owner, OwnerUsage())
        return -aged(first.priority, max(first.queued_at, turn.served_at)), turn.under_way, turn.served_at, first.queued_at

    order: list[Queued] = []
    while lines:
        owner = min(lines, key=lambda owner: (rank(owner), lines[owner][0].run_id))
        order.append(lines[owner].popleft())
        taken[owner] = OwnerUsage(now, taken[owner].under_way + 1)
        now += TICK_SECONDS
        if not lines[owner]:
            del lines[owner]
    return order


def _reasons(order: Sequence[Queued], room: Capacity, free: FreeRoom) -> Iterator[Reason]:
    """Fills the free room in this order."""
    active, mine = room.active, Counter({owner: turn.under_way for owner, turn in room.turns.items()})
    for run in order:
        if room.limits.active and active >= room.limits.active:
            yield "limit"
        elif room.limits.active_per_owner and mine[run.owner] >= room.limits.active_per_owner:
            yield "owner_limit"
        else:
            reason = free.take(run.wish)
            active, mine[run.owner] = active + (reason == "next"), mine[run.owner] + (reason == "next")
            yield reason


def _queued(session: Session) -> list[Queued]:
    wishes = (Run.priority, Run.needs, Run.queued_at, Run.start_after, Run.gpus, Run.gpu_only)
    columns = (Run.id, Run.name, Run.project_id, func.coalesce(Run.owner, ""), *wishes)
    return [Queued._make(row) for row in session.execute(select(*columns).where(Run.state == "queued"))]


def _capacity(session: Session, limits: QueueLimits, now: float) -> Capacity:
    return Capacity(rooms(session, now - SEEN_SECONDS), _turns(session), limits, taken_gpus(session))


def _turns(session: Session) -> dict[str, OwnerUsage]:
    owner = func.coalesce(Run.owner, "")
    served = session.execute(select(owner, func.max(Run.claimed_at)).where(Run.claimed_at.is_not(None)).group_by(owner))
    turns = {name: OwnerUsage(at or 0.0) for name, at in served}
    for name, number in session.execute(select(owner, func.count()).where(CARRIED).group_by(owner)):
        turns.setdefault(name, OwnerUsage()).under_way = number
    return turns


def _reply(run: Queued, place: int | None, reason: Reason) -> QueuedRun:
    return QueuedRun.model_validate({**run._asdict(), "owner": run.owner or None, "place": place, "reason": reason})
