"""What each metric of the engine is, in one sentence. ``engine.events.kinds.StepFinished`` lists them for those who write them."""

import re
from collections.abc import Mapping

MEANINGS: Mapping[str, str] = {
    "accept_length": "Tokens that one pass of the target yields a request; plain decoding has 1.",
    "all_right_share": "Share of the prompts whose responses are all right: these teach nothing.",
    "all_wrong_share": "Share of the prompts whose responses are all wrong: these teach nothing.",
    "carried_responses": "Responses that are not finished, and that the next step goes on with.",
    "clip_share": "Share of the tokens whose update was cut off.",
    "decode_seconds": "Seconds of decoding of the slowest worker, for whom all wait.",
    "decode_seconds/ngram": "Estimate: seconds that the same tokens would have taken with n-gram drafts, or none where these do not pay.",
    "decode_seconds/plain": "Estimate: seconds that the same tokens would have taken without drafts.",
    "decode_seconds/untrained": "Estimate: seconds that the same tokens would have taken with the drafter from before the first step.",
    "discarded_tokens": "Tokens that are in no response. Anything but 0 is a fault.",
    "drafter_version": "Version of the drafter that drafted in the step. Each publication raises it by one.",
    "entropy": "How undecided the policy is, in nats a token. Near 0 nothing new is tried.",
    "forecast_correlation": "Correlation of predicted and true response lengths: 1 is a perfect forecast.",
    "generated_tokens": "Tokens generated in the step's rollout.",
    "gradient_norm": "Norm of the gradient before it is clipped.",
    "idle_seconds": "Seconds that workers waited in the rollout, all together; with training of the drafter, without inference.",
    "kept_share": "Share of the responses that were learned from. The rest is of groups that teach nothing, where these are left out.",
    "kl": "How far the policy has moved from where it started, in nats a token.",
    "learning_rate": "Learning rate of the policy's update.",
    "logprob_gap": "Mean difference of a token's log-prob between engine and trainer, in nats.",
    "loss": "Loss of the policy's update. It hovers around 0 and need not fall.",
    "preemptions": "How often a response had to wait again, as the cache was full.",
    "prompt_tokens": "Mean length of the prompts, in tokens.",
    "response_tokens": "Mean length of the responses, in tokens.",
    "reward_mean": "Mean reward of the step's responses.",
    "reward_std": "Standard deviation of the step's rewards. Near 0 nothing is left to learn.",
    "right_tokens": "Mean length of the right responses, in tokens.",
    "skipped_updates": "Updates of the policy that were left out, since their gradient was not finite.",
    "stale_share": "Share of the tokens learned from that an older policy wrote.",
    "staleness_max": "Updates between the policy that wrote a token and the one that learns from it, at most.",
    "staleness_mean": "Updates between the policy that wrote a token and the one that learns from it, on average.",
    "step_seconds": "Seconds that the step took.",
    "stopped_responses": "Responses that were ended as they were, since enough groups were complete.",
    "sync_bytes": "Bytes of the target's weights that all workers took into their engines.",
    "sync_seconds": "Seconds that the slowest worker took to load the target's weights into its engine, checks included.",
    "target_drift": "Relative change of the target's weights since the drafter was last trained.",
    "tokens_per_second": "Generated tokens per second of rollout, all workers together.",
    "trained_seconds": "Seconds of waiting in which workers trained the drafter, all together.",
    "training_cost_seconds": "About how many seconds the step took longer as the drafter was trained: decoding beside it, and judging it.",
    "truncated_share": "Share of the responses that were cut at rollout.max_new_tokens.",
    "unused_tokens": "Tokens generated, but not learned from in this step.",
    "wrong_tokens": "Mean length of the wrong responses, in tokens.",
    "eval/pass_at_1": "Share of the validation prompts that a single response solves.",
    "eval/response_tokens": "Mean length of the responses to validation prompts, in tokens.",
    "eval/reward": "Mean reward on validation prompts.",
    "eval/truncated_share": "Share of the responses to validation prompts that were cut at the limit.",
}
FAMILIES: Mapping[re.Pattern[str], str] = {
    re.compile(r"phase/(\w+)"): "Seconds that the phase {0} took in each step.",
    re.compile(r"worker/(\d+)/tokens_per_second"): "Tokens per second of worker {0} while it generates.",
    re.compile(r"eval/pass_at_(\d+)"): "Share of the validation prompts that one of {0} responses solves.",
    re.compile(r"system/(.+)/cpu_percent"): "Use of all cores of {0}, by everybody, in percent.",
    re.compile(r"system/(.+)/memory_gb"): "Memory taken of {0}, by everybody, in GB.",
    re.compile(r"system/(.+)/memory_percent"): "Memory taken of {0}, by everybody, in percent.",
    re.compile(r"system/(.+)/gpu([^/_]+)_percent"): "Time with a kernel running on GPU {1} of {0}, in percent.",
    re.compile(r"system/(.+)/gpu([^/_]+)_memory_gb"): "Memory taken of GPU {1} of {0}, in GB.",
}


def meaning(key: str) -> str | None:
    """None of a metric that the engine does not know, such as one that a script tracks."""
    families = ((sentence, pattern.fullmatch(key)) for pattern, sentence in FAMILIES.items())
    return MEANINGS.get(key) or next((sentence.format(*match.groups()) for sentence, match in families if match), None)
