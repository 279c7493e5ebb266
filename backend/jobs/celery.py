"""The message side: a Celery message is a doorbell that carries a run's id. SQL decides who gets which run, and when it is done."""

import ssl

from celery import Celery
from kombu.transport import TRANSPORT_ALIASES

from backend.settings import Settings

TASK = "longtail.run"
QUEUE = "longtail"
VISIBILITY_SECONDS = 30 * 24 * 3600
"""For Redis: longer than any run, as it sends an unacknowledged message again after that (harmless, but of no use)."""
MESSAGE_SECONDS = 120
CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 30.0
REDIS = ("redis", "rediss")
POLLING_SECONDS = 0.05

TRANSPORT_ALIASES.update(dict.fromkeys(REDIS, "backend.jobs.redis:Transport"))


def make_celery(settings: Settings) -> Celery:
    """The embedded broker is a folder in home; any broker of Celery's can stand in by its URL."""
    app = Celery("longtail", broker=settings.broker_url or "filesystem://localhost", set_as_current=False)
    app.conf.update(
        task_ignore_result=True,
        task_serializer="json",
        accept_content=["json"],
        task_acks_late=True,
        worker_prefetch_multiplier=1,
        worker_redirect_stdouts=False,
        worker_hijack_root_logger=False,
        worker_enable_remote_control=False,
        worker_send_task_events=False,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        task_default_queue=QUEUE,
        broker_transport_options=_options(settings.broker_url),
        broker_use_ssl={"ssl_cert_reqs": ssl.CERT_REQUIRED} if settings.broker_url.startswith("rediss:") else None,
    )
    if not settings.broker_url:
        app.conf.broker_transport = "backend.jobs.folder:Transport"
        app.conf.broker_transport_options = _folders(settings)
    return app


def ring(app: Celery, run_id: str, needs: str = "") -> None:
    """``needs``: the label of the workers that may hear it."""
    app.send_task(TASK, args=[run_id], queue=queue(needs), expires=MESSAGE_SECONDS, retry=False, ignore_result=True)


def queue(label: str) -> str:
    """The queue of the runs that need workers of ``label``; of those that need none if empty."""
    return f"{QUEUE}.{label}" if label else QUEUE


def _options(url: str) -> dict[str, object]:
    """What Redis needs beside its address; RabbitMQ refuses what it does not know."""
    waits = {"visibility_timeout": VISIBILITY_SECONDS, "socket_connect_timeout": CONNECT_SECONDS, "socket_timeout": ANSWER_SECONDS}
    return {} if url.startswith(("amqp", "pyamqp")) else dict(waits)


def _folders(settings: Settings) -> dict[str, object]:
    queue, control = (settings.broker_folder / name for name in ("queue", "control"))
    for folder in (queue, control):
        folder.mkdir(parents=True, exist_ok=True)
    return {
        "data_folder_in": str(queue),
        "data_folder_out": str(queue),
        "control_folder": str(control),
        "polling_interval": POLLING_SECONDS,
    }
