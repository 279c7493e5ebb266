"""The message side: a Celery message is a doorbell that carries a run's id. SQL decides who gets the run, and when it is done."""

from celery import Celery

from backend.settings import Settings

TASK = "longtail.run"
MESSAGE_SECONDS = 120
POLLING_SECONDS = 0.05


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
        task_default_queue="longtail",
    )
    if not settings.broker_url:
        app.conf.broker_transport = "backend.jobs.folder:Transport"
        app.conf.broker_transport_options = _folders(settings)
    return app


def ring(app: Celery, run_id: str) -> None:
    app.send_task(TASK, args=[run_id], expires=MESSAGE_SECONDS, retry=False, ignore_result=True)


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
