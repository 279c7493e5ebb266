"""Groups of responses that were begun and not learned from: what a step hands on to the next. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from pydantic import TypeAdapter

from engine.rollout.interface import NOT_BEGUN, Completion, Finish, PartialResponse, Request


@dataclass(frozen=True)
class Member:
    """One response as far as it is; ``finish`` and the drafter's version at its end, if that is reached."""

    begun: PartialResponse = NOT_BEGUN
    finish: Finish | None = None
    drafter_version: int = 0


@dataclass(frozen=True)
class Group:
    """The responses to the prompt at ``position`` of all that the task gives."""

    position: int
    members: tuple[Member, ...]

    @property
    def complete(self) -> bool:
        return all(member.finish for member in self.members)

    def requests(self, group: int, prompt: tuple[int, ...]) -> list[Request]:
        """Those of its members; their ids, which seed the sampling, are the same in every step."""
        first = self.position * len(self.members)
        return [Request(first + index, group, prompt, member.begun) for index, member in enumerate(self.members)]

    def open_requests(self, group: int, prompt: tuple[int, ...]) -> list[Request]:
        """Those of members that have not reached their end."""
        return [request for request, member in zip(self.requests(group, prompt), self.members, strict=True) if not member.finish]

    def completions(self, group: int, prompt: tuple[int, ...]) -> list[Completion]:
        """Those of members that have reached their end, as if they had done so now."""
        pairs = zip(self.requests(group, prompt), self.members, strict=True)
        return [_completion(request, member) for request, member in pairs if member.finish]

    def after(self, completions: Sequence[Completion]) -> "Group":
        """With what a rollout has made of its members."""
        return replace(self, members=tuple(_member(completion) for completion in completions))

    def updated(self, found: Mapping[int, Completion]) -> "Group":
        """As ``after``, with completions by their requests' ids; members without one stay as they are."""
        first = self.position * len(self.members)
        members = (_member(found[index]) if index in found else member for index, member in enumerate(self.members, first))
        return replace(self, members=tuple(members))


_GROUPS = TypeAdapter(list[Group])


class Backlog:
    """Groups to begin a step with, in the order in which they were begun. ``position`` is that of the next new prompt."""

    def __init__(self, size: int, limit: int) -> None:
        """``size`` responses to a prompt, of at most ``limit`` tokens."""
        self._size, self._limit = size, limit
        self.position = 0
        self.groups: list[Group] = []

    def take(self, count: int) -> list[Group]:
        """``count`` groups, those begun before first."""
        new = range(self.position, self.position + max(0, count - len(self.groups)))
        taken = self.groups + [self._new(position) for position in new]
        self.position, self.groups = new.stop, []
        return taken

    def take_until(self, start: int, stop: int) -> list[Group]:
        """The groups at the positions from ``start`` to ``stop``. Others are forgotten: a run has some that is resumed with less ahead, or
        after steps without any."""
        begun = {group.position: group for group in self.groups}
        self.position, self.groups = stop, []
        return [begun.get(position) or self._new(position) for position in range(start, stop)]

    def update(self, completions: Sequence[Completion]) -> None:
        """Its groups are as far as ``completions``."""
        found = {completion.request.id: completion for completion in completions}
        self.groups = [group.updated(found) for group in self.groups]

    def _new(self, position: int) -> Group:
        return Group(position, (Member(),) * self._size)

    @property
    def begun(self) -> int:
        """Responses that have tokens."""
        return sum(bool(member.begun.tokens) for group in self.groups for member in group.members)

    def state(self) -> dict[str, Any]:
        """For a checkpoint; plain JSON values."""
        return {"position": self.position, "groups": [asdict(group) for group in self.groups]}

    def load_state(self, state: dict[str, Any]) -> None:
        """Groups that the run would not have begun so, by another size or a lower limit, begin anew."""
        found = _GROUPS.validate_python(state["groups"])
        self.position = state["position"]
        self.groups = [group if self._fits(group) else self._new(group.position) for group in found]

    def _fits(self, group: Group) -> bool:
        within = (len(member.begun.tokens) < self._limit + bool(member.finish) for member in group.members)
        return len(group.members) == self._size and all(within)


def _completion(request: Request, member: Member) -> Completion:
    assert member.finish
    begun = member.begun
    return Completion(request, begun.tokens, begun.logprobs, member.finish, begun.spans[-1][0], member.drafter_version)


def _member(completion: Completion) -> Member:
    finish = None if completion.finish == "abort" else completion.finish
    return Member(PartialResponse(completion.tokens, completion.logprobs, completion.spans), finish, completion.drafter_version)
