"""Carries one attempt: starts the engine, feeds its events into SQL, keeps the lease, stops it, and settles how it ended."""

import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from math import inf
from typing import Any, Literal, TypeVar

import yaml
from sqlalchemy import select

from backend.database import NO_ANSWER, Database
from backend.jobs.engine import attempt_log
from backend.jobs.engine.environment_record import attempt_record, engine_variables
from backend.jobs.engine.given_drafter import GivenDrafter
from backend.jobs.engine.gpu_names import gpu_variables
from backend.jobs.engine.processes import attempt_variables, start_time, stop
from backend.models import Run
from backend.services.runs.attempts import Claim, LeaseLostError, Outcome, add_log_line, record_process, renew, settle
from backend.services.runs.resume_points import goes_on_after, named, resume_points
from backend.services.telemetry.event_ingest import EventIngestor
from backend.settings import Settings
from engine.checkpoint.run_folder import EVENTS, STOP
from engine.checkpoint.verification import listed
from engine.errors import RESUMABLE, USER_ERROR, CheckpointError, ModelError
from longtail.schemas.credentials import private_folder
from longtail.schemas.runs import RunState

T = TypeVar("T")
CLUSTER_GONE = 1
"""Ray ends a process at once, by C's _Exit, once the head of its cluster has not answered for a minute. Our own faults end with FAULT,
unless they keep an engine from beginning at all."""
TOLD = (signal.SIGTERM, signal.SIGINT)
"""An engine that heeds one of these ends with 128 and its number, as a shell would."""
LOG_TAIL_LINES = 40

logger = logging.getLogger(__name__)


class Supervisor:
    """``stopping`` makes it hand the run back. While the database does not answer it goes on trying, but never past its lease, which
    began at ``claimed_at`` on the monotonic clock."""

    def __init__(self, database: Database, settings: Settings, claim: Claim, claimed_at: float, stopping: threading.Event) -> None:
        self._database, self._settings, self._claim, self._stopping = database, settings, claim, stopping
        self._folder = settings.run_folder(claim.run_id)
        self._log = self._folder / f"attempt_{claim.attempt}.log"
        self._ingestor = EventIngestor(database, claim.run_id, claim.attempt, self._folder / EVENTS)
        self._stop_file = self._folder / STOP
        self._asked = False
        self._lease_end = claimed_at + settings.lease_seconds

    def run(self) -> RunState | None:
        """The run's state after this attempt; None if the attempt was taken away. CheckpointError, before anything is begun, if what the
        run goes on from is not here: another worker may have it."""
        try:
            self._patiently(self._demand_checkpoint)
            config = self._patiently(GivenDrafter(self._database, self._settings, self._claim, self._keep_lease).config)
            self._patiently(self._ingestor.go_back)
            with self._engine(config) as engine:
                self._patiently(lambda: self._introduce(engine.pid))
                interruption = self._watch(engine)
            has_read_all = self._patiently(lambda: self._read_the_rest(interruption))
            outcome = self._outcome(interruption if has_read_all else "handed_over", engine.returncode)
            return self._patiently(lambda: self._settle(outcome))
        except ModelError as error:  # the drafter that it was given is gone
            outcome = Outcome("failed", error=str(error), error_code=error.code)
            return self._patiently(lambda: self._settle(outcome))
        except LeaseLostError:
            logger.warning("run %s: attempt %d was taken away", self._claim.run_id, self._claim.attempt)
            return None

    def _demand_checkpoint(self) -> None:
        """CheckpointError if the run has one that is not here: its engine would begin anew, in place of all that it has done."""
        with self._database.read() as session:
            run = session.get_one(Run, self._claim.run_id)
        step, saved = goes_on_after(run), resume_points(run, self._folder)
        if step is not None and self._claim.resumes and not any(map(listed, saved)):
            raise CheckpointError(
                f"the run goes on after {named(step)}, but {saved[-1]} on {socket.gethostname()} has no checkpoint. Nothing that is "
                "recorded of it was touched. Mount the data folder (LONGTAIL_HOME) there, or put the checkpoints back. Once the run has "
                "failed for that, retry it"
            )

    @contextmanager
    def _engine(self, given: Mapping[str, Any]) -> Iterator[subprocess.Popen[bytes]]:
        """``kill_on_worker_loss``, and under it the engine, in a session of their own; none of its processes outlives the block."""
        private_folder(self._folder)
        config = self._folder / "config.yaml"
        config.write_text(yaml.safe_dump(dict(given), sort_keys=False), encoding="utf-8")
        self._stop_file.unlink(missing_ok=True)
        resume = ["--resume"] if self._claim.resumes else []
        command = [*self._settings.engine_command, "run", str(config), "--out", str(self._folder), "--take-over", *resume]
        guarded = [sys.executable, "-m", "backend.jobs.engine.kill_on_worker_loss", str(self._lease_end), *command]
        environment = engine_variables(os.environ) | attempt_variables(self._claim.run_id, self._claim.attempt)
        environment |= gpu_variables(self._claim.gpus)
        with attempt_log.opened(self._log) as log:
            engine = subprocess.Popen(
                guarded, stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT, env=environment, start_new_session=True
            )
        try:
            yield engine
        finally:
            stop(engine, self._claim.run_id, self._claim.attempt, self._settings.grace_seconds)
            assert engine.stdin is not None
            with suppress(BrokenPipeError):  # it may hold what could not be told any more
                engine.stdin.close()

    def _introduce(self, pid: int) -> None:
        environment = attempt_record(self._claim.gpus).model_dump(mode="json")
        with self._database.write() as session:
            record_process(session, self._claim, pid, start_time(pid), environment)

    def _watch(self, engine: subprocess.Popen[bytes]) -> Literal["cancelled", "handed_over"] | None:
        """Until the engine ends (None) or has to be stopped (why)."""
        patience = inf
        while engine.poll() is None:
            wish = self._patiently(lambda: self._tend(engine))
            if wish == "cancel":
                return "cancelled"
            if self._stopping.is_set():
                patience = time.monotonic() + self._patiently(self._handover_seconds) if patience == inf else patience
                if time.monotonic() >= patience:
                    return "handed_over"
            self._ask_to_stop(wish == "pause" or self._stopping.is_set())
            (time.sleep if self._stopping.is_set() else self._stopping.wait)(self._settings.poll_seconds)
        return None

    def _handover_seconds(self) -> float:
        """What a step of this run takes, as the last one did, and some seconds more for its checkpoint."""
        with self._database.read() as session:
            summary = session.scalars(select(Run.summary).where(Run.id == self._claim.run_id)).one()
        return self._settings.handover_seconds + self._settings.handover_steps * (summary.get("step_seconds") or 0.0)

    def _ask_to_stop(self, wanted: bool) -> None:
        """At the next step boundary, with a checkpoint; of a pretraining after its round."""
        if wanted and not self._asked:
            self._stop_file.touch()
        elif self._asked and not wanted:
            self._stop_file.unlink(missing_ok=True)
        self._asked = wanted

    def _tend(self, engine: subprocess.Popen[bytes]) -> Literal["cancel", "pause"] | None:
        """One round: lease, log, events; what the user wants of the run, who does not wait for all events of a long one."""
        self._hold(engine)
        attempt_log.cut(self._log)
        self._ingestor.drain(lambda: self._hold(engine), self._settings.poll_seconds)
        with self._database.read() as session:
            run = select(Run.cancel_requested, Run.pause_requested).where(Run.id == self._claim.run_id)
            cancel, pause = session.execute(run).one()
        return "cancel" if cancel else "pause" if pause else None

    def _read_the_rest(self, interruption: Literal["cancelled", "handed_over"] | None) -> bool:
        """Whether all events are read that the engine has left. Who shuts down does not wait for that: the next attempt reads on."""
        while not self._ingestor.drain(self._keep_lease, self._settings.poll_seconds):
            if self._stopping.is_set() and interruption != "cancelled":
                return False
        return True

    def _hold(self, engine: subprocess.Popen[bytes]) -> None:
        """Keeps the lease, of which ``kill_on_worker_loss`` hears."""
        if self._keep_lease():
            assert engine.stdin is not None
            with suppress(BrokenPipeError):
                engine.stdin.write(f"{self._lease_end}\n".encode())
                engine.stdin.flush()

    def _keep_lease(self) -> bool:
        """Whether it was time to renew it."""
        now = time.monotonic()
        if now <= self._lease_end - self._settings.lease_seconds * 2 / 3:
            return False
        with self._database.write() as session:
            renew(session, self._claim, self._settings.lease_seconds)
        self._lease_end = now + self._settings.lease_seconds
        return True

    def _patiently(self, action: Callable[[], T]) -> T:
        while True:
            try:
                return action()
            except NO_ANSWER:
                if time.monotonic() > self._lease_end:
                    raise LeaseLostError from None
                logger.warning("run %s: the database does not answer", self._claim.run_id)
                time.sleep(self._settings.poll_seconds)

    def _outcome(self, interruption: Literal["cancelled", "handed_over"] | None, exit_code: int) -> Outcome:
        if exit_code == 0 and self._ingestor.finished:
            return Outcome("succeeded", exit_code)
        if interruption == "handed_over":
            return Outcome("handed_over", exit_code, "its worker shut down")
        if interruption == "cancelled":
            return Outcome("cancelled", exit_code)
        number = -exit_code if exit_code < 0 else exit_code - 128
        if number in TOLD and self._stopping.is_set():  # what ends a worker may tell all of its control group
            return Outcome("handed_over", exit_code, "its worker shut down")
        if exit_code < 0 or number in TOLD:
            return Outcome("lost", exit_code, f"the engine was killed by signal {number}")
        if exit_code == USER_ERROR and (said := self._ingestor.last_error):
            return Outcome("failed", exit_code, said.message, said.code)
        if exit_code == RESUMABLE and self._ingestor.stopped is not None:
            step = self._ingestor.stopped
            return Outcome(
                "handed_over", exit_code, "stopped while its drafter was being pretrained" if step < 0 else f"stopped after step {step}"
            )
        if exit_code == RESUMABLE and (said := self._ingestor.last_error):
            return Outcome("lost", exit_code, said.message, said.code)
        last = (attempt_log.last_lines(self._log, 1) or ["it printed nothing"])[-1]
        joins = self._claim.config.get("cluster", {}).get("ray_address") is not None
        ended_by_ray = joins and exit_code == CLUSTER_GONE and self._ingestor.began and not self._ingestor.last_error
        state: Literal["lost", "failed"] = "lost" if ended_by_ray else "failed"
        return Outcome(state, exit_code, f"the engine broke off with exit code {exit_code}: {last}", "crash")

    def _settle(self, outcome: Outcome) -> RunState | None:
        with self._database.write() as session:
            retries = (self._settings.max_retries, self._settings.retry_seconds)
            state = settle(session, self._claim.run_id, self._claim.attempt, outcome, *retries)
            if state and outcome.error_code == "crash":
                printed = attempt_log.last_lines(self._log, LOG_TAIL_LINES)
                add_log_line(session, self._claim.run_id, "error", "crash", "\n".join(printed))
            return state
