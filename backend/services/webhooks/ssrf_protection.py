"""Sends requests to addresses that users name, which must not become requests into the operator's own network (SSRF).

A host is resolved once, every address of it has to be permitted, and the connection goes to that very address: a name that resolves
differently a moment later (DNS rebinding) changes nothing. Redirects are not followed, proxies not asked, answers not read.
"""

import asyncio
import socket
import ssl
from collections.abc import Mapping, Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

import httpx

SECONDS = 10.0
Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
EMBEDDING = (ip_network("::/96"), ip_network("64:ff9b::/96"))
GLOBAL_UNICAST = ip_network("2000::/3")


class ForbiddenAddressError(Exception):
    """Not an address to send anything to."""


async def post(url: str, body: bytes, headers: Mapping[str, str], allowed: Sequence[Network] = ()) -> int:
    """The status of the answer, within SECONDS in all. ForbiddenAddressError, TimeoutError, OSError or httpx.HTTPError if there is none."""
    async with asyncio.timeout(SECONDS):
        target = httpx.URL(url)
        address = await _resolved(target, allowed)
        named = {"host": target.netloc.decode("ascii")} | dict(headers)
        async with httpx.AsyncClient(trust_env=False, timeout=SECONDS, verify=_certificates()) as client:
            there = target.copy_with(host=address)
            request = client.build_request("POST", there, content=body, headers=named, extensions={"sni_hostname": target.host})
            response = await client.send(request, stream=True, follow_redirects=False)
            await response.aclose()
            return response.status_code


def permitted(address: Address, secure: bool, allowed: Sequence[Network]) -> bool:
    """Public addresses over TLS, and whatever the operator allows."""
    real = _unwrapped(address)
    if any(each in network for network in allowed for each in (address, real)):
        return True
    public = real.is_global and not real.is_multicast and (real.version == 4 or real in GLOBAL_UNICAST)
    return secure and public


async def _resolved(target: httpx.URL, allowed: Sequence[Network]) -> str:
    secure = target.scheme == "https"
    port = target.port or (443 if secure else 80)
    found = await asyncio.get_running_loop().getaddrinfo(target.host, port, type=socket.SOCK_STREAM)
    addresses = [ip_address(place[0]) for *_, place in found]
    for address in addresses:
        if not permitted(address, secure, allowed):
            kind = "not a public address" if secure else "not an address for http://"
            raise ForbiddenAddressError(f"{target.host} is {address}: {kind} (LONGTAIL_WEBHOOK_NETWORKS)")
    return str(addresses[0])


def _unwrapped(address: Address) -> Address:
    """The IPv4 address that an IPv6 address stands for, where it does."""
    if isinstance(address, IPv4Address):
        return address
    inner = address.ipv4_mapped or address.sixtofour
    if inner is None and any(address in network for network in EMBEDDING):
        inner = IPv4Address(int(address) & 0xFFFFFFFF)
    return inner or address


@lru_cache(1)
def _certificates() -> ssl.SSLContext:
    """This machine's; SSL_CERT_FILE names others."""
    return ssl.create_default_context()
