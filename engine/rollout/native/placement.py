"""Where the tokens of a forward pass lie, and what they see."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Placement:
    """Tokens at ``positions`` [n, T] of slots ``first`` and following. A token sees itself and all before it; all there is to see is below
    ``reach``, and of each request below what ``reaches`` tell, if they do.

    A tree's tokens are the last of those at ``entries`` [n, nodes] of the cache, and not at their positions; by default these follow
    ``newest`` [n, 1], which by default is the first token's. They see all before ``newest``, and the entries that ``paths`` [n, T, nodes]
    tells. ``rows`` [R] are the tokens there are, if not all n * T. ``index`` [n, T] are the rows of the cache that they are written to, if
    they are known. ``drafter``: it is the drafter's pass, else the target's. ``attends``: it reads the cache, too.
    """

    positions: Tensor
    reach: int
    first: int = 0
    newest: Tensor | None = None
    entries: Tensor | None = None
    paths: Tensor | None = None
    rows: Tensor | None = None
    index: Tensor | None = None
    drafter: bool = False
    attends: bool = True
    reaches: Sequence[int] = ()

    @property
    def requests(self) -> int:
        return self.positions.shape[0]

    @property
    def tokens(self) -> int:
        """Of each request."""
        return self.positions.shape[1]

    @property
    def root(self) -> Tensor:
        """Where trees begin, [n, 1]."""
        return self.positions[:, :1] if self.newest is None else self.newest

    @property
    def written(self) -> Tensor:
        """Where the tokens' keys and values go, [n, T]."""
        if self.paths is None:
            return self.positions
        if self.entries is not None:
            return self.entries[:, -self.tokens :]
        nodes = self.paths.shape[2]
        return self.root + torch.arange(nodes - self.tokens, nodes, device=self.positions.device)

    @property
    def tensors(self) -> dict[str, Tensor]:
        """All there are, by their names."""
        there = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in there.items() if isinstance(value, Tensor)}

    def on(self, given: dict[str, Tensor]) -> "Placement":
        """The same with ``given`` tensors in place of its own."""
        ours: dict[str, Any] = {name: given[name] for name in self.tensors}
        return replace(self, **ours)
