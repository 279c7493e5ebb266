"""Every reason why a run waits is told in words."""

from datetime import UTC, datetime
from typing import get_args

from dashboard.views.workers.queue_table import waiting_reason
from longtail.schemas.queue import Queue, QueuedRun, Reason

START = datetime(2030, 1, 2, 3, 4, tzinfo=UTC)


def waiting(reason: Reason, needs: str = "gpu:h200") -> QueuedRun:
    facts = {"run_id": "a", "run_name": "a", "owner": None, "priority": 0, "needs": needs, "queued_at": START, "start_after": START}
    facts["gpus"] = 2
    return QueuedRun.model_validate(facts | {"place": None, "reason": reason})


def test_every_reason_has_words_of_its_own() -> None:
    found = Queue(items=[], total=1, active=2, slots=2, free=0, max_active=7, max_active_per_owner=3, aging_seconds=60)
    texts = {reason: waiting_reason(waiting(reason), found) for reason in get_args(Reason)}
    assert len(set(texts.values())) == len(texts)
    assert "2030-01-02 03:04" in texts["time"]
    assert ("7 runs" in texts["limit"], "3 runs" in texts["owner_limit"]) == (True, True)
    assert all("gpu:h200" in texts[reason] for reason in ("busy", "no_worker"))
    assert all("2 GPUs" in texts[reason] for reason in ("gpus", "no_worker"))
    assert waiting_reason(waiting("no_worker", ""), found) == "no worker with space for runs is alive, or none has 2 GPUs"
