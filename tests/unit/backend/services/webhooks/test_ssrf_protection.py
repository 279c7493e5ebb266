"""Requests to where users say: what is refused, and that nothing can change the target after it has been judged."""

import socket
import ssl
import subprocess
import time
from collections.abc import Callable
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import httpx
import pytest
from awaiting import awaited
from receiver import Receiver

from backend.services.webhooks import ssrf_protection
from backend.services.webhooks.ssrf_protection import ForbiddenAddressError, permitted, post

LOCAL = (ip_network("127.0.0.0/8"),)
FORBIDDEN = [
    "127.0.0.1",
    "127.255.0.9",
    "0.0.0.0",
    "10.1.2.3",
    "172.16.0.1",
    "192.168.1.1",
    "169.254.169.254",  # the metadata of a cloud's machines
    "100.64.0.1",
    "192.0.2.1",
    "198.18.0.1",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::7f00:1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::1",
    "2002:7f00:1::",
    "2001:db8::1",
    "fc00::1",
    "fe80::1",
    "fec0::1",
    "ff02::1",
]


@pytest.mark.parametrize("address", FORBIDDEN)
def test_private_addresses_are_refused_however_they_are_written(address: str) -> None:
    assert not permitted(ip_address(address), secure=True, allowed=())


@pytest.mark.parametrize("address", ["93.184.216.34", "2606:2800:220:1::1", "64:ff9b::5db8:d822", "::ffff:93.184.216.34"])
def test_public_addresses_need_tls(address: str) -> None:
    assert permitted(ip_address(address), secure=True, allowed=())
    assert not permitted(ip_address(address), secure=False, allowed=())


def test_what_the_operator_allows_is_allowed_and_no_more() -> None:
    allowed = (ip_network("10.0.0.0/8"), ip_network("fd00::/8"))
    for address in ("10.1.2.3", "fd00::5", "::ffff:10.1.2.3"):
        assert permitted(ip_address(address), secure=False, allowed=allowed)
    assert not permitted(ip_address("192.168.0.1"), secure=True, allowed=allowed)


def send(url: str, allowed: tuple[Any, ...] = LOCAL) -> int:
    return awaited(post(url, b"{}", {"x-a": "b"}, allowed))


@pytest.mark.parametrize(
    "url", ["https://127.0.0.1/", "https://localhost/", "https://0x7f.1/", "https://2130706433/", "http://[::1]/", "https://0/"]
)
def test_no_spelling_leads_home(url: str) -> None:
    with pytest.raises((ForbiddenAddressError, OSError)):
        send(url, ())


def names(monkeypatch: pytest.MonkeyPatch, resolve: Callable[[str], list[str]]) -> list[str]:
    """From now on ``resolve`` says what a name stands for; the names that were asked for."""
    asked: list[str] = []
    true = socket.getaddrinfo

    def getaddrinfo(host: Any, port: Any, *rest: Any, **options: Any) -> Any:
        if str(host).replace(".", "").isdigit():
            return true(host, port, *rest, **options)
        asked.append(str(host))
        return [entry for address in resolve(str(host)) for entry in true(address, port, *rest, **options)]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return asked


def test_a_name_is_asked_once_and_that_is_where_it_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    """DNS rebinding: the second answer would lead elsewhere."""
    answers = iter([["127.0.0.1"], ["127.0.0.9"], ["127.0.0.9"]])
    asked = names(monkeypatch, lambda _: next(answers))
    with Receiver() as receiver:
        assert send(f"http://hooks.example:{receiver.port}/in?a=b") == 204
        (received,) = receiver.received
    assert asked == ["hooks.example"]
    assert (received.path, received.headers["host"]) == ("/in?a=b", f"hooks.example:{receiver.port}")
    assert received.headers["x-a"] == "b"


def test_one_bad_address_of_a_name_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    names(monkeypatch, lambda _: ["93.184.216.34", "10.0.0.1"])
    with pytest.raises(ForbiddenAddressError, match=r"hooks\.example is 10\.0\.0\.1: not a public address"):
        send("https://hooks.example/", ())


def test_redirects_and_proxies_are_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    with Receiver() as proxy, Receiver(307) as receiver:
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{proxy.port}")
        assert send(f"http://127.0.0.1:{receiver.port}/") == 307
        assert (len(receiver.received), proxy.received) == (1, [])


def test_an_answer_that_never_ends_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of its pieces comes in time; all of them do not."""
    monkeypatch.setattr(ssrf_protection, "SECONDS", 0.5)
    began = time.monotonic()
    with Receiver(slow=0.2) as receiver, pytest.raises(TimeoutError):
        send(f"http://127.0.0.1:{receiver.port}/")
    assert time.monotonic() - began < 60


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """For hooks.example, signed by itself; key and certificate in one file."""
    file = tmp_path / "certificate.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -subj /CN=hooks.example"
    names = ["-addext", "subjectAltName=DNS:hooks.example", "-keyout", str(file), "-out", str(file.with_suffix(".crt"))]
    try:
        subprocess.run([*command.split(), *names], check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("there is no openssl to make a certificate with")
    with file.open("a") as whole:
        whole.write(file.with_suffix(".crt").read_text())
    return file


def test_a_certificate_has_to_be_for_the_name_though_the_address_is_called(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names(monkeypatch, lambda _: ["127.0.0.1"])
    trusting = ssl.create_default_context(cafile=str(certificate.with_suffix(".crt")))
    monkeypatch.setattr(ssrf_protection, "_certificates", lambda: trusting)
    with Receiver(certificate=str(certificate)) as receiver:
        assert send(f"https://hooks.example:{receiver.port}/") == 204
        with pytest.raises(httpx.ConnectError, match="certificate"):
            send(f"https://other.example:{receiver.port}/")
