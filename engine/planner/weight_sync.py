"""How long new weights take from the learner to SGLang, by arithmetic over the links that they pass. Learner and engine share their GPUs,
so nothing is sent to others."""

from dataclasses import dataclass

from engine.planner.memory import FLOAT, HALF, Hardware
from engine.planner.model_shape import Shape

BUCKET_BYTES = 256 * 2**20
"""As engine.models.weights has it."""


@dataclass(frozen=True)
class Links:
    """Bytes a second: ``memory`` of a GPU's own (an H100's, of which four fifths are reached), ``nvlink`` of a GPU one way, ``network`` for
    each GPU. ``message``: seconds for a bucket to be announced and taken."""

    memory: float = 0.8 * 3.35e12
    nvlink: float = 450e9
    network: float = 50e9
    message: float = 5e-3


H100 = Links()


def sync_seconds(shape: Shape, hardware: Hardware, links: Links = H100, *, sharded: bool = True) -> float:
    """Of one worker. ``sharded`` weights are gathered first, in bfloat16, as each rank has its part: over NVLink within a node, else over
    the network. Then each GPU rounds them and writes them into a bucket, and the engine on the same GPU reads its share from there (CUDA
    IPC)."""
    size = HALF * shape.parameters
    others = 1 - 1 / hardware.ranks
    link = links.nvlink if hardware.nodes == 1 else links.network
    gathering = size * others / link if sharded else 0.0
    filling = (FLOAT + HALF) / HALF * size / links.memory
    taking = 2 * size / hardware.tensor_parallel / links.memory
    messages = 2 if hardware.tensor_parallel > 1 else 1  # the ranks tell each other, too
    return gathering + filling + taking + messages * -(-size // BUCKET_BYTES) * links.message
