"""What a training window sees of its response before it: keys and values, which are cheap, as they depend on no attention."""

import torch
from torch import Tensor

from engine.drafter.model import Drafter
from engine.drafter.packing import MicroBatch, Segment
from engine.models.host_to_device import to_device
from engine.models.packed_attention import KeysAndValues, Past

AT_ONCE = 1024
"""Positions whose inputs, which are wider than their keys, are on the device at a time."""


@torch.no_grad()
def past_of(drafter: Drafter, embedding: Tensor, batch: MicroBatch) -> Past | None:
    """Of each segment of ``batch``, without gradients; ``embedding`` [V, H] is the target's."""
    return [_keys(drafter, embedding, segment) if len(segment) else None for segment in batch.past] or None


def _keys(drafter: Drafter, embedding: Tensor, segment: Segment) -> KeysAndValues:
    edges = range(segment.start, segment.stop, AT_ONCE)
    parts = [_part(drafter, embedding, Segment(segment.entry, start, min(start + AT_ONCE, segment.stop))) for start in edges]
    keys, values = (torch.cat(each, 2) for each in zip(*parts, strict=True))
    return keys, values


def _part(drafter: Drafter, embedding: Tensor, segment: Segment) -> KeysAndValues:
    places = slice(segment.start, segment.stop)
    tokens = to_device(segment.entry.tokens[segment.start + 1 : segment.stop + 1], embedding.device)
    features = to_device(segment.entry.features[places], embedding.device).to(embedding.dtype)
    positions = segment.entry.first + torch.arange(segment.start, segment.stop, device=embedding.device)
    return drafter.keys_and_values(drafter.embed(tokens[None], embedding), drafter.fuse(features[None]), positions[None])
