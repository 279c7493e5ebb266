"""A spot session: the drafter's training on responses of its target, until it is told to stop."""

import time
from math import isfinite

from engine.bench.gpu.models import bed
from engine.bench.gpu.parts import Part
from engine.bench.gpu.trained_models import choose
from engine.config import SpeculationConfig, SpotConfig
from engine.drafter.data_buffer import DataBuffer
from engine.drafter.eagle3 import drafter_of
from engine.drafter.offline_training import remember
from engine.drafter.spot_trainer import SpotTrainer
from engine.models.weights import ends
from engine.rollout.interface import Sampling


def run(part: Part) -> None:
    """Micro-steps and tokens per second, what held-out drafts gain, and how long a worker takes to stop."""
    name = choose(part.scale).trained[-1].name
    subject = bed(part, name)
    engine, scale = subject.engine(SpeculationConfig()), part.scale
    responses = engine.generate(subject.requests(scale.tail_requests, 8), Sampling(max_new_tokens=scale.tail_tokens))
    del engine
    buffer = DataBuffer(2**33)
    remember(buffer, 0, subject.model, [(each.request.prompt, each.tokens) for each in responses])
    trainer = SpotTrainer(drafter_of(subject.trained_drafter(), subject.model.config).to(subject.device), buffer, SpotConfig(passes=100))
    trainer.set_target(*ends(subject.model))
    began = time.perf_counter()
    ending = began + scale.seconds
    report = trainer.train(lambda: time.perf_counter() > ending)
    seconds = time.perf_counter() - began
    part.found(
        model=name,
        facts=subject.facts(),
        microsteps=report.microsteps,
        microsteps_s=round(report.microsteps / seconds, 2),
        tokens_s=round(report.tokens / seconds),
    )
    if seconds >= scale.seconds:  # else there was nothing left to train on
        part.found(late_s=round(seconds - scale.seconds, 3))
    if isfinite(report.after.accepted):  # else there was no time to look
        part.found(accepted_before=round(report.before.accepted, 4), accepted_after=round(report.after.accepted, 4))
