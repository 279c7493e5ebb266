"""From losses of tokens to the loss of an update: a sum of weighted tokens over a count that all workers share.

| name | loss | source |
|---|---|---|
| token_mean | mean over all tokens | DAPO, arXiv 2503.14476, section 3.3 |
| sequence_mean | mean over responses of the mean over their tokens | GRPO, arXiv 2402.03300, equation 3; GSPO |
| sequence_sum | mean over responses of the sum over their tokens | REINFORCE, RLOO |
| fixed_length | the same, divided by the length limit | Dr.GRPO, arXiv 2503.20783, section 3.2 |
"""


def weight(aggregation: str, length: int, limit: int) -> float:
    """Of each token of a response of ``length`` tokens, ``limit`` being the greatest that there can be."""
    return {"sequence_mean": 1.0 / length, "fixed_length": 1.0 / limit}.get(aggregation, 1.0)


def counts(aggregation: str, length: int) -> int:
    """What a response of ``length`` tokens counts in the denominator."""
    return length if aggregation == "token_mean" else 1
