"""What the message side says to Celery. Redis itself is not asked here: a worker with Redis differs in its broker's address only."""

import pytest

from backend.jobs.celery import VISIBILITY_SECONDS, make_celery, queue
from backend.settings import Settings


def test_another_broker_takes_the_place_of_the_folder(settings: Settings) -> None:
    app = make_celery(settings.model_copy(update={"broker_url": "redis://localhost:6379/0"}))
    assert app.conf.broker_url == "redis://localhost:6379/0"
    assert app.conf.broker_transport is None
    assert app.conf.broker_transport_options == {"visibility_timeout": VISIBILITY_SECONDS}
    assert (app.conf.task_acks_late, app.conf.worker_prefetch_multiplier, app.conf.accept_content) == (True, 1, ["json"])
    assert not (settings.broker_folder / "queue").exists()


@pytest.mark.parametrize(("label", "name"), [("", "longtail"), ("gpu:h200", "longtail.gpu:h200")])
def test_each_label_has_a_queue(label: str, name: str) -> None:
    assert queue(label) == name
