"""What this installation signs with."""

import secrets

from backend.settings import Settings
from longtail.schemas.credentials import SECRET_BYTES, keep_private


def server_secret(settings: Settings) -> bytes:
    """The same for all processes of a home, which the first use has made. It is in no database and in no backup; whoever removes the file
    ends all links."""
    return bytes.fromhex(keep_private(settings.secret_file, secrets.token_hex(SECRET_BYTES)))
