"""Secrets as text: tokens, of which the server keeps a hash only, and links that hand one of a token's rights on for a while."""

import hashlib
import hmac
import os
import re
import secrets
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Self

SECRET_BYTES = 32
LINK_SECONDS = 3600
LONGEST_LINK_SECONDS = 24 * 3600
_TOKEN = re.compile(r"lt_([0-9a-f]{16})_([\w-]{43})", re.ASCII)
_LINK = re.compile(r"([0-9a-f]{16})\.([0-9]{1,12})\.([0-9a-f]{64})", re.ASCII)


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

    def link(self, path: str) -> str:
        """Lets whoever holds it GET ``path`` for an hour or two; the same text within an hour, so that pages stay the same."""
        expires = (int(time.time()) // LINK_SECONDS + 2) * LINK_SECONDS
        return f"{self.id}.{expires}.{_signature(self.digest, path, expires)}"


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

    def opens(self, path: str, digest: str, now: float) -> bool:
        """Whether the token with this ``digest`` signed it for ``path``, and it is neither over nor longer than links may be."""
        signed = hmac.compare_digest(self.signature, _signature(digest, path, self.expires))
        return signed and now < self.expires <= now + LONGEST_LINK_SECONDS


def _signature(digest: str, path: str, expires: int) -> str:
    return hmac.new(bytes.fromhex(digest), f"GET {path} {expires}".encode(), hashlib.sha256).hexdigest()


def write_private(path: Path, text: str) -> None:
    """Writes the file whole or not at all; only its owner may read it, from the first moment on."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    aside = path.with_name(f"{path.name}.{secrets.token_hex(4)}.tmp")
    with open(aside, "x", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(text)
    aside.replace(path)
