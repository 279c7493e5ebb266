"""Free TCP ports that two stacks never both take, and nobody else while a stack's servers start."""

import socket
from contextlib import suppress

from backend.stack.child_process import StackError

TRIES = 100


class Port:
    """A free port ``number``: the wanted one, or StackError; for None the usual one if it is free, else any; for 0 any.

    No other Port gets it while this one lives, so that two stacks that start at once never meet at one address. An abstract unix
    socket (Linux) holds the claim, which therefore ends with the process. Nor does the system give the port to anybody who asks for any:
    it is bound, without listening, and a server that sets SO_REUSEADDR, as servers do, can take it all the same.
    """

    def __init__(self, host: str, wanted: int | None, usual: int) -> None:
        self._claim = socket.socket(socket.AF_UNIX)
        any_port = (0,) * TRIES
        for port in (wanted,) if wanted else any_port if wanted == 0 else (usual, *any_port):
            self._bound = socket.socket()
            self._bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with suppress(OSError):
                self._bound.bind((host, port))
                self.number = int(self._bound.getsockname()[1])
                self._claim.bind(f"\0longtail-port-{self.number}")
                return
            self._bound.close()
        raise StackError(f"port {wanted} of {host} is not free; name another, or none to take any")

    def release(self) -> None:
        self._bound.close()
        self._claim.close()
