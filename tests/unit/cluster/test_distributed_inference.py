"""What is looked up of a step's responses, by whom, and when."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from engine.cluster import distributed_inference
from engine.cluster.distributed_inference import DistributedInference
from engine.config import RunConfig, parse
from engine.policy.algorithms.credit_assignment import training_rows
from engine.policy.training.training_row import Inferred, TrainingRow
from engine.rollout.interface import Completion, Request


class Rank:
    """Answers with each row's last token; ``asked``: the first tokens of the responses and the groups of each call."""

    def __init__(self) -> None:
        self.asked: list[tuple[list[int], Sequence[int] | None]] = []
        self.infer = SimpleNamespace(remote=self._infer)

    def _infer(self, rows: Sequence[TrainingRow], groups: Sequence[int] | None) -> tuple[Inferred, ...]:
        self.asked.append(([row.tokens[row.prompt_length] for row in rows], groups))
        return tuple(Inferred(reference_logprobs=torch.tensor([float(row.tokens[-1])])) for row in rows)


class Cluster:
    """Two ranks; what they answer is there at once, unless it is ``late``."""

    def __init__(self, late: bool = False, **more: Any) -> None:
        config = parse({"algorithm": {"group_size": 2}, "cluster": {"workers": 2, "device": "cpu"}, **more})
        self.config: RunConfig = config
        self.ranks = [Rank(), Rank()]
        wait = SimpleNamespace(wait=lambda calls, **_: ([] if late else calls, calls if late else []))
        self.inference = DistributedInference(config, self.ranks, wait, list)

    def finish(self, completions: Sequence[Completion]) -> list[float | None]:
        rows = training_rows(self.config, completions)
        found = self.inference.finish(rows, [completion.request for completion in completions])
        assert found is not None
        return [None if each.reference_logprobs is None else each.reference_logprobs.item() for each in found]

    def asked(self) -> list[list[tuple[list[int], Sequence[int] | None]]]:
        return [rank.asked for rank in self.ranks]


def completion(number: int, group: int, length: int = 3, finish: str = "stop") -> Completion:
    tokens = (100 + number,) * (length - 1) + (200 + number,)
    return Completion(Request(number, group, (7, 8)), tokens, (-1.0,) * length, finish, 0, 0)  # type: ignore[arg-type]


RESPONSES = [completion(0, 0), completion(1, 0, finish="length"), completion(2, 1), completion(3, 1), completion(4, 2), completion(5, 2)]
FOUND = [200.0, None, 202.0, 203.0, 204.0, 205.0]


def test_groups_stay_together_and_what_nobody_looks_up_is_left_out() -> None:
    cluster = Cluster()
    assert cluster.finish(RESPONSES) == FOUND
    assert cluster.asked() == [[([100, 102, 103], [0, 1, 1])], [([104, 105], [2, 2])]]


def test_what_was_begun_in_the_tail_is_not_done_again() -> None:
    cluster = Cluster()
    assert cluster.inference.early
    cluster.inference.begin(1, RESPONSES[:4])
    assert cluster.finish(RESPONSES) == FOUND
    assert cluster.asked() == [[([104, 105], [2, 2])], [([100, 102, 103], [0, 1, 1]), ([], [])]]
    assert cluster.finish(RESPONSES) == FOUND, "the next step begins with nothing"
    assert cluster.asked()[0][1:] != [([], [])]


def test_a_group_is_computed_in_one_order_whichever_response_was_there_first() -> None:
    cluster = Cluster()
    cluster.inference.begin(1, [RESPONSES[index] for index in (5, 3, 4, 2)])
    assert cluster.finish(RESPONSES) == FOUND
    assert cluster.asked()[1][0] == ([102, 103, 104, 105], [1, 1, 2, 2])


@pytest.mark.parametrize("late", [False, True])
def test_who_is_still_at_it_gets_less_of_the_rest(late: bool) -> None:
    cluster = Cluster(late)
    cluster.inference.begin(0, [completion(6, 3, 40)])
    cluster.finish([*RESPONSES, completion(6, 3, 40)])
    rest = [rank[-1][0] for rank in cluster.asked()]
    assert sorted(map(len, rest)) == ([0, 5] if late else [2, 3])
    assert not (late and rest[0])


def test_where_ranks_need_each_other_all_are_asked_and_only_afterwards() -> None:
    cluster = Cluster(cluster={"workers": 2, "device": "cpu", "learner": {"parallel": "fsdp"}})
    assert not cluster.inference.early
    assert cluster.finish(RESPONSES[:1]) == [200.0]
    assert sorted(cluster.asked()) == [[([], None)], [([100], None)]]


def test_no_inference_where_nobody_needs_it() -> None:
    cluster = Cluster(algorithm={"kl_coefficient": 0.0, "group_size": 2})
    assert not cluster.inference.early
    assert cluster.inference.finish(training_rows(cluster.config, RESPONSES), [each.request for each in RESPONSES]) is None
    assert cluster.asked() == [[], []]


class Index(int):
    """``compared``: how often any was compared with another."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        Index.compared += 1
        return int(self) == other

    __hash__ = int.__hash__


@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_sharing_out_a_large_step_takes_no_square_of_its_rows(parallel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(cluster={"workers": 2, "device": "cpu", "learner": {"parallel": parallel}})
    responses = [completion(number, number // 8) for number in range(512)]
    monkeypatch.setattr(Index, "compared", 0)
    monkeypatch.setattr(distributed_inference, "looked_up", lambda _, rows: [Index(index) for index in range(len(rows))])
    assert len(cluster.finish(responses)) == len(responses)
    assert Index.compared < 20 * len(responses)
