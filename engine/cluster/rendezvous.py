"""Where the workers' process group meets: a file if they are all on this machine, else a port of the first one's machine."""

import fcntl
import os
import socket
import struct
from pathlib import Path
from typing import Any

SIOCGIFADDR = 0x8915


def meeting_point(ray: Any, place: dict[str, Any], shared: bool, folder: Path) -> str:
    """An init method of torch.distributed. ``place`` is the first worker's; ``folder`` is this machine's; ``shared`` tells whether the
    cluster may have others."""
    if not shared:
        return f"file://{folder}/rendezvous"
    where = {"scheduling_strategy": place["scheduling_strategy"], "num_cpus": 0}
    address, port = ray.get(ray.remote(_free_port).options(**where).remote())
    return f"tcp://{address}:{port}"


def use_network(rendezvous: str) -> None:
    """Lets gloo listen where the other machines reach this one: at the address that Ray knows it by."""
    if rendezvous.startswith("tcp:"):
        os.environ.setdefault("GLOO_SOCKET_IFNAME", interface(_address()))


def interface(address: str) -> str:
    """The network interface with this IPv4 address; "" if there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            try:
                found = fcntl.ioctl(probe.fileno(), SIOCGIFADDR, struct.pack("256s", name.encode()))
            except OSError:  # it has no address
                continue
            if socket.inet_ntoa(found[20:24]) == address:
                return name
    return ""


def _address() -> str:
    """By which Ray knows this machine."""
    import ray

    address: str = ray.util.get_node_ip_address()  # type: ignore[no-untyped-call]
    return address


def _free_port() -> tuple[str, int]:
    address = _address()
    with socket.socket() as probe:
        probe.bind((address, 0))
        return address, int(probe.getsockname()[1])
