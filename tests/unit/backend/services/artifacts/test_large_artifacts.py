"""Large files through a real server in a process of its own: memory, downloads that break off, and kills."""

import hashlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from backend.database import Database
from backend.models import Artifact
from backend.settings import Settings
from backend.stack.ports import Port
from backend.storage.open_store import open_store
from longtail import ApiError, Longtail

MIB = 2**20
SECONDS = 60.0


class Server:
    def __init__(self, settings: Settings) -> None:
        self._held = Port("127.0.0.1", 0, 0)
        self.port = self._held.number
        given = {"HOME": str(settings.home), "DATABASE_URL": settings.database, "PORT": str(self.port), "BODY_SECONDS": "5"}
        environment = os.environ | {f"LONGTAIL_{name}": value for name, value in given.items()}
        self.process = subprocess.Popen([sys.executable, "-m", "backend.api"], env=environment)
        self.url = f"http://127.0.0.1:{self.port}"
        deadline = time.monotonic() + SECONDS
        while not self.answers():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        self.token = settings.token_file.read_text()

    def answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}/healthz").is_success
        except httpx.TransportError:
            return False

    def peak_mib(self) -> float:
        """Of its memory since the last call."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        peak = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")
        return peak / 1024

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


@pytest.fixture
def server(settings: Settings, database: Database) -> Iterator[Server]:  # noqa: ARG001 - the tables have to be there
    server = Server(settings)
    yield server
    server.kill()


@pytest.fixture
def client(server: Server) -> Iterator[Longtail]:
    with Longtail(server.url, server.token) as client:
        yield client


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """Safetensors of 96 MiB."""
    file = tmp_path / "model.safetensors"
    header = b'{"a":{"dtype":"U8","shape":[%d],"data_offsets":[0,%d]}}' % (96 * MIB, 96 * MIB)
    with file.open("wb") as out:
        out.write(len(header).to_bytes(8, "little") + header)
        for _ in range(96):
            out.write(os.urandom(MIB))
    return file


def test_large_files_pass_in_little_memory(server: Server, client: Longtail, run_id: str, large: Path, tmp_path: Path) -> None:
    client.artifacts(run_id)
    server.peak_mib()
    idle = server.peak_mib()
    artifact = client.upload(run_id, large, "policy")
    assert server.peak_mib() - idle < 10
    for _ in range(2):
        client.download(artifact.id, tmp_path / "copy")
    assert server.peak_mib() - idle < 10
    assert hashlib.sha256((tmp_path / "copy").read_bytes()).hexdigest() == artifact.sha256
    with pytest.raises(ApiError, match="a header in it has more than"):
        client.upload(run_id, with_long_header(large, tmp_path / "hostile.tar"))
    assert server.peak_mib() - idle < 10


def with_long_header(large: Path, archive: Path) -> Path:
    """A tar of one header, which has all that is in ``large``."""
    header = tarfile.TarInfo("a")
    header.type, header.size = tarfile.XHDTYPE, large.stat().st_size
    with archive.open("wb") as out, large.open("rb") as content:
        out.write(header.tobuf())
        shutil.copyfileobj(content, out)
    return archive


class Cutter:
    """Passes bytes on between a client and a server, and cuts every connection after ``most`` bytes of answers."""

    def __init__(self, port: int, most: int) -> None:
        self._port, self._most = port, most
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.ranges: list[bytes] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            with near, socket.create_connection(("127.0.0.1", self._port)) as far, suppress(OSError):
                threading.Thread(target=self._ask, args=(near, far), daemon=True).start()
                left = self._most
                while left > 0 and (data := far.recv(min(65536, left))):
                    near.sendall(data)
                    left -= len(data)
                near.shutdown(socket.SHUT_RDWR)

    def _ask(self, near: socket.socket, far: socket.socket) -> None:
        try:
            while data := near.recv(65536):
                self.ranges += [line for line in data.split(b"\r\n") if line.lower().startswith(b"range:")]
                far.sendall(data.replace(b"\r\nConnection: keep-alive", b"\r\nConnection: close"))
        except OSError:
            return


def test_a_download_goes_on_where_it_broke_off(server: Server, client: Longtail, run_id: str, large: Path, tmp_path: Path) -> None:
    artifact = client.upload(run_id, large)
    cutter = Cutter(server.port, 40 * MIB)
    with Longtail(cutter.url, server.token) as cut:
        cut.download(artifact.id, tmp_path / "copy")
    cutter.close()
    assert (tmp_path / "copy").read_bytes() == large.read_bytes()
    assert len(cutter.ranges) == 2, "three connections, of which the later two go on"
    assert sorted(path.name for path in tmp_path.glob("copy*")) == ["copy"]


def test_a_later_call_goes_on_too(server: Server, client: Longtail, run_id: str, large: Path, tmp_path: Path) -> None:
    artifact = client.upload(run_id, large)
    part = tmp_path / f"copy.{artifact.sha256[:12]}.part"
    part.write_bytes(large.read_bytes()[: 50 * MIB])
    cutter = Cutter(server.port, 60 * MIB)
    with Longtail(cutter.url, server.token) as cut:
        cut.download(artifact.id, tmp_path / "copy")
    cutter.close()
    assert [line.partition(b"=")[2] for line in cutter.ranges] == [b"%d-" % (50 * MIB)]
    assert (tmp_path / "copy").read_bytes() == large.read_bytes()
    part.write_bytes(b"x" * (50 * MIB))
    with pytest.raises(ApiError, match="damaged"):
        client.download(artifact.id, tmp_path / "copy")
    assert not part.exists()


def test_a_kill_in_mid_upload_leaves_no_half_artifact(
    server: Server, database: Database, settings: Settings, run_id: str, large: Path
) -> None:
    store = open_store(settings)

    def until_much_is_there() -> None:
        deadline = time.monotonic() + SECONDS
        while not any(part.stat().st_size > 20 * MIB for part in store.incoming.glob("*.part")):
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def content() -> Iterator[bytes]:
        with large.open("rb") as file:
            while chunk := file.read(MIB):
                if file.tell() == 48 * MIB:
                    until_much_is_there()
                    server.kill()
                yield chunk

    where, headers = f"{server.url}/api/v1/runs/{run_id}/artifacts?name=a.safetensors", {"Authorization": f"Bearer {server.token}"}
    with pytest.raises(httpx.TransportError):
        httpx.post(where, content=content(), headers=headers)
    with database.read() as session:
        assert session.query(Artifact).all() == []
    assert list(store.objects()) == []
    assert len(list(store.incoming.glob("*.part"))) == 1, "which the collector removes"


def test_an_upload_that_dribbles_is_given_up(server: Server, settings: Settings, run_id: str) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=SECONDS) as slow:
        head = f"POST /api/v1/runs/{run_id}/artifacts?name=a.txt HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {server.token}\r\n"
        slow.sendall(head.encode() + b"Content-Length: 100000000\r\n\r\n" + b"a" * 1000)
        assert b" 408 " in slow.recv(65536).split(b"\r\n")[0]
    assert list(open_store(settings).incoming.glob("*.part")) == []
