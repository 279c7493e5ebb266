"""What goes from one process to another as arrays."""

import pickle

import torch

from engine.cluster.spot_training.sent_weights import SentWeights


def test_their_bytes_are_no_part_of_the_pickle_and_the_receiver_may_write() -> None:
    sent = SentWeights({"fc.weight": torch.randn(256, 512), "d2t": torch.arange(300)})
    buffers: list[pickle.PickleBuffer] = []
    pickled = pickle.dumps(sent, protocol=5, buffer_callback=buffers.append)
    assert len(pickled) < 1000
    assert sum(len(buffer.raw()) for buffer in buffers) == 4 * 256 * 512 + 8 * 300
    readable = [memoryview(buffer).toreadonly() for buffer in buffers]  # as Ray's store gives them
    received = pickle.loads(pickled, buffers=readable)
    assert received.keys() == sent.keys()
    for name, weight in received.items():
        assert torch.equal(weight, sent[name])
        assert weight.dtype == sent[name].dtype
        weight.zero_()
    assert sent["fc.weight"].any()
