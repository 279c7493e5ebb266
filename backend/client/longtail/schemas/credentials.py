"""Secrets as text: tokens, of which the server keeps a hash only, and links that open one download for a while."""

import hashlib
import hmac
import os
import re
import secrets
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from longtail.durations import DAY_SECONDS
from longtail.schemas.base import Schema

SECRET_BYTES = 32
LINK_SECONDS = 3600
LONGEST_LINK_SECONDS = DAY_SECONDS
_TOKEN = re.compile(r"lt_([0-9a-f]{16})_([\w-]{43})", re.ASCII)
_LINK = re.compile(r"([0-9a-f]{16})\.([0-9]{1,12})\.([0-9a-f]{64})", re.ASCII)
_DOWNLOAD = re.compile(r"/api/v1/artifacts/[0-9a-f]{16}/download", re.ASCII)


@dataclass(frozen=True)
class Secret:
    """``lt_<id>_<256 random bits>``. The id finds the row, ``digest`` is what the row holds."""

    id: str
    text: str

    @classmethod
    def new(cls, token_id: str) -> Self:
        return cls(token_id, f"lt_{token_id}_{secrets.token_urlsafe(SECRET_BYTES)}")

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """None if ``text`` was never one of ours."""
        found = _TOKEN.fullmatch(text)
        return cls(found[1], text) if found else None

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()


class LinkKey(Schema):
    """Signs links to downloads in the name of the token ``token_id``. The server derives ``key`` from a secret that is not in the database:
    who reads that can sign nothing."""

    token_id: str
    key: str

    @classmethod
    def of(cls, token_id: str, server_secret: bytes) -> Self:
        return cls(token_id=token_id, key=hmac.new(server_secret, f"links of {token_id}".encode(), hashlib.sha256).hexdigest())

    def link(self, path: str) -> str:
        """Lets whoever holds it GET the download ``path`` for an hour or two; the same text within an hour, so that pages stay the same."""
        expires = (int(time.time()) // LINK_SECONDS + 2) * LINK_SECONDS
        return f"{self.token_id}.{expires}.{self.signature(path, expires)}"

    def signature(self, path: str, expires: int) -> str:
        return hmac.new(bytes.fromhex(self.key), f"GET {path} {expires}".encode(), hashlib.sha256).hexdigest()


@dataclass(frozen=True)
class Link:
    """A link as it arrives; ``id`` is that of the token that signed it."""

    id: str
    expires: int
    signature: str

    @classmethod
    def parse(cls, text: str) -> Self | None:
        found = _LINK.fullmatch(text)
        return cls(found[1], int(found[2]), found[3]) if found else None

    def opens(self, path: str, key: LinkKey, now: float) -> bool:
        """Whether ``key`` signed it for the download ``path``, and it is neither over nor longer than links may be."""
        signed = hmac.compare_digest(self.signature, key.signature(path, self.expires))
        return signed and _DOWNLOAD.fullmatch(path) is not None and now < self.expires <= now + LONGEST_LINK_SECONDS


def private_folder(path: Path) -> Path:
    """Makes it, and what it lies in, if it is not there: for its owner only."""
    for folder in reversed([each for each in (path, *path.parents) if not each.is_dir()]):
        folder.mkdir(mode=0o700, exist_ok=True)
    return path


def write_private(path: Path, text: str) -> None:
    """Writes the file whole or not at all; only its owner may read it, from the first moment on."""
    _written_aside(path, text).replace(path)


def keep_private(path: Path, text: str) -> str:
    """What the file says; if there is none, it says ``text`` from now on. Of several that come at once all get the same."""
    if not path.is_file():
        aside = _written_aside(path, text)
        try:
            path.hardlink_to(aside)
        except FileExistsError:
            pass
        except OSError:  # a file system without hard links; whoever reads at this very moment reads an empty file, and tries again
            with suppress(FileExistsError), open(path, "x", encoding="utf-8", opener=_private) as file:
                file.write(text)
        finally:
            aside.unlink()
    return path.read_text(encoding="utf-8")


def _written_aside(path: Path, text: str) -> Path:
    aside = private_folder(path.parent) / f"{path.name}.{secrets.token_hex(4)}.tmp"
    with open(aside, "x", encoding="utf-8", opener=_private) as file:
        file.write(text)
    return aside


def _private(name: str, flags: int) -> int:
    return os.open(name, flags, 0o600)
