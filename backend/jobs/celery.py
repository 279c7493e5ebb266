"""The message side: a Celery message tells a worker that a run was queued, no more. SQL decides who gets which run, and when it is done.

So messages may be lost, doubled, late or unreadable, and brokers need no settings: a worker looks for queued runs every few seconds anyway.
"""

import ssl
from pathlib import Path

from celery import Celery

from backend.settings import Settings
from longtail.schemas.credentials import private_folder

TASK = "longtail.run"
QUEUE = "longtail"
CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 30.0
POLLING_SECONDS = 0.05
EXPIRES_SECONDS = 120.0


def make_celery(settings: Settings) -> Celery:
    """The embedded broker is a folder in home; any broker of Celery's can stand in by its URL."""
    make_folders(settings)
    app = Celery("longtail", broker=settings.broker_url or "filesystem://localhost", set_as_current=False)
    app.conf.update(
        task_ignore_result=True,
        task_serializer="json",
        accept_content=["json"],
        task_default_queue=QUEUE,
        task_default_exchange="",
        worker_prefetch_multiplier=0,  # no limit, as a message is done with at once
        worker_redirect_stdouts=False,
        worker_hijack_root_logger=False,
        worker_enable_remote_control=False,
        worker_send_task_events=False,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_transport_options=_options(settings),
        broker_use_ssl={"ssl_cert_reqs": ssl.CERT_REQUIRED} if settings.broker_url.startswith("rediss:") else None,
    )
    app.amqp.autoexchange = lambda _: None  # a queue is found by its name alone: kombu's folder may lose its table of exchanges
    return app


def notify_workers(app: Celery, label: str = "") -> None:
    """That a run was queued which needs a worker of ``label``, or any worker."""
    app.send_task(TASK, queue=queue(label), retry=False, ignore_result=True, expires=EXPIRES_SECONDS)


def queue(label: str) -> str:
    """Where workers of ``label``, or all if it is empty, listen."""
    return f"{QUEUE}.{label}" if label else QUEUE


def make_folders(settings: Settings) -> None:
    """Those of the embedded broker, which may have been deleted."""
    if not settings.broker_url:
        private_folder(_messages(settings))


def _messages(settings: Settings) -> Path:
    return settings.broker_folder / "queue"


def _options(settings: Settings) -> dict[str, object]:
    """Where the folder is; how long Redis may take. RabbitMQ refuses what it does not know."""
    if settings.broker_url:
        waits: dict[str, object] = {"socket_connect_timeout": CONNECT_SECONDS, "socket_timeout": ANSWER_SECONDS}
        return waits if settings.broker_url.startswith("redis") else {}
    messages = str(_messages(settings))
    control = str(settings.broker_folder / "control")
    return {"data_folder_in": messages, "data_folder_out": messages, "control_folder": control, "polling_interval": POLLING_SECONDS}
