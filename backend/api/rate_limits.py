"""How often one caller may do a thing."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from backend.errors import TooManyRequestsError

MOST_KEYS = 10_000
ADDRESS_FACTOR = 3


class RateLimit:
    """``burst`` times at once, ``rate`` times a second in the long run, for each key (a leaky bucket). Thread-safe."""

    def __init__(self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        self._levels: dict[str, tuple[float, float]] = {}
        self._lock = threading.Lock()

    def take(self, key: str) -> float:
        """Counts one time and gives 0, or gives the seconds to wait and counts nothing."""
        with self._lock:
            level = self._level(key)
            if level + 1 > self._burst:
                return (level + 1 - self._burst) / self._rate
            if len(self._levels) >= MOST_KEYS:
                self._levels = {each: held for each, held in self._levels.items() if self._level(each) > 0}
            self._levels[key] = level + 1, self._clock()
            return 0.0

    def give_back(self, key: str) -> None:
        with self._lock:
            self._levels[key] = max(0.0, self._level(key) - 1), self._clock()

    def _level(self, key: str) -> float:
        level, since = self._levels.get(key, (0.0, 0.0))
        return max(0.0, level - (self._clock() - since) * self._rate)


class LoginLimits:
    """Wrong logins by user name and by address. In the block a login counts as wrong; it is forgiven if the block does not raise."""

    def __init__(self, per_minute: float) -> None:
        self._users = RateLimit(per_minute / 60, per_minute)
        self._addresses = RateLimit(ADDRESS_FACTOR * per_minute / 60, ADDRESS_FACTOR * per_minute)

    @contextmanager
    def attempt(self, address: str, user: str) -> Iterator[None]:
        for limit, key in ((self._addresses, address), (self._users, user)):
            if key and (seconds := limit.take(key)):
                raise TooManyRequestsError("too many wrong logins; wait a little", seconds)
        yield
        self._addresses.give_back(address)
        self._users.give_back(user)
