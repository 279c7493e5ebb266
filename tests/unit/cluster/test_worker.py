"""One worker by itself: what it learnt about speculation is part of a checkpoint."""

import json
import socket
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pytest
import torch
import torch.distributed as dist
from transformers import AutoConfig

from engine.cluster.cache_lending import CacheLending
from engine.cluster.worker import Worker
from engine.config import DrafterConfig, RunConfig, parse
from engine.drafter.data_buffer import HELD_OUT_EVERY, bytes_per_token, group_of, most_bytes
from engine.drafter.export import load_drafter_folder
from engine.drafter.kind import RECIPE_KINDS, drafter_kind
from engine.drafter.model_card import DrafterCard
from engine.models.load import load_model
from engine.policy.training.training_row import TrainingRow
from engine.pretraining.schedule import PretrainingSchedule
from engine.rollout.interface import Completion, PartialResponse, Request, Sampling

REQUESTS = [Request(index, index // 2, tuple(range(3, 13))) for index in range(4)]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LONGTAIL_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def config(model: Path, **speculation: Any) -> RunConfig:
    return parse(
        {
            "model": {"path": str(model)},
            "rollout": {"max_batch": 2, "max_prompt_tokens": 16},
            "speculation": {"strategies": [{"depth": 2, "verify": 2}, {"depth": 2, "top_k": 2, "verify": 3}], **speculation},
            "drafter": {"path": None},
            "cluster": {"workers": 1, "device": "cpu"},
        }
    )


def saved(worker: Worker, folder: Path) -> dict[str, Any]:
    folder.mkdir()
    worker.stage()
    worker.write(folder)
    assert not worker._staged, "the copies of the drafter and its moments are not kept until the next checkpoint"
    versions: dict[str, Any] = json.loads((folder / "engine_0.json").read_text())
    return versions


def test_what_speculation_learnt_survives_a_checkpoint(random_model: Path, tmp_path: Path, home: Path) -> None:
    first = Worker(0, config(random_model), "")
    first.measure_costs()
    untaught = saved(first, tmp_path / "before")
    first.rollout(0, REQUESTS, Sampling(max_new_tokens=24))
    learnt = saved(first, tmp_path / "after")
    assert set(learnt["speculation"]) >= {"tuner", "watchdog", "lengths", "gate"}
    assert learnt["speculation"]["tuner"] != untaught["speculation"]["tuner"]
    (table,) = (home / "costs").iterdir()
    measured = table.stat().st_mtime_ns
    second = Worker(0, config(random_model), "")
    second.measure_costs()
    assert second.load(tmp_path / "after") == 0
    assert saved(second, tmp_path / "again") == learnt
    assert len(second.answer(REQUESTS, Sampling(max_new_tokens=24)).completions) == len(REQUESTS)
    evaluated = saved(second, tmp_path / "evaluated")["speculation"]
    own = {"evaluation_watchdog": None, "texts": None}
    assert evaluated | own == learnt["speculation"] | own, "an evaluation teaches nothing"
    assert (list((home / "costs").iterdir()), table.stat().st_mtime_ns) == ([table], measured), "measured once"


@pytest.mark.usefixtures("home")
def test_how_far_the_target_has_moved_from_the_drafter_survives_a_checkpoint(random_model: Path, tmp_path: Path) -> None:
    rows = [TrainingRow((3, 4, 5, 6), 2, 1.0, (-1.0, -1.0))]
    straight, resumed = Worker(0, config(random_model), ""), Worker(0, config(random_model), "")
    straight.learn(rows, straight.infer(rows), 0)
    saved(straight, tmp_path / "saved")
    resumed.load(tmp_path / "saved")
    drifts = [worker.learn(rows, worker.infer(rows), 1).drift for worker in (straight, resumed)]
    assert drifts[0] == drifts[1] > 0


def test_a_group_can_be_had_as_soon_as_it_is_complete(random_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Worker(0, config(random_model), "")
    finished, groups = worker._early_stop.finished, list[list[Completion]]()

    def told(completion: Completion) -> None:
        finished(completion)
        groups.append(worker.complete_group(0, ()))

    monkeypatch.setattr(worker._early_stop, "finished", told)
    share = worker.rollout(0, REQUESTS, Sampling(max_new_tokens=24))
    assert groups[0] == []
    assert sorted(groups[-1], key=lambda completion: completion.request.id) == share.completions[:2]
    assert worker.complete_group(0, ()) == [], "its share is told as a whole"


def test_the_learners_passes_show_the_drafter_what_an_engine_like_sglang_does_not(
    random_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = Worker(0, config(random_model, tuner={"name": "fixed"}, suffix={"enabled": False}), "")
    worker._captures = True
    monkeypatch.setattr(worker, "_keeps_features", False)
    requests = [Request(index, index, (3 + index, 5, 7)) for index in range(4)]
    share = worker.rollout(0, requests, Sampling(max_new_tokens=24))
    assert worker.train_drafter(0) is None, "nothing is known of the responses yet"
    found = [(len(each.request.prompt), (*each.request.prompt, *each.tokens), each.logprobs) for each in share.completions]
    rows = [TrainingRow(tokens, prompt, 1.0, logprobs) for prompt, tokens, logprobs in found]
    worker.learn(rows, worker.infer(rows), 0)
    session = worker.train_drafter(0)
    assert session
    assert session.report.microsteps > 0


@pytest.mark.parametrize("recipe", ["eagle", "hass", "eagle3"])
def test_a_drafter_of_every_recipe_is_trained_published_saved_and_exported(random_model: Path, tmp_path: Path, recipe: str) -> None:
    asked = config(random_model, tuner={"name": "fixed"}, suffix={"enabled": False})
    asked = asked.model_copy(update={"drafter": DrafterConfig(path=None, recipe=recipe)})
    worker = Worker(0, asked, "")
    requests = [Request(index, index, (3 + index, 5, 7)) for index in range(4)]
    worker.rollout(0, requests, Sampling(max_new_tokens=24))
    session = worker.train_drafter(0)
    assert session
    assert session.report.microsteps > 0
    weights = worker.drafter_weights()
    worker.publish(weights, 1)
    assert worker.spot
    worker.spot._buffer.limit = 5000
    share, again = (worker.rollout(step, requests, Sampling(max_new_tokens=24)) for step in (1, 2))
    assert ([code for code, _ in share.statistics.alarms], again.statistics.alarms) == (["response_shortened"], [])
    assert {completion.drafter_version for completion in share.completions} == {1}
    assert share.statistics.drafted_by_position[0] > 0
    saved(worker, tmp_path / "saved")
    other = Worker(0, asked, "")
    assert other.load(tmp_path / "saved") == 1
    _, folder = other.export(tmp_path / "export", DrafterCard("random", "test", 1))
    kind = RECIPE_KINDS[recipe]
    assert drafter_kind(folder) == kind
    exported = load_drafter_folder(folder, AutoConfig.from_pretrained(random_model), kind)
    assert all(torch.equal(exported[name], weight) for name, weight in weights.items())


def pretraining_worker(model: Path) -> Worker:
    asked = config(model, tuner={"name": "fixed"}, suffix={"enabled": False})
    return Worker(0, asked.model_copy(update={"drafter": DrafterConfig(path=None, pretrain_minutes=1)}), "")


def test_a_pretraining_has_the_buffers_share_of_memory_and_tells_what_did_not_fit(
    random_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container's limit is below what the machine has."""
    monkeypatch.setattr("engine.cluster.host_memory.total", lambda: 4 * 2**30)
    worker = pretraining_worker(random_model)
    assert worker.spot
    assert worker.spot._buffer.limit == most_bytes(4 * 2**30) == 2**29
    worker.spot._buffer.limit = 3 * 27 * bytes_per_token(worker._model_config.hidden_size)
    requests = [Request(index, index, (3 + index, 5, 7)) for index in range(8)]
    first, again = (worker.pretrain(number, requests, Sampling(max_new_tokens=24), None, 60.0) for number in (0, 1))
    kept = worker.spot._buffer.since(0)
    assert (again.responses, again.response_tokens) == (3, sum(entry.response for entry in kept)) == (len(kept), again.response_tokens)
    assert (first.dropped, again.dropped) == (True, True)
    ((code, message),) = first.alarms
    assert (code, "5 responses were dropped" in message, again.alarms) == ("responses_dropped", True, ())
    written = worker.answer(requests, Sampling(max_new_tokens=24)).completions
    taught = [each for each in written if group_of(torch.tensor(each.request.prompt)) % HELD_OUT_EVERY]
    assert worker.token_counts() == Counter(token for each in taught for token in (*each.request.prompt, *each.tokens)), "dropped or not"


def test_tokens_of_given_responses_are_not_counted_again(random_model: Path) -> None:
    """Whoever gives them has counted all of them."""
    worker = pretraining_worker(random_model)
    requests = [Request(index, index, (3 + index, 5, 7), PartialResponse((2, 4, 6))) for index in range(8)]
    assert worker.pretrain(0, requests, Sampling(), None, 60.0).responses == 8
    assert not worker.token_counts()


def test_the_first_responses_of_a_pretraining_end_in_time(random_model: Path) -> None:
    """Two are written at once, and the time is over at once: hardly any others than the first 8 are begun."""
    worker = pretraining_worker(random_model)
    requests = [Request(index, index, (3 + index, 5, 7)) for index in range(20)]
    written = worker.pretrain(0, requests, Sampling(max_new_tokens=6), None, 0.0)
    assert 8 <= written.responses < 20
    assert written.response_tokens == 6 * written.responses
    worker.begin_pretraining(None)
    assert worker.pretrain(1, requests, Sampling(max_new_tokens=6), PretrainingSchedule(60.0), 0.0).responses == 20
    assert not worker.pretrain(2, [], Sampling(), PretrainingSchedule(60.0), 0.0).dropped
    late = worker.pretrain(2, requests, Sampling(max_new_tokens=6), PretrainingSchedule(60.0, spent=60.0), 0.0)
    assert 8 <= late.responses < 20, "later ones end with the time, too"


def test_a_plain_worker_measures_and_saves_nothing_of_speculation(random_model: Path, tmp_path: Path, home: Path) -> None:
    plain = Worker(0, config(random_model, enabled=False), "")
    share = plain.rollout(0, REQUESTS[:1], Sampling(max_new_tokens=4))
    assert [moment[1:] for moment in share.statistics.moments[plain.rank]] == [(1, "off"), (0, "off")]
    assert plain.usage()[0] == socket.gethostname()
    assert saved(plain, tmp_path / "plain") == {"target": 0, "drafter": 0, "speculation": None}
    plain.load(tmp_path / "plain")
    assert not home.exists()


def test_other_tuners_measure_nothing(random_model: Path, home: Path) -> None:
    Worker(0, config(random_model, tuner={"name": "beg"}), "")
    assert not home.exists()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_checksum_is_of_every_bit_of_the_policy(random_model: Path, dtype: Literal["float32", "bfloat16"]) -> None:
    """Also where the engine rounds the difference away."""
    asked = config(random_model, tuner={"name": "fixed"})
    worker = Worker(0, asked.model_copy(update={"model": asked.model.model_copy(update={"dtype": dtype})}), "")
    before = worker.learn([], None, 0)
    worker.policy.weights()["model.norm.weight"].view(torch.int32)[0] ^= 1
    after = worker.learn([], None, 1)
    assert after.checksum != before.checksum
    assert before.loaded_weights is not None
    assert after.loaded_weights is not None
    assert (after.loaded_weights.target != before.loaded_weights.target) == (dtype == "float32")


@pytest.fixture
def rendezvous(tmp_path: Path) -> Iterator[str]:
    """For a worker that needs a process group; it is left afterwards."""
    yield f"file://{tmp_path}/rendezvous"
    if dist.is_initialized():
        dist.destroy_process_group()


@pytest.mark.parametrize("recipe", ["eagle", "eagle3"])
def test_a_worker_with_shards_does_what_one_with_the_whole_policy_does(
    random_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rendezvous: str, recipe: str
) -> None:
    data = config(random_model, tuner={"name": "fixed"}, suffix={"enabled": False}).model_dump()
    asked = parse(data | {"drafter": {"path": None, "recipe": recipe}})
    sharded = parse(asked.model_dump() | {"cluster": {"workers": 1, "device": "cpu", "learner": {"parallel": "fsdp", "cpu_offload": True}}})
    whole, shards = Worker(0, asked, ""), Worker(0, sharded, rendezvous)
    assert shards.facts() == whole.facts()
    rows = [TrainingRow((3, 4, 5, 6), 2, advantage, (-5.0, -5.0)) for advantage in (1.0, -0.5)]
    requests = [Request(index, index, (3 + index, 5, 7)) for index in range(4)]
    shares = []
    for worker in (whole, shards):
        rollout = worker.rollout(0, requests, Sampling(max_new_tokens=24))
        session = worker.train_drafter(0)
        assert session
        assert session.report.microsteps > 0
        shares.append((rollout.completions, worker.learn(rows, worker.infer(rows), 0)))
        with monkeypatch.context() as of_a_publication:  # of which a worker's further GPUs are not told
            of_a_publication.setattr(worker.policy, "weights", None)
            worker.keep()
    (expected, replica), (found, shard) = shares
    assert [completion.tokens for completion in found] == [completion.tokens for completion in expected]
    assert shard.metrics == pytest.approx(replica.metrics, abs=1e-5)
    assert shard.drift == pytest.approx(replica.drift, rel=1e-3)
    saved(shards, tmp_path / "saved")
    shards.learn(rows, shards.infer(rows), 1)
    assert shards.load(tmp_path / "saved") == 0
    assert shards.engine.loaded_weights() == shard.loaded_weights
    policy, _ = shards.export(tmp_path / "export", DrafterCard("random", "test", 1))
    exported = load_model(policy, torch.float32)
    for name, weight in whole.policy.weights().items():
        torch.testing.assert_close(exported.get_parameter(name).detach(), weight, atol=1e-5, rtol=0)


@pytest.mark.parametrize(("advantage", "released"), [(1.0, 1), (0.0, 3)])
@pytest.mark.usefixtures("home")
def test_a_cache_stays_once_an_update_has_told_what_it_needs(
    random_model: Path, monkeypatch: pytest.MonkeyPatch, advantage: float, released: int
) -> None:
    """On a GPU; here of one whose memory never ends, which an update without a row that teaches does not tell."""
    settings = config(random_model).model_dump(mode="json")
    worker = Worker(0, parse(settings | {"algorithm": {"kl_coefficient": 0.0}}), "")
    memory, done = SimpleNamespace(free=lambda: 2**60, used=int, most_used=lambda: 2**20, forget=int), list[str]()
    monkeypatch.setattr(worker, "_lending", CacheLending(worker.engine, memory, 2048))
    monkeypatch.setattr(worker.engine, "release", partial(done.append, "release"))
    rows = [TrainingRow((3, 4, 5, 6), 2, advantage, (-1.0, -1.0))]
    for step in range(3):
        worker.rollout(step, REQUESTS, Sampling(max_new_tokens=4))
        worker.learn(rows, worker.infer(rows), step)
    assert done == ["release"] * released


@pytest.mark.usefixtures("home")
def test_an_update_has_threads_of_its_own(random_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = config(random_model).model_dump(mode="json")
    settings["cluster"]["learner"]["threads"] = 2
    worker, used = Worker(0, parse(settings), ""), list[int]()
    update = worker.learner.update

    def watched(*given: Any) -> Any:
        used.append(torch.get_num_threads())
        return update(*given)

    monkeypatch.setattr(worker.learner, "update", watched)
    rows = [TrainingRow(tuple(range(3, 19)), 10, advantage, (-1.0,) * 6) for advantage in (1.0, -1.0)]
    worker.learn(rows, worker.infer(rows), 0)
    assert (used, torch.get_num_threads()) == ([2], 1)
