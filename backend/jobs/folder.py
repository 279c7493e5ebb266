"""The embedded broker: kombu's filesystem transport, with messages that appear and vanish whole.

kombu writes a message in place, so that a worker which polls meanwhile reads half of it, and dies of that. So it does of its table of
exchanges, a file too; but every queue of ours has an exchange of its own name, so that the routing key alone says where a message goes.
"""

import json
import logging
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from queue import Empty
from typing import Any

from kombu.transport import filesystem

logger = logging.getLogger(__name__)


class Channel(filesystem.Channel):
    def _queue_bind(self, *_: Any) -> None:
        """There is nothing to note."""

    def _lookup(self, exchange: str, routing_key: str, default: str | None = None) -> list[str]:  # noqa: ARG002
        return [routing_key]

    def _put(self, queue: str, payload: Any, **_: Any) -> None:  # type: ignore[override]  # as kombu's own override
        folder = Path(self.data_folder_out)
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"{time.time_ns()}_{uuid.uuid4().hex}.{queue}.msg"
        part = file.with_suffix(".part")
        part.write_text(json.dumps(payload), encoding="utf-8")
        part.rename(file)

    def _get(self, queue: str, timeout: float | None = None) -> Any:  # noqa: ARG002
        for taken in self._taken(queue):
            try:
                content = taken.read_bytes()
                taken.unlink()
                return json.loads(content)
            except FileNotFoundError:  # the folder was deleted at this very moment
                continue
            except ValueError:
                logger.warning("%s is no message; the outbox will send another", taken.name)
        raise Empty

    def _taken(self, queue: str) -> Iterator[Path]:
        """Messages, oldest first, each renamed by one worker only."""
        for message in sorted(Path(self.data_folder_in).glob(f"*.{queue}.msg")):
            try:
                yield message.rename(message.with_suffix(".taken"))
            except FileNotFoundError:
                continue


class Transport(filesystem.Transport):
    Channel = Channel
