"""What the message side says to Celery. What Redis makes of it is tested among the faults."""

import ssl

import pytest

from backend.jobs.celery import VISIBILITY_SECONDS, make_celery, queue
from backend.settings import Settings

REDIS_OPTIONS = {"visibility_timeout": VISIBILITY_SECONDS, "socket_connect_timeout": 5.0, "socket_timeout": 30.0}


@pytest.mark.parametrize(
    ("url", "options"),
    [("redis://localhost:6379/0", REDIS_OPTIONS), ("rediss://localhost:6379/0", REDIS_OPTIONS), ("amqp://localhost//", {})],
)
def test_another_broker_takes_the_place_of_the_folder(settings: Settings, url: str, options: dict[str, object]) -> None:
    app = make_celery(settings.model_copy(update={"broker_url": url}))
    assert (app.conf.broker_url, app.conf.broker_transport) == (url, None)
    assert app.conf.broker_transport_options == options
    assert (app.conf.task_acks_late, app.conf.worker_prefetch_multiplier, app.conf.accept_content) == (True, 1, ["json"])
    assert app.conf.broker_connection_max_retries is None, "a worker waits for its broker, however long"
    assert not (settings.broker_folder / "queue").exists()


def test_a_message_comes_again_only_after_any_run_is_over() -> None:
    assert VISIBILITY_SECONDS >= 30 * 24 * 3600


@pytest.mark.parametrize(("label", "name"), [("", "longtail"), ("gpu:h200", "longtail.gpu:h200")])
def test_each_label_has_a_queue(label: str, name: str) -> None:
    assert queue(label) == name


@pytest.mark.parametrize("scheme", ["redis", "rediss"])
def test_redis_is_spoken_to_in_our_own_way(settings: Settings, scheme: str) -> None:
    pytest.importorskip("redis", reason="the extra redis is not installed")
    connection = make_celery(settings.model_copy(update={"broker_url": f"{scheme}://localhost:6379/0"})).connection_for_write()
    assert connection.get_transport_cls().__module__ == "backend.jobs.redis"
    checked = {"ssl_cert_reqs": ssl.CERT_REQUIRED}
    assert (connection.ssl or None) == (checked if scheme == "rediss" else None)
