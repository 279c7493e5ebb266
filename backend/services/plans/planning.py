"""Plans are made by the engine's planner in a process of its own: they take seconds of a processor, and nothing of the API."""

import json
import logging
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sqlalchemy.orm import Session

from backend import models
from backend.errors import InvalidError, TooManyRequestsError
from backend.services.plans.trace import MOST_STEPS, PHASE, PROMPT, SECONDS, write_trace
from backend.services.runs.validation import FIELD_OF_CODE, known_config
from backend.services.telemetry.metric_series import downsampled
from backend.services.telemetry.step_rows import StepRange, rows_of_steps
from engine.config import RunConfig
from engine.errors import USER_ERROR
from engine.planner.hardware import MORE_ROOM
from longtail.schemas.base import FieldError
from longtail.schemas.plans import Plan, PlanRequest

logger = logging.getLogger(__name__)

AT_A_TIME = 2
MEMORY = 4.0
"""Of a plan, in GB; addresses that are merely reserved count."""
ENDS_WITHOUT_MEMORY = (signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS)
"""Signals by which a process that meets its limit may end: NumPy crashes where an iterator's buffer does not fit."""
PATIENCE_SECONDS = 120
FIELD = re.compile(r"[a-z_]+(\.[a-z_]+)*")
COMMAND = (sys.executable, "-m", "engine.planner.plan_command")
FREE = threading.BoundedSemaphore(AT_A_TIME)
POINTS = 10_000


def plan(config: RunConfig, request: PlanRequest, session: Session, run: models.Run | None) -> Plan:
    """InvalidError if such a run cannot be planned; TooManyRequestsError while enough are being made."""
    with TemporaryDirectory(prefix="longtail-plan-") as name:
        folder = Path(name)
        (folder / "run.yaml").write_text(config.model_dump_json(), encoding="utf-8")
        if run is not None:
            _record(folder, session, run)
        session.rollback()  # a connection is not held while the planner works
        return _answer(_planned(_arguments(folder, request, run is not None)))


def _record(folder: Path, session: Session, run: models.Run) -> None:
    steps = StepRange(since=run.step - 1 - MOST_STEPS)
    lengths, _ = rows_of_steps(session, models.Rollout, run.id, steps, POINTS)
    speculation, _ = rows_of_steps(session, models.Speculation, run.id, steps, POINTS)
    if not lengths:
        raise _refused("run_id", f"run {run.id} has no finished step to learn from; choose another one, or none")
    series = downsampled(session, run.id, [], steps.since, POINTS, PHASE)
    series |= downsampled(session, run.id, [SECONDS, PROMPT], steps.since, POINTS)
    write_trace(folder, known_config(run.config), lengths, speculation, series)


def _arguments(folder: Path, request: PlanRequest, recorded: bool) -> list[str]:
    given = {"--price": request.price, "--median": request.median, "--spread": request.spread, "--deadline": request.deadline}
    options = [text for name, value in given.items() if value is not None for text in (name, str(value))]
    trace = ["--trace", str(folder)] if recorded else []
    quick = ["--quick"] if request.quick else []
    return [str(folder / "run.yaml"), "--gpus", request.gpus, "--json", *options, *trace, *quick]


def _planned(arguments: list[str]) -> dict[str, Any]:
    if not FREE.acquire(blocking=False):
        raise TooManyRequestsError(f"{AT_A_TIME} plans are being made; ask again in a moment", 5)
    command = [*COMMAND, *arguments, "--memory", str(MEMORY)]
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}  # a thread for each core would reserve memory that nothing uses
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False, env=environment)
    except subprocess.TimeoutExpired:
        raise _refused("config", f"this takes more than {PATIENCE_SECONDS} s to plan; ask for a quick plan, or for fewer prompts") from None
    finally:
        FREE.release()
    if -done.returncode in ENDS_WITHOUT_MEMORY:
        logger.warning("the planner was ended by signal %d, which is taken for want of memory: %s", -done.returncode, done.stderr[-2000:])
        raise _refused("memory", f"{MEMORY} GB are not enough to plan this; {MORE_ROOM}")
    if done.returncode not in (0, USER_ERROR):
        raise RuntimeError(f"the planner failed ({done.returncode}): {done.stderr[-2000:]}")
    if done.returncode:
        raise _as_told(done.stderr.strip().splitlines()[-1])
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _answer(found: dict[str, Any]) -> Plan:
    kinds = {"spans": "worker_state", "decoding": "decoding"}
    timeline = {name: [event for event in found["timeline"] if event["kind"] == kind] for name, kind in kinds.items()}
    return Plan.model_validate(found | timeline)


def _as_told(line: str) -> InvalidError:
    """Of what the planner says: ``code error: field: what is wrong``, or without a field."""
    code, _, said = line.partition(" error: ")
    field, _, message = said.partition(": ")
    return _refused(field, message) if FIELD.fullmatch(field) else _refused(FIELD_OF_CODE.get(code, "config"), said)


def _refused(field: str, message: str) -> InvalidError:
    return InvalidError("this cannot be planned", [FieldError(field=field, message=message)])
