"""How often one caller may do a thing."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ipaddress import ip_address, ip_network

from backend.errors import TooManyRequestsError

MOST_KEYS = 10_000
ADDRESS_FACTOR, USER_FACTOR = 3, 10
SITE_BITS = 64
"""Of an IPv6 address, which whoever has it may vary at will below."""


class RateLimit:
    """``burst`` times at once, ``rate`` times a second in the long run, for each key (a leaky bucket). Thread-safe."""

    def __init__(self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        self._levels: dict[str, tuple[float, float]] = {}
        self._lock = threading.Lock()

    def is_free(self, key: str) -> bool:
        """Whether it may be done now; counts nothing."""
        with self._lock:
            return self._level(key) + 1 <= self._burst

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
    """Wrong logins: ``per_minute`` for one user name from one address, more from one address for all names, and more for one name from all
    addresses. An address from which a user has come in before has that user's first limit only: so whoever guesses from elsewhere locks
    nobody out. In each block a login counts as wrong; it is forgiven if the block does not raise.
    """

    def __init__(self, per_minute: float) -> None:
        self._pairs = RateLimit(per_minute / 60, per_minute)
        self._addresses, self._secrets = (RateLimit(ADDRESS_FACTOR * per_minute / 60, ADDRESS_FACTOR * per_minute) for _ in range(2))
        self._users = RateLimit(USER_FACTOR * per_minute / 60, USER_FACTOR * per_minute)
        self._known: OrderedDict[str, None] = OrderedDict()

    @contextmanager
    def by_password(self, address: str, user: str) -> Iterator[None]:
        site = _site(address)
        pair = f"{site} {user}"
        wider = () if pair in self._known else ((self._addresses, site), (self._users, user))
        with _counted((self._pairs, pair), *wider):
            yield
        self._known[pair] = None
        self._known.move_to_end(pair)
        if len(self._known) > MOST_KEYS:
            self._known.popitem(last=False)

    @contextmanager
    def by_secret(self, address: str) -> Iterator[None]:
        """By a token or ticket, which nobody guesses: whoever guesses passwords from the same address does not keep it out."""
        with _counted((self._secrets, _site(address))):
            yield

    @contextmanager
    def by_session(self, token_id: str) -> Iterator[None]:
        """The password once more, from whoever has come in already."""
        with _counted((self._pairs, token_id)):
            yield


@contextmanager
def _counted(*limits: tuple[RateLimit, str]) -> Iterator[None]:
    taken: list[tuple[RateLimit, str]] = []
    for limit, key in limits:
        if seconds := limit.take(key):
            _give_back(taken)  # what is refused was no try
            raise TooManyRequestsError("too many wrong logins; wait a little", seconds)
        taken.append((limit, key))
    yield
    _give_back(taken)


def _give_back(taken: list[tuple[RateLimit, str]]) -> None:
    for limit, key in taken:
        limit.give_back(key)


def _site(address: str) -> str:
    """What one party holds: an IPv4 address, or a network of IPv6 addresses."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if parsed.version == 4:
        return str(parsed)
    return str(parsed.ipv4_mapped or ip_network((parsed, SITE_BITS), strict=False))
