"""What decoding took in a step and would have taken otherwise, as metrics."""

from collections.abc import Mapping

from engine.speculation.counterfactual import DecodeSeconds


def decode_savings(workers: Mapping[int, DecodeSeconds], gain: float) -> dict[str, float]:
    """Of the slowest worker, whom all wait for: seconds of its decode steps (decode_seconds), and of whoever would be the slowest, what the
    same tokens would have taken plainly (decode_seconds/plain), with n-grams at most (decode_seconds/ngram), and with the drafter that was
    there before the first step (decode_seconds/untrained): so many times as many learned drafts as training has had a ``gain``, or without
    them where that is faster. Nothing of workers that do not know."""
    if not workers:
        return {}
    slowest = max(workers.values(), key=lambda worker: worker.spent)
    ngram = max(worker.ngram for worker in workers.values())
    untrained = slowest.spent + (gain - 1) * slowest.learned
    return {
        "decode_seconds": slowest.spent,
        "decode_seconds/plain": max(worker.plain for worker in workers.values()),
        "decode_seconds/ngram": ngram,
        "decode_seconds/untrained": min(untrained, max(ngram, slowest.spent)),
    }
