"""Samples by the prompt that they answer, since a response is judged against its siblings."""

from collections.abc import Sequence
from dataclasses import dataclass

from longtail.schemas.telemetry import SampleItem


@dataclass(frozen=True)
class SampleGroup:
    """Responses to one prompt of one step, the best rewarded first."""

    step: int
    prompt: str
    items: tuple[SampleItem, ...]

    @property
    def rewards(self) -> Sequence[float]:
        """Of all responses to the prompt; empty where nobody told."""
        return self.items[0].group_rewards or ()

    @property
    def longest(self) -> int:
        return max(item.tokens or len(item.response) for item in self.items)


def sample_groups(items: Sequence[SampleItem], longest_first: bool = False) -> list[SampleGroup]:
    """The newest step first, or the group of the longest response. What told no place of its prompt goes by its text."""
    found: dict[tuple[int, object], list[SampleItem]] = {}
    for item in items:
        place: object = item.prompt if item.prompt_number is None else (item.prompt_number, item.prompt)
        found.setdefault((item.step, place), []).append(item)
    groups = [SampleGroup(step, members[0].prompt, tuple(sorted(members, key=_worst_last))) for (step, _), members in found.items()]
    return sorted(groups, key=lambda group: -group.longest if longest_first else -group.step)


def in_pages(groups: Sequence[SampleGroup], characters: int) -> list[list[SampleGroup]]:
    """Pages of responses of at most so many ``characters`` together; a group is on one page, alone on it if it has more."""
    pages: list[list[SampleGroup]] = []
    room = 0
    for group in groups:
        taken = sum(len(item.response) for item in group.items)
        if not pages or taken > room:
            pages.append([])
            room = characters
        pages[-1].append(group)
        room -= taken
    return pages


def _worst_last(item: SampleItem) -> float:
    return float("inf") if item.reward is None else -item.reward
