"""What is kept of every running request: tokens, keys and values, and features. Request i of the batch lives in slot i."""

from collections.abc import Sequence

import torch
from torch import Tensor

from engine.rollout.native.architecture import Architecture, Rotary
from engine.rollout.native.layer import Pass


class KVCache:
    """Slots of ``capacity`` positions. A position is always written before it is read, so slots are never cleared.

    ``positions`` [capacity] counts from 0; ``tokens`` [slots * capacity]. For a drafter there are also the target's ``features``
    [slots * capacity, hidden], and the drafter's keys and values as one layer more. ``index`` leads to the rows.
    """

    positions: Tensor
    tokens: Tensor
    features: Tensor

    def __init__(self, architecture: Architecture, rotary: Rotary, like: Tensor, drafting: bool) -> None:
        """Takes no memory yet; it will be on ``like``'s device, in its data type."""
        self._a, self._rotary, self._like, self._drafting = architecture, rotary, like, drafting
        self._slots = self._capacity = 0
        self._allocated = False

    def reserve(self, slots: int, capacity: int) -> None:
        """Makes room for ``slots`` requests of ``capacity`` positions, unless there is as much already."""
        if self._allocated and slots <= self._slots and capacity <= self._capacity:
            return
        self.release()
        self._slots, self._capacity = max(slots, self._slots), max(capacity, self._capacity)
        self.resume()

    def release(self) -> None:
        """Frees the memory, and with it all that was kept."""
        if self._allocated:
            del self.tokens, self.features, self._kv, self._store, self._row, self.positions
        self._allocated = False

    def resume(self) -> None:
        """Takes as much memory as before ``release``."""
        if self._allocated:
            return
        a, like, slots, capacity = self._a, self._like, self._slots, self._capacity
        layers = a.layers + self._drafting
        self._store = like.new_zeros(layers, slots * capacity, 2 * a.kv_heads * a.head_dim)
        self._kv = self._store.view(layers, slots, capacity, 2, a.kv_heads, a.head_dim)
        self.tokens = torch.zeros(slots * capacity, dtype=torch.long, device=like.device)
        self.features = like.new_zeros(slots * capacity if self._drafting else 0, a.hidden)
        self.positions = torch.arange(capacity, device=like.device)
        self._row = torch.arange(0, slots * capacity, max(capacity, 1), device=like.device)[:, None]
        self._rotary.reserve(capacity)
        self._allocated = True

    def write(self, slot: int, prompt: Sequence[int]) -> None:
        """Puts a prompt's tokens at the start of a slot."""
        start = slot * self._capacity
        self.tokens[start : start + len(prompt)] = torch.tensor(prompt)

    def copy(self, source: int, target: int, positions: int) -> None:
        """Copies the first ``positions`` positions of one slot to another."""
        old = slice(source * self._capacity, source * self._capacity + positions)
        new = slice(target * self._capacity, target * self._capacity + positions)
        self.tokens[new] = self.tokens[old]
        self._store[:, new] = self._store[:, old]
        if self._drafting:
            self.features[new] = self.features[old]

    def index(self, positions: Tensor, first: int = 0) -> Tensor:
        """Rows of the flattened cache of ``positions`` [n, T] of slots ``first`` and following; [n, T]."""
        return positions + self._row[first : first + len(positions)]

    def plan(self, positions: Tensor, reach: int, first: int = 0) -> Pass:
        """A pass over ``positions`` [n, T] < ``reach`` of slots ``first`` and following; a token sees itself and all before it."""
        n, t = positions.shape
        flat = positions.flatten()
        hidden = self.positions[:reach] > positions[:, :, None]
        mask = self._like.new_zeros(n, t, 1, reach).masked_fill_(hidden[:, :, None], -torch.inf)
        mask = mask.expand(n, t, self._a.heads // self._a.kv_heads, reach).reshape(n, 1, -1, reach)
        window = self._kv[:, first : first + n, :reach].transpose(2, 4)
        return Pass(
            requests=n,
            tokens=t,
            index=self.index(positions, first).flatten(),
            cosine=self._rotary.cosine.index_select(0, flat),
            sine=self._rotary.sine.index_select(0, flat),
            mask=mask,
            store=self._store.unbind(),
            keys=window[:, :, :, 0].unbind(),
            values=window[:, :, :, 1].unbind(),
        )
