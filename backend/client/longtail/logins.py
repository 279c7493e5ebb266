"""Which server a client talks to, and with which token."""

import json
import os
from pathlib import Path
from typing import Any

from longtail.schemas.credentials import write_private

DEFAULT_HOME, DEFAULT_PORT = ".longtail", 8000
SERVER_FILE, TOKEN_FILE = "server.json", "token"
"""In the data folder of ``longtail up``: where its server is, and the admin's token."""


def discover() -> str:
    """The server's base URL: LONGTAIL_URL, else the one that ``longtail up`` noted in the data folder, else that of the last
    ``longtail login``, else the default port of this machine."""
    last: str | None = _saved()["last"]
    port = os.environ.get("LONGTAIL_PORT") or DEFAULT_PORT
    return os.environ.get("LONGTAIL_URL") or _served() or last or f"http://127.0.0.1:{port}"


def for_browsers(url: str) -> str:
    """Under which address browsers reach the server at ``url``: LONGTAIL_PUBLIC_URL where that is another one."""
    return (os.environ.get("LONGTAIL_PUBLIC_URL") or url).rstrip("/")


def token_for(url: str) -> str:
    """LONGTAIL_TOKEN, else the token of ``longtail login url``, else the data folder's if its own server is at ``url``; empty if none."""
    if given := os.environ.get("LONGTAIL_TOKEN"):
        return given
    if token := _saved()["tokens"].get(url):
        return str(token)
    token_file = _home() / TOKEN_FILE
    if _served() == url and token_file.is_file():
        return token_file.read_text(encoding="utf-8").strip()
    return ""


def remember(url: str, token: str) -> Path:
    """Keeps the token for later commands, readable by this user only; the file."""
    saved = _saved()
    return _save({"last": url, "tokens": saved["tokens"] | {url: token}})


def forget(url: str) -> bool:
    """Whether there was a token for this server."""
    saved = _saved()
    known = saved["tokens"].pop(url, None) is not None
    if known:
        _save({"last": None if saved["last"] == url else saved["last"], "tokens": saved["tokens"]})
    return known


def _home() -> Path:
    return Path(os.environ.get("LONGTAIL_HOME") or DEFAULT_HOME).expanduser()


def _served() -> str | None:
    server_file = _home() / SERVER_FILE
    return str(json.loads(server_file.read_text(encoding="utf-8"))["url"]) if server_file.is_file() else None


def _file() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")) / "longtail" / "logins.json"  # noqa: PTH111


def _saved() -> dict[str, Any]:
    file = _file()
    saved: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {"last": None, "tokens": {}}
    return saved


def _save(logins: dict[str, Any]) -> Path:
    write_private(_file(), json.dumps(logins, indent=2))
    return _file()
