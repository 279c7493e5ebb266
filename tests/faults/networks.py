"""Several hosts on this machine: network namespaces whose cables, to a switch between them, can be pulled."""

import os
import subprocess
from contextlib import ExitStack
from functools import cache
from types import TracebackType

NETWORK = "10.213.7"


def command(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@cache
def permitted() -> bool:
    """Whether this process may make networks."""
    name = f"lt{os.getpid()}-probe"
    try:
        command("netns", "add", name)
        command("netns", "del", name)
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


class Hosts:
    """So many hosts, each with an address of its own. Gone after the block, when the caller has ended the processes in them."""

    def __init__(self, count: int) -> None:
        self.addresses = [f"{NETWORK}.{number + 1}" for number in range(count)]
        self._names = [f"lt{os.getpid()}-{number}" for number in range(count)]
        self._switch = f"lt{os.getpid()}-s"
        self._stack = ExitStack()

    def __enter__(self) -> "Hosts":
        self._make(self._switch)
        command("-n", self._switch, "link", "add", "switch", "type", "bridge")
        command("-n", self._switch, "link", "set", "switch", "up")
        for number, (name, address) in enumerate(zip(self._names, self.addresses, strict=True)):
            self._make(name)
            port = f"port{number}"
            command("-n", name, "link", "add", "cable", "type", "veth", "peer", "name", port, "netns", self._switch)
            command("-n", name, "address", "add", f"{address}/24", "dev", "cable")
            command("-n", name, "link", "set", "lo", "up")
            command("-n", name, "link", "set", "cable", "up")
            command("-n", self._switch, "link", "set", port, "master", "switch", "up")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stack.close()

    def within(self, host: int) -> tuple[str, ...]:
        """What to put before a command so that it runs on ``host``."""
        return ("ip", "netns", "exec", self._names[host])

    def pull(self, host: int) -> None:
        """Cuts ``host`` off: what is sent to it and from it is lost, and nobody is told."""
        command("-n", self._switch, "link", "set", f"port{host}", "nomaster")

    def _make(self, name: str) -> None:
        command("netns", "add", name)
        self._stack.callback(command, "netns", "del", name)
