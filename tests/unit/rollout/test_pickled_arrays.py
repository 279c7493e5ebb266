"""What travels between processes comes out as it was, and is small."""

import math
import pickle
import random
from dataclasses import replace

import pytest

from engine.policy.training.training_row import TrainingRow
from engine.rollout.interface import Completion, PartialResponse, Request

TOKENS = 1000
LOGPROBS = (-0.0, -math.inf, -5e-324, math.nextafter(-1.0, 0.0), *(-random.Random(0).random() for _ in range(TOKENS - 4)))
IDS = (0, 2**31 - 1, *range(150_000, 150_000 + TOKENS - 2))
BEGUN = PartialResponse(IDS, LOGPROBS, ((3, TOKENS),))
TRAVELLERS = {
    "part of a response": BEGUN,
    "response": Completion(Request(1, 0, (5, 6)), IDS, LOGPROBS, "stop", 3, 2, bytes(10)),
    "training row": TrainingRow((7, *IDS), 1, 0.25, LOGPROBS, masked=True),
    "empty": replace(BEGUN, tokens=(), logprobs=()),
}


@pytest.mark.parametrize("name", TRAVELLERS)
def test_numbers_travel_as_arrays_and_come_out_to_the_bit(name: str) -> None:
    there = TRAVELLERS[name]
    buffers: list[pickle.PickleBuffer] = []
    sent = pickle.dumps(there, protocol=5, buffer_callback=buffers.append)
    back = pickle.loads(sent, buffers=buffers)
    assert back == there
    assert repr(back) == repr(there), "-0.0 and 0.0 are equal, and so are 1 and 1.0"
    assert hash(back) == hash(there)
    assert len(sent) < 1000
    assert sum(buffer.raw().nbytes for buffer in buffers) <= (4 + 8) * TOKENS + 4


def test_a_response_that_goes_on_takes_what_it_has_begun_with() -> None:
    begun = Completion(Request(1, 0, (5, 6), BEGUN), IDS, LOGPROBS, "abort", 4, 2)
    back = pickle.loads(pickle.dumps(begun))
    assert back == begun
    assert back.spans == begun.spans
