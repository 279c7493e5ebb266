import json
import multiprocessing
from concurrent.futures import ProcessPoolExecutor

import pytest
from sqlalchemy import inspect, select, text

from backend.database import Database
from backend.migrate import at_head, check, downgrade, upgrade
from backend.models import Artifact, Base, Delivery, IdempotencyKey, Membership, MetricBlock, Project, Run, RunValue, Sample, Webhook
from backend.models.baseline import likeness
from backend.services.runs.overviews import partners
from backend.services.runs.pairing import BATCH
from backend.services.telemetry.metric_series import metric_keys
from backend.settings import Settings
from engine.config import RunConfig, SpeculationConfig
from longtail.schemas.projects import DEFAULT_PROJECT

INSERT_RUN = """
INSERT INTO runs (id, name, state, config, seed, tags, created_at, cancel_requested, step, steps, summary, attempt, losses,
                  events_seq, events_offset)
VALUES ('aaaaaaaaaaaaaaaa', 'old', 'queued', '{}', 0, '[]', 5.0, false, 0, 1, '{}', 1, 0, -1, 0)
"""
INSERT_METRICS = """
INSERT INTO metrics (run_id, key, step, value)
VALUES ('aaaaaaaaaaaaaaaa', 'loss', 3, 2.5), ('aaaaaaaaaaaaaaaa', 'loss', 63, null), ('aaaaaaaaaaaaaaaa', 'loss', 64, 1.5)
"""
INSERT_ATTEMPT = """
INSERT INTO attempts (run_id, number, worker_id, state, started_at) VALUES ('aaaaaaaaaaaaaaaa', 1, 'bbbbbbbbbbbbbbbb', 'running', 6.0)
"""
INSERT_SAMPLE = """
INSERT INTO samples (run_id, seq, step, prompt, response, reward) VALUES ('aaaaaaaaaaaaaaaa', 7, 3, '1 + 1', '2', 1.0)
"""
INSERT_KEY = """
INSERT INTO idempotency_keys (key, body_sha256, run_id, created_at) VALUES ('k', 'x', 'aaaaaaaaaaaaaaaa', 5.0)
"""
INSERT_USER = "INSERT INTO users (id, name, role, disabled, created_at) VALUES ('cccccccccccccccc', 'anna', 'editor', false, 7.0)"
INSERT_ARTIFACT = """
INSERT INTO artifacts (id, run_id, name, type, path, bytes, sha256, details, created_at)
VALUES (:id, 'aaaaaaaaaaaaaaaa', 'drafter', 'drafter', :path, 1, 'x', '{}', :created_at)
"""


def tables(database: Database) -> set[str]:
    return set(inspect(database.writer).get_table_names())


def test_up_check_down_up(bare_database: Database) -> None:
    database = bare_database
    assert not at_head(database)
    upgrade(database)
    assert at_head(database)
    check(database)
    assert set(Base.metadata.tables) <= tables(database)
    downgrade(database)
    assert tables(database) & set(Base.metadata.tables) == set()
    upgrade(database)
    check(database)


def migrate(url: str) -> bool:
    database = Database(url)
    upgrade(database)
    done = at_head(database)
    database.close()
    return done


def test_several_processes_may_migrate_at_once(settings: Settings, bare_database: Database) -> None:  # noqa: ARG001 - it has to be there
    """As the replicas of an API do that start together."""
    with ProcessPoolExecutor(3, multiprocessing.get_context("fork")) as pool:
        assert list(pool.map(migrate, [settings.database] * 3)) == [True] * 3


def test_rows_live_through_every_step_down_and_up(bare_database: Database) -> None:
    """Children too: SQLite would delete an attempt with the run's table, were that made anew."""
    database = bare_database
    upgrade(database, "0001")
    with database.write() as session:
        session.execute(text(INSERT_RUN))
        session.execute(text(INSERT_ATTEMPT))
        for number in (2, 1):
            session.execute(text(INSERT_ARTIFACT), {"id": f"{number:016d}", "path": f"{number}.zip", "created_at": number})
        session.execute(text(INSERT_METRICS))
        session.execute(text(INSERT_SAMPLE))
    for revision in ("0003", "head", "0001", "head"):
        (upgrade if revision != "0001" else downgrade)(database, revision)
        with database.read() as session:
            assert session.execute(text("SELECT id, name FROM runs")).all() == [("a" * 16, "old")]
            assert session.execute(text("SELECT run_id, number FROM attempts")).all() == [("a" * 16, 1)]
            assert session.scalar(text("SELECT count(*) FROM artifacts")) == 2
    with database.read() as session:
        run = session.get_one(Run, "a" * 16)
        assert (run.queued_at, run.priority, run.needs, run.pause_requested, run.kind) == (5.0, 0, "", False, "engine")
        assert [(key.points, key.first_step, key.last_step, key.value) for key in metric_keys(session, run.id)] == [(3, 3, 64, 1.5)]
        block = session.get_one(MetricBlock, (run.id, "loss", 0))
        assert (block.first_step, block.points, block.numbers, block.low, block.high, block.total) == (3, 2, 1, 2.5, 2.5, 2.5)
        assert (run.checkpoint_step, run.lost_step) == (-1, -1)
        assert (run.plain, run.likeness) == (False, likeness({}))
        sample = session.get_one(Sample, (run.id, 7))
        assert (sample.response, sample.pieces) == ("2", None)
        found = session.scalars(select(Artifact).order_by(Artifact.version)).all()
        assert [(row.id[-1], row.version, row.stored, row.missing) for row in found] == [("1", 1, False, False), ("2", 2, False, False)]


def test_what_was_there_joins_the_default_project_and_can_be_found(bare_database: Database) -> None:
    database = bare_database
    upgrade(database, "0005")
    config = '{"seed": 3, "model": {"path": "tiny"}, "drafter": {"path": null}, "speculation": {"enabled": true, "arms": [1, "a"]}}'
    summary = '{"kl": null, "reward_mean": 0.5}'
    with database.write() as session:
        session.execute(text(INSERT_RUN))
        changes = f"config = '{config}', summary = '{summary}', tags = '[\"old\"]'"
        session.execute(text(f"UPDATE runs SET {changes}"))
        session.execute(text(INSERT_USER))
    upgrade(database)
    with database.read() as session:
        assert session.scalars(select(Project.id)).all() == [DEFAULT_PROJECT] == [session.get_one(Run, "a" * 16).project_id]
        membership = session.get_one(Membership, ("c" * 16, DEFAULT_PROJECT))
        assert membership.role == "editor"
        found = session.execute(select(RunValue.field, RunValue.text, RunValue.number).order_by(RunValue.field)).all()
    assert {tuple(row) for row in found} == {
        ("config.drafter.path", "null", None),
        ("config.model.path", "tiny", None),
        ("config.seed", "3", 3.0),
        ("config.speculation.arms", '[1, "a"]', None),
        ("config.speculation.enabled", "true", None),
        ("summary.kl", "null", None),
        ("summary.reward_mean", "0.5", 0.5),
        ("tags.old", "", None),
    }


def test_a_kl_that_was_not_measured_becomes_null_and_the_latest_rewards_are_summed_up(bare_database: Database) -> None:
    upgrade(bare_database, "0018")
    config, summary = '{"algorithm": {"kl_coefficient": 0.0, "steps": 9}}', '{"kl": 0.0, "reward_mean": 0.75}'
    with bare_database.write() as session:
        session.execute(text(INSERT_RUN))
        session.execute(text("UPDATE runs SET config = :config, summary = :summary"), {"config": config, "summary": summary})
        points = [("kl", 0, 0.0), ("reward_mean", 0, 0.25), ("reward_mean", 1, 0.75)]
        for key, step, value in points:
            row = {"key": key, "step": step, "value": value}
            session.execute(text("INSERT INTO metrics (run_id, key, step, value) VALUES ('aaaaaaaaaaaaaaaa', :key, :step, :value)"), row)
        session.execute(text("INSERT INTO run_values (field, run_id, text, number) VALUES ('summary.kl', 'aaaaaaaaaaaaaaaa', '0.0', 0.0)"))
    upgrade(bare_database)
    with bare_database.read() as session:
        run = session.get_one(Run, "a" * 16)
        assert run.summary == {"kl": None, "reward_mean": 0.75, "reward_recent": 0.5, "reward_spread": 0.125**0.5}
        assert run.likeness == likeness({"algorithm": {"kl_coefficient": 0.0}})
        values = session.execute(select(RunValue.field, RunValue.number).order_by(RunValue.field)).all()
        assert [tuple(row) for row in values] == [
            ("summary.kl", None),
            ("summary.reward_recent", 0.5),
            ("summary.reward_spread", 0.125**0.5),
        ]
        assert session.scalar(text("SELECT value FROM metrics WHERE key = 'kl'")) is None
    downgrade(bare_database, "0018")
    upgrade(bare_database)


def test_runs_from_before_are_sorted_by_the_means_of_their_latest_steps(bare_database: Database) -> None:
    upgrade(bare_database, "0021")
    summary = {"step_seconds": 9.0, "accept_length": 3.5}
    with bare_database.write() as session:
        session.execute(text(INSERT_RUN))
        session.execute(text("UPDATE runs SET summary = :summary"), {"summary": json.dumps(summary)})
        for step in range(12):
            row = {"step": step, "value": float(step)}
            session.execute(
                text("INSERT INTO metrics (run_id, key, step, value) VALUES ('aaaaaaaaaaaaaaaa', 'step_seconds', :step, :value)"), row
            )
    upgrade(bare_database)
    with bare_database.read() as session:
        recent = {"step_seconds_recent": 6.5, "accept_recent": 3.5}
        assert session.get_one(Run, "a" * 16).summary == summary | recent
        found = session.execute(select(RunValue.field, RunValue.number)).all()
        assert {tuple(row) for row in found} == {(f"summary.{key}", mean) for key, mean in recent.items()}
    downgrade(bare_database, "0021")
    with bare_database.read() as session:
        assert json.loads(session.scalars(text("SELECT CAST(summary AS TEXT) FROM runs")).one()) == summary
        assert session.scalar(text("SELECT COUNT(*) FROM run_values")) == 0
    upgrade(bare_database)


def test_a_script_may_have_called_its_own_figures_as_the_means_are_called(bare_database: Database) -> None:
    upgrade(bare_database, "0021")
    summary = {"step_seconds": 9.0, "step_seconds_recent": 1.0}
    with bare_database.write() as session:
        session.execute(text(INSERT_RUN))
        session.execute(text("UPDATE runs SET kind = 'tracked', finished_at = 1.0, summary = :summary"), {"summary": json.dumps(summary)})
        own = "INSERT INTO run_values (field, run_id, text, number) VALUES ('summary.step_seconds_recent', 'aaaaaaaaaaaaaaaa', '1.0', 1.0)"
        session.execute(text(own))
    upgrade(bare_database)
    with bare_database.read() as session:
        assert session.get_one(Run, "a" * 16).summary == summary | {"step_seconds_recent": 9.0}
        assert session.execute(select(RunValue.field, RunValue.number)).all() == [("summary.step_seconds_recent", 9.0)]


def test_a_run_from_before_a_setting_finds_its_twin_from_after_it(bare_database: Database) -> None:
    upgrade(bare_database)
    twins = [RunConfig(speculation=SpeculationConfig(enabled=enabled)).model_dump(mode="json") for enabled in (True, False)]
    del twins[0]["rollout"]["scheduling"]
    with bare_database.write() as session:
        runs = [Run(id=letter * 16, name="twin", config=config, seed=0, steps=1) for letter, config in zip("ab", twins, strict=True)]
        session.add_all([*runs, *(Run(id=f"{n:016d}", name="other", config=twins[1], seed=0, steps=1) for n in range(BATCH))])
        session.flush()
        session.execute(text("UPDATE runs SET step = 1, likeness = 'of earlier times' WHERE name = 'twin'"))
        session.execute(text("UPDATE runs SET likeness = 'of other times' WHERE name = 'other'"))
    upgrade(bare_database)
    with bare_database.read() as session:
        assert partners(session, ["a" * 16]) == {"a" * 16: "b" * 16}
        assert {run.likeness for run in session.scalars(select(Run))} == {likeness(twins[1])}


def test_runs_that_wait_take_the_gpus_that_their_configuration_says(bare_database: Database) -> None:
    upgrade(bare_database, "0016")
    sglang = '{"cluster": {"workers": 2}, "rollout": {"engine": "sglang", "sglang": {"tensor_parallel": 4}}}'
    cases = {"{}": (2, False), sglang: (8, True), '{"cluster": {"device": "cpu"}}': (0, False)}
    cases['{"cluster": {"workers": 3, "device": "cuda", "ray_address": null}}'] = (3, True)
    with bare_database.write() as session:
        for number, config in enumerate(cases):
            session.execute(
                text(INSERT_RUN.replace("aaaaaaaaaaaaaaaa", f"{number:016d}").replace("'{}', 0", f"'{config}', 0", 1).replace(":", r"\:"))
            )
    upgrade(bare_database)
    with bare_database.read() as session:
        found = [(run.gpus, run.gpu_only) for run in session.scalars(select(Run).order_by(Run.id))]
    assert found == list(cases.values())


def test_messages_do_not_keep_the_schema_from_going_down(bare_database: Database) -> None:
    database = bare_database
    upgrade(database)
    with database.write() as session:
        session.add(Webhook(id="c" * 16, url="https://hooks.example", events=["run.failed"], secret="whsec_x"))
        session.flush()
        session.add(Delivery(webhook_id="c" * 16, event="run.failed", body="{}"))
    downgrade(database, "0005")
    assert not {"webhooks", "webhook_deliveries"} & tables(database)
    upgrade(database)
    check(database)


def test_who_goes_back_tells_nobody_of_other_projects_runs(bare_database: Database) -> None:
    upgrade(bare_database)
    with bare_database.write() as session:
        for letter, project in (("c", None), ("d", DEFAULT_PROJECT)):
            hook = Webhook(id=letter * 16, url="https://hooks.example", events=["run.failed"], secret="whsec_x", project_id=project)
            session.add(hook)
            session.flush()
            session.add(Delivery(webhook_id=hook.id, event="run.failed", body="{}"))
    downgrade(bare_database, "0019")
    with bare_database.read() as session:
        assert session.scalars(text("SELECT id FROM webhooks")).all() == ["c" * 16]
        assert session.scalars(text("SELECT webhook_id FROM webhook_deliveries")).all() == ["c" * 16]


def test_who_goes_back_closes_the_runs_that_it_would_not_understand(bare_database: Database) -> None:
    upgrade(bare_database)
    with bare_database.write() as session:
        tracked = Run(id="b" * 16, name="mine", kind="tracked", state="running", config={}, seed=0, steps=0, step=4)
        session.add(tracked)
    downgrade(bare_database, "0005")
    with bare_database.read() as session:
        assert session.execute(text("SELECT state, steps FROM runs")).all() == [("failed", 5)]


@pytest.mark.parametrize(("owner", "user_id"), [("anna", "c" * 16), ("somebody", ""), (None, "")])
def test_keys_become_those_of_their_runs_owners(bare_database: Database, owner: str | None, user_id: str) -> None:
    upgrade(bare_database, "0001")
    with bare_database.write() as session:
        session.execute(text(INSERT_RUN))
        session.execute(text(INSERT_KEY))
    upgrade(bare_database, "0016")
    with bare_database.write() as session:
        session.execute(text(INSERT_USER))
        session.execute(text("UPDATE runs SET owner = :owner"), {"owner": owner})
    upgrade(bare_database)
    with bare_database.write() as session:
        assert [(key.user_id, key.key) for key in session.query(IdempotencyKey)] == [(user_id, "k")]
        session.add(IdempotencyKey(user_id="d" * 16, key="k", body_sha256="later", run_id="a" * 16))
    downgrade(bare_database, "0016")
    with bare_database.read() as session:
        assert session.execute(text("SELECT body_sha256 FROM idempotency_keys")).all() == [("x",)], "the first one's stays"
