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

    def __init__(self, architecture: Architecture, rotary: Rotary, like: Tensor, drafting: bool, slots: int, capacity: int) -> None:
        """On ``like``'s device, in its data type."""
        a, device, rows = architecture, like.device, slots * capacity
        self._a, self._like, self._drafting = architecture, like, drafting
        self.slots, self.capacity = slots, capacity
        self.positions = torch.arange(capacity, device=device)
        self.tokens = torch.zeros(rows, dtype=torch.long, device=device)
        self.features = like.new_zeros(rows if drafting else 0, a.hidden)
        self._store = like.new_zeros(a.layers + drafting, rows, 2 * a.kv_heads * a.head_dim)
        self._layers = self._store.unbind()
        self._kv = self._store.view(a.layers + drafting, slots, capacity, 2, a.kv_heads, a.head_dim)
        self._start = torch.arange(slots, device=device)[:, None] * capacity
        self._cosine, self._sine = rotary.tables(capacity)

    def write(self, slot: int, prompt: Sequence[int]) -> None:
        """Puts a prompt's tokens at the start of a slot."""
        start = slot * self.capacity
        self.tokens[start : start + len(prompt)] = torch.tensor(prompt)

    def copy(self, source: int, target: int, length: int) -> None:
        """Copies the first ``length`` positions of one slot to another."""
        old = slice(source * self.capacity, source * self.capacity + length)
        new = slice(target * self.capacity, target * self.capacity + length)
        self.tokens[new] = self.tokens[old]
        self._store[:, new] = self._store[:, old]
        if self._drafting:
            self.features[new] = self.features[old]

    def features_of(self, slot: int, length: int) -> Tensor:
        """A copy of a slot's first ``length`` features, bf16 on the host."""
        start = slot * self.capacity
        return self.features[start : start + length].to("cpu", torch.bfloat16, copy=True)

    def index(self, positions: Tensor, first: int = 0) -> Tensor:
        """Rows of the flattened cache of ``positions`` [n, T] of slots ``first`` and following; [n, T]."""
        return positions + self._start[first : first + len(positions)]

    def plan(self, positions: Tensor, reach: int, first: int = 0) -> Pass:
        """A pass over ``positions`` [n, T] < ``reach`` of slots ``first`` and following; a token sees itself and all before it."""
        n, t = positions.shape
        flat = positions.flatten()
        future = self.positions[:reach] > positions[:, :, None]
        mask = self._like.new_zeros(n, t, 1, reach).masked_fill_(future[:, :, None], -torch.inf)
        mask = mask.expand(n, t, self._a.heads // self._a.kv_heads, reach).reshape(n, 1, -1, reach)
        window = self._kv[:, first : first + n, :reach].transpose(2, 4)
        return Pass(
            requests=n,
            tokens=t,
            index=self.index(positions, first).flatten(),
            cosine=self._cosine.index_select(0, flat),
            sine=self._sine.index_select(0, flat),
            mask=mask,
            store=self._layers,
            keys=window[:, :, :, 0].unbind(),
            values=window[:, :, :, 1].unbind(),
        )
