"""What the message side says to Celery. What Redis makes of it is tested among the faults."""

import shutil
import ssl
from pathlib import Path

import pytest
from celery import Celery
from kombu.exceptions import ChannelError

from backend.jobs.celery import make_celery, make_folders, notify_workers, queue
from backend.settings import Settings

REDIS_OPTIONS = {"socket_connect_timeout": 5.0, "socket_timeout": 30.0}


def messages(settings: Settings) -> list[Path]:
    return sorted((settings.broker_folder / "queue").iterdir())


@pytest.mark.parametrize(
    ("url", "options"),
    [("redis://localhost:6379/0", REDIS_OPTIONS), ("rediss://localhost:6379/0", REDIS_OPTIONS), ("amqp://localhost//", {})],
)
def test_another_broker_takes_the_place_of_the_folder(settings: Settings, url: str, options: dict[str, object]) -> None:
    app = make_celery(settings.model_copy(update={"broker_url": url}))
    assert (app.conf.broker_url, app.conf.broker_transport) == (url, None)
    assert app.conf.broker_transport_options == options
    assert (app.conf.task_acks_late, app.conf.worker_prefetch_multiplier, app.conf.accept_content) == (False, 0, ["json"])
    assert app.conf.broker_connection_max_retries is None, "a worker waits for its broker, however long"
    assert not (settings.broker_folder / "queue").exists()


@pytest.mark.parametrize("label", ["", "gpu:h200"])
def test_each_label_has_a_queue(settings: Settings, label: str) -> None:
    with make_celery(settings) as app:
        notify_workers(app, label)
    (message,) = messages(settings)
    assert message.name.partition(".")[2] == f"{queue(label)}.msg"
    assert queue(label) == ("longtail.gpu:h200" if label else "longtail")


def test_a_deleted_folder_comes_back(settings: Settings) -> None:
    with make_celery(settings) as app:
        shutil.rmtree(settings.broker_folder)
        with pytest.raises((OSError, ChannelError)):
            notify_workers(app)
        make_folders(settings)
        notify_workers(app)
    assert len(messages(settings)) == 1


@pytest.mark.parametrize(("scheme", "checked"), [("redis", None), ("rediss", {"ssl_cert_reqs": ssl.CERT_REQUIRED})])
def test_certificates_are_checked(settings: Settings, scheme: str, checked: dict[str, object] | None) -> None:
    pytest.importorskip("redis", reason="the extra redis is not installed")
    app: Celery = make_celery(settings.model_copy(update={"broker_url": f"{scheme}://localhost:6379/0"}))
    assert (app.connection_for_write().ssl or None) == checked
