"""Free TCP ports that two stacks never both take."""

import socket
from contextlib import suppress

from backend.stack.child_process import StackError

TRIES = 100


class Port:
    """A free port ``number``: the wanted one, or StackError; for None the usual one if it is free, else any; for 0 any.

    No other Port gets it while this one lives, so that two stacks that start at once never meet at one address. An abstract unix
    socket (Linux) holds the claim, which therefore ends with the process.
    """

    def __init__(self, host: str, wanted: int | None, usual: int) -> None:
        self._claim = socket.socket(socket.AF_UNIX)
        any_port = (0,) * TRIES
        for port in (wanted,) if wanted else any_port if wanted == 0 else (usual, *any_port):
            with suppress(OSError), socket.create_server((host, port)) as probe:
                self.number = int(probe.getsockname()[1])
                self._claim.bind(f"\0longtail-port-{self.number}")
                return
        raise StackError(f"port {wanted} of {host} is not free; name another, or none to take any")

    def release(self) -> None:
        self._claim.close()
