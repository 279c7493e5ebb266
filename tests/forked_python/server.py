"""Has everything imported that the engine's and Ray's processes need, and begins such processes as copies of itself (see client.py).

To import it all anew takes each of them five seconds of a processor, ten times as long as what most tests have them do. The fork
server of multiprocessing runs functions; Ray and our own code begin a process by the path of an interpreter.
"""

import contextlib
import gc
import json
import os
import selectors
import shutil
import signal
import socket
import sys
import types
from importlib import import_module

from forked_python.copies import Order, become

import engine.tasks.sandbox

SECONDS = 30.0
"""For a client to tell its order."""


class Server:
    """A connection stands for a process: its end ends the process, and the process's end is told there."""

    def __init__(self, address: str) -> None:
        own = {sys.path[0], *os.environ.get("PYTHONPATH", "").split(os.pathsep)}
        self._path = [place for place in sys.path if place not in own]
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(address)
        self._listener.listen(64)
        self._ends, self._wakeup = socket.socketpair()
        self._wakeup.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wakeup.fileno(), warn_on_full_buffer=False)
        self._processes: dict[int, tuple[socket.socket, bool]] = {}
        self._selector = selectors.DefaultSelector()
        for source in (self._listener, self._ends, sys.stdin):
            self._selector.register(source, selectors.EVENT_READ)

    def serve(self) -> None:
        """Until standard input ends, that is until whoever started this is gone."""
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is sys.stdin:
                    for child in self._processes:
                        self._kill(child)
                    return
                if key.fileobj is self._listener:
                    self._begin(self._listener.accept()[0])
                elif key.fileobj is self._ends:
                    self._reap()
                elif key.data in self._processes:
                    self._selector.unregister(key.fileobj)
                    self._kill(key.data)

    def _begin(self, connection: socket.socket) -> None:
        """Does nothing for a client that is gone before it has told its order."""
        connection.settimeout(SECONDS)
        files: list[int] = []
        try:
            size, files, _, _ = socket.recv_fds(connection, 4, 253)
            with connection.makefile("rb") as stream:
                order: Order = json.loads(stream.read(int.from_bytes(size, "big")))
        except (OSError, ValueError):
            connection.close()
            _close_files(files)
            return
        child = os.fork()
        if child == 0:
            self._close(connection)
            become(order, files, self._path)
        _close_files(files)
        self._processes[child] = (connection, order["leads"])
        self._selector.register(connection, selectors.EVENT_READ, child)
        with contextlib.suppress(OSError):  # a client that is gone meanwhile is noticed at the next look
            connection.sendall(f"{child}\n".encode())

    def _close(self, connection: socket.socket) -> None:
        signal.set_wakeup_fd(-1)
        self._selector.close()
        for own in (connection, self._listener, self._ends, self._wakeup, *(other for other, _ in self._processes.values())):
            own.close()

    def _reap(self) -> None:
        self._ends.recv(4096)
        while self._processes:
            child, status = os.waitpid(-1, os.WNOHANG)
            if child == 0:
                return
            connection, _ = self._processes.pop(child)
            if connection in self._selector.get_map():
                self._selector.unregister(connection)
            with contextlib.suppress(OSError):  # the client was killed, and the process therefore
                connection.sendall(f"{status}\n".encode())
            connection.close()

    def _kill(self, child: int) -> None:
        """The client was killed, and so is its process, with its group if it leads one."""
        with contextlib.suppress(ProcessLookupError):  # it leads none yet
            if self._processes[child][1]:
                os.killpg(child, signal.SIGKILL)
        os.kill(child, signal.SIGKILL)


def _close_files(files: list[int]) -> None:
    for number in files:
        os.close(number)


def main(address: str, client: str, *modules: str) -> None:
    for name in modules:
        import_module(name)
    vars(engine.tasks.sandbox)["sys"] = types.SimpleNamespace(**vars(sys))  # within its walls there is no server
    sys.executable = client
    server = Server(address)
    gc.collect()
    gc.freeze()
    print("ready", flush=True)
    server.serve()
    shutil.rmtree(os.path.dirname(address), ignore_errors=True)
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
