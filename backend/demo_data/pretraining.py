"""Rounds of training a drafter that never were: it learns fast, then slowly, and ends before its time when nothing more is gained."""

from collections.abc import Iterator
from math import exp
from random import Random

from engine.config import RunConfig
from engine.events import DrafterPretrained

ROUNDS, USED = 40, 0.85
"""Rounds in the time given, and the share of that after which nothing more is gained."""
RESPONSES, RESPONSE_TOKENS, MICROSTEPS = 128, 28_000, 90
BEST, FIRST = 0.68, 0.22
LOOK_AHEAD = 4
ALL_TOKENS = 151_936


def rounds(run: RunConfig, start: float) -> Iterator[DrafterPretrained]:
    """Those of ``run``, of which it has ROUNDS in ``drafter.pretrain_minutes``; ``start`` is in seconds since the epoch."""
    chance, limit = Random(run.seed), 60 * run.drafter.pretrain_minutes
    last = round(USED * ROUNDS)
    for number in range(1, last + 1) if limit else ():
        seconds = limit * number / ROUNDS
        accepted = BEST - (BEST - FIRST) * exp(-5 * number / ROUNDS) + chance.gauss(0, 0.004)
        settled = number > 0.7 * last
        yield DrafterPretrained(
            time=start + seconds,
            round=number,
            seconds=seconds,
            limit=limit,
            end=limit * last / ROUNDS if settled else limit,
            done=number == last,
            responses=RESPONSES * number,
            response_tokens=RESPONSE_TOKENS * number,
            microsteps=MICROSTEPS,
            tokens=2 * RESPONSE_TOKENS,
            loss=1.1 + 3.4 * exp(-6 * number / ROUNDS) + chance.gauss(0, 0.02),
            held_out=accepted,
            top1=accepted + 0.03,
            top3=min(0.98, accepted + 0.21),
            accept_length=1 + LOOK_AHEAD * accepted,
            vocabulary=run.drafter.draft_vocabulary or ALL_TOKENS,
            drafter_version=number,
        )
