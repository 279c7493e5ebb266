"""Where the workers' process group meets: a file if they are all on this machine, else a port of the first one's machine."""

import os
import socket
from pathlib import Path
from typing import Any

import psutil


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
    found = ((name, each) for name, addresses in psutil.net_if_addrs().items() for each in addresses)
    return next((name for name, each in found if (each.family, each.address) == (socket.AF_INET, address)), "")


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
