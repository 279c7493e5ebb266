"""Exponential random variables that are a function of (seed, request, position, token) alone, so that whoever draws a token there, in
whatever batch, draws with the same ones.

Few numbers go through 64 bits: seed, request and position make the key of a row. The many, one for each token, are made with 32-bit
products, which processors have vector instructions for, and in one kernel of a GPU.
"""

from collections.abc import Mapping
from functools import cached_property

import torch
from torch import Tensor

from engine.rollout.native.row_chunks import row_chunks


class Noise:
    """Noise for the tokens at ``positions`` [n, levels] of ``requests`` (ids) [n]. It is made when it is first asked for, and kept, where
    there is memory for it: the drafter and the target draw with the same."""

    def __init__(
        self, seed: Tensor, vocabulary: Tensor, requests: Tensor, positions: Tensor, memory: Tensor | None = None, small: bool = False
    ) -> None:
        """``seed``, a scalar, has gone through ``mix``; ``vocabulary``: see ``token_codes``. It is kept in ``memory`` [rows, vocabulary],
        if that has room for it; a GPU that has none for it makes what is asked for each time, unless it is ``small``."""
        self._seed, self._requests, self._positions, self._memory = seed, requests, positions, memory
        self._small = small
        self.vocabulary, self.levels = vocabulary, positions.shape[1]

    @property
    def inputs(self) -> dict[str, Tensor]:
        """What it is made of, for ``on``."""
        return {"seed": self._seed, "vocabulary": self.vocabulary, "requests": self._requests, "positions": self._positions}

    def on(self, given: Mapping[str, Tensor]) -> "Noise":
        """The noise that is made of other ``inputs`` of the same shapes, in the same memory; this one if they are its own."""
        if given["positions"] is self._positions:
            return self
        seed, vocabulary, requests, positions = (given[name] for name in self.inputs)
        return Noise(seed, vocabulary, requests, positions, self._memory, self._small)

    def first(self, levels: int) -> "Noise":
        """Of the first ``levels``, or of all if there are no more."""
        if levels >= self.levels:
            return self
        return Noise(self._seed, self.vocabulary, self._requests, self._positions[:, :levels], self._memory, self._small)

    def take(self) -> None:
        """Takes for its own what one on other inputs of the same values has put in their memory, if there is any."""
        if (there := self._room) is not None:
            self.exponentials = there

    @property
    def _room(self) -> Tensor | None:
        rows = self._positions.numel()
        return None if self._memory is None or rows > len(self._memory) else self._memory[:rows]

    def rows(self, rows: Tensor) -> "NoiseRows":
        """``rows`` [R] count as [n, levels] does when it is flat."""
        return NoiseRows(self, rows)

    def level(self, level: int, repeats: int = 1) -> "NoiseRows":
        """One level of each request, ``repeats`` times in a row; n * repeats rows."""
        rows = torch.arange(level, self._positions.numel(), self.levels, device=self._positions.device)
        return NoiseRows(self, rows.repeat_interleave(repeats) if repeats > 1 else rows)

    def of_tokens(self, ids: Tensor, levels: int) -> "Noise":
        """The same for the tokens ``ids`` [D] alone, which count from 0 in it, and for the first ``levels``."""
        return Noise(self._seed, self.vocabulary[ids], self._requests, self._positions[:, :levels], small=True)

    @property
    def keeps(self) -> bool:
        """Whether what was made once is there the next time."""
        return self._small or not self._positions.is_cuda or self._room is not None

    @cached_property
    def keys(self) -> Tensor:
        """[n * levels], int64."""
        return mix(mix(self._seed ^ self._requests)[:, None] ^ self._positions).flatten()

    @cached_property
    def exponentials(self) -> Tensor:
        """[n * levels, vocabulary]."""
        noise = self._room
        if noise is None:
            noise = torch.empty(len(self.keys), len(self.vocabulary), device=self.keys.device)
        if noise.is_cuda:
            exponentials_into(noise, self.keys, self.vocabulary)
            return noise
        for chunk in row_chunks(noise, noise.shape[1]):
            noise[chunk] = exponentials(self.keys[chunk], self.vocabulary)
        return noise


class NoiseRows:
    """Some rows of a Noise."""

    def __init__(self, noise: Noise, rows: Tensor) -> None:
        self._noise, self._rows = noise, rows

    def __getitem__(self, rows: slice | Tensor) -> "NoiseRows":
        return NoiseRows(self._noise, self._rows[rows])

    def kept(self) -> Tensor:
        """[R, vocabulary], of what is kept, if it is; one row without a copy, where that needs not wait for a GPU."""
        if not self._noise.keeps:
            return self.of()
        kept = self._noise.exponentials
        if len(self._rows) == 1 and not kept.is_cuda:
            return kept.narrow(0, int(self._rows), 1)
        return kept.index_select(0, self._rows)

    def of(self, tokens: Tensor | None = None) -> Tensor:
        """The same for ``tokens`` [R, K] only, or for all of the vocabulary; it is not kept."""
        codes = self._noise.vocabulary if tokens is None else self._noise.vocabulary[tokens]
        return exponentials(self._noise.keys[self._rows], codes)


def exponentials(keys: Tensor, codes: Tensor) -> Tensor:
    """Exponential random variables of mean 1, [R, K], for the rows' ``keys`` [R] and the tokens' ``codes`` [K] or [R, K].

    The smaller one is, the more precise, for small ones decide the race: 31 bits of the row and the token are the digits of a uniform
    number, below which there is a fraction, the row's. It is never 0.
    """
    if keys.is_cuda:
        noise = torch.empty(len(keys), codes.shape[-1], device=keys.device)
        exponentials_into(noise, keys, codes)
        return noise
    words = keys[:, None].view(torch.int32)
    digits = codes ^ words[:, :1]
    _mix_bits(digits.mul_(_signed(0x21F0AAAD, 32)), 15)
    digits.bitwise_xor_(words[:, 1:])
    _mix_bits(digits.mul_(_signed(0x735A2D97, 32)), 15)
    fraction = ((keys * _signed(0x9E3779B97F4A7C15, 64) >> 41).bitwise_and_(2**23 - 1).float().add_(0.5)).mul_(2.0**-23)
    negative = digits.float().add_(fraction[:, None]).abs_().mul_(-(2.0**-31)).clamp_(min=2.0**-24 - 1)
    return negative.log1p_().neg_()


@torch.library.custom_op("longtail::exponentials_into", mutates_args=("noise",), device_types="cpu")
def exponentials_into(noise: Tensor, keys: Tensor, codes: Tensor) -> None:
    """``exponentials`` into ``noise`` [R, K], of a GPU."""
    noise.copy_(exponentials(keys, codes))  # on the emulated one


@exponentials_into.register_kernel("cuda")
def _(noise: Tensor, keys: Tensor, codes: Tensor) -> None:
    from engine.rollout.native.noise_kernel import fill  # Triton comes with torch for GPUs only

    fill(noise, keys, codes)


def token_codes(vocabulary: int, device: torch.device) -> Tensor:
    """[vocabulary], int32: different for different tokens, and in no order. The finaliser lowbias32 of Ettinger's."""
    codes = torch.arange(vocabulary, dtype=torch.int32, device=device)
    _mix_bits(codes, 16)
    _mix_bits(codes.mul_(_signed(0x21F0AAAD, 32)), 15)
    return _mix_bits(codes.mul_(_signed(0x735A2D97, 32)), 15)


def mix(x: Tensor) -> Tensor:
    """splitmix64: a bijection of 64-bit integers in which every input bit changes half of the output bits."""
    x = x + _signed(0x9E3779B97F4A7C15, 64)
    x = _mix_bits(x, 30).mul_(_signed(0xBF58476D1CE4E5B9, 64))
    x = _mix_bits(x, 27).mul_(_signed(0x94D049BB133111EB, 64))
    return _mix_bits(x, 31)


def _mix_bits(x: Tensor, shift: int) -> Tensor:
    """In place: the upper bits change those that lie ``shift`` lower."""
    width = 8 * x.itemsize
    return x.bitwise_xor_((x >> shift).bitwise_and_(2 ** (width - shift) - 1))


def _signed(constant: int, width: int) -> int:
    return constant - 2**width if constant >> (width - 1) else constant
