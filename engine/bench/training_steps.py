"""What a training step of the learner and of the drafter costs a GPU besides its arithmetic, counted on an emulated one."""

from random import Random

from engine.bench.emulated_cuda.device import EmulatedCuda
from engine.bench.emulated_cuda.memory import CUDA
from engine.bench.testbed import Bed
from engine.config import SpotConfig
from engine.config.algorithm import AlgorithmConfig
from engine.config.learner import LearnerConfig
from engine.drafter.data_buffer import DataBuffer
from engine.drafter.eagle3 import drafter_of
from engine.drafter.offline_training import remember
from engine.drafter.spot_trainer import SpotTrainer
from engine.models.load import load_model, resolve
from engine.models.weights import ends
from engine.policy.training.learner import Learner
from engine.policy.training.replicated_policy import ReplicatedPolicy
from engine.policy.training.training_row import TrainingRow

ROWS, PROMPT, RESPONSE = 8, 8, 24
MICROBATCHES = 2
Counts = dict[str, int]


def learner_step(bed: Bed) -> Counts:
    """One update on ``ROWS`` responses in ``MICROBATCHES`` packed micro-batches, in bfloat16 with float32 weights, as on a GPU."""
    rows = [TrainingRow(tuple(tokens), PROMPT, (-1.0) ** number, (-2.0,) * RESPONSE) for number, tokens in enumerate(_sequences())]
    config = AlgorithmConfig(kl_coefficient=0.0, tokens_per_microbatch=ROWS * (PROMPT + RESPONSE) // MICROBATCHES)
    with EmulatedCuda() as device:
        policy = load_model(resolve(bed.model_name), "float32")
        learner = Learner(ReplicatedPolicy(policy, LearnerConfig(packed=True), 1.0, CUDA, None, False), config, RESPONSE)
        device.forget()
        learner.update(rows, None, 0)
        return counts(device)


def drafter_step(bed: Bed) -> Counts:
    """One micro-step of a spot session on the same responses."""
    buffer = DataBuffer(2**28)
    remember(buffer, 0, bed.model, [(tokens[:PROMPT], tokens[PROMPT:]) for tokens in _sequences()])
    with EmulatedCuda() as device:
        drafter = drafter_of(bed.trained_drafter(), bed.model.config).to(CUDA)
        trainer = SpotTrainer(drafter, buffer, SpotConfig())
        trainer.set_target(*(end.to(CUDA) for end in ends(bed.model)))
        first, second = next(trainer.one_pass()), next(trainer.one_pass())
        trainer.micro_step(first)
        device.forget()
        trainer.micro_step(second)
        return counts(device)


def counts(device: EmulatedCuda) -> Counts:
    """Since it was last told to forget."""
    return {"launches": device.launches.total(), "graph_launches": device.replays, "syncs": device.syncs.total()}


def _sequences() -> list[list[int]]:
    draw = Random(0)
    return [[draw.randrange(2, 90) for _ in range(PROMPT + RESPONSE)] for _ in range(ROWS)]
