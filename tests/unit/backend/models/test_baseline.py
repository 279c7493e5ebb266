import pytest

from backend.models.baseline import confounders, is_plain, likeness
from engine.config import RunConfig

TLT = RunConfig(name="tlt").model_dump(mode="json")
PLAIN = TLT | {"name": "plain", "speculation": TLT["speculation"] | {"enabled": False}}


def test_name_switch_and_number_of_steps_do_not_tell_runs_apart() -> None:
    assert likeness(TLT | {"algorithm": TLT["algorithm"] | {"steps": 7}}) == likeness(TLT)
    assert likeness(PLAIN) == likeness(TLT) == likeness(dict(reversed(PLAIN.items())))
    others: list[dict[str, object]] = [
        {"seed": 1},
        {"algorithm": TLT["algorithm"] | {"group_size": 2}},
        {"speculation": TLT["speculation"] | {"threshold": 3}},
        {"speculation": {}},
    ]
    for other in others:
        assert likeness(TLT | other) != likeness(TLT)


def test_what_is_trained_is_not_how_it_is_trained() -> None:
    how = ["cluster.workers", "cluster.learner.parallel", "speculation.enabled", "rollout.max_batch"]
    what = ["cluster.learner.lora", "cluster.learner.lora.rank", "model.path", "rollout.max_new_tokens"]
    assert confounders([*how, *what]) == what


@pytest.mark.parametrize(
    ("config", "plain"),
    [(TLT, False), (PLAIN, True), ({}, False), ({"speculation": "mine"}, False), ({"speculation": {"enabled": False}}, True)],
)
def test_speculation_is_on_unless_turned_off(config: dict[str, object], plain: bool) -> None:
    assert is_plain(config) == plain
    assert len(likeness(config)) == 16
