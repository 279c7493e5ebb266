"""Passwords by Argon2id, with the least memory that OWASP recommends, a few at a time: guessing must not exhaust the server."""

import threading

from argon2 import PasswordHasher
from argon2.exceptions import VerificationError

AT_ONCE = 2

_hasher = PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1)
_turns = threading.BoundedSemaphore(AT_ONCE)
_NOBODYS = _hasher.hash("nobody's")


def hash_password(password: str) -> str:
    with _turns:
        return _hasher.hash(password)


def verify(password_hash: str | None, password: str) -> bool:
    """Whether it is the password. Takes as long for somebody who has none."""
    with _turns:
        try:
            _hasher.verify(password_hash or _NOBODYS, password)
        except VerificationError:
            return False
    return password_hash is not None
