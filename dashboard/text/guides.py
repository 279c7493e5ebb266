"""How to read each tab of the run page, and how to get what it shows by REST and by command."""

from collections.abc import Mapping
from typing import NamedTuple


class Guide(NamedTuple):
    """``question`` that a tab answers; ``read``: what to look at first, and what is healthy; ``rest`` and ``command``: the same without the
    dashboard, {run} standing for the run's id."""

    question: str
    read: str
    rest: str
    command: str


GUIDES: Mapping[str, Guide] = {
    "Overview": Guide(
        "Does the reward rise, where do the seconds of a step go, and what is to be done?",
        "Begin with the reward: the line is a mean over a window of steps, the dots are single steps. Then look at which phase has most "
        "of a step's seconds: only that is worth making faster. Alarms come first in the list of what is to be done.",
        "GET /api/v1/runs/{run}/statistics",
        "longtail show {run}",
    ),
    "Pretraining": Guide(
        "How good is the drafter that is trained before the first step?",
        "The expected accept length is to rise; where it is flat for some minutes, more time brings nothing.",
        "GET /api/v1/runs/{run}/pretraining",
        "longtail show {run}",
    ),
    "Learning": Guide(
        "What do the responses teach, and how does the policy move?",
        "A prompt teaches only if some of its responses are right and some are wrong. If the share that is all wrong grows, prompts are "
        "too hard; if the share that is all right does, too easy. Entropy near 0 and a leap of the KL mean that the policy has collapsed.",
        "GET /api/v1/runs/{run}/metrics?keys=all_right_share,all_wrong_share,kl,entropy",
        "longtail export curves.csv {run} --metrics --key entropy --key kl",
    ),
    "Long tail": Guide(
        "How long are the responses, and how long do the few longest hold everyone up?",
        "The further the longest response is from the 90th percentile, the longer workers wait, and the more speculation can bring.",
        "GET /api/v1/runs/{run}/lengths",
        "longtail show {run}",
    ),
    "Timeline": Guide(
        "Who did what when: generating, waiting, training the drafter?",
        "Each lane is a worker. IDLE at the end of a rollout is the tail; TRAINING or INFERENCE in its place is time made use of.",
        "GET /api/v1/runs/{run}/spans",
        "longtail trace RUN_FOLDER",
    ),
    "Speculation": Guide(
        "What drafts, how much of it is accepted, and does the tuner choose well?",
        "An accept length of 1 is plain decoding. Regret is what better choices would have saved; its first bars are trials.",
        "GET /api/v1/runs/{run}/speculation",
        "longtail show {run}",
    ),
    "Training": Guide(
        "Does the policy learn soundly? And how good is it on prompts that it is not trained on?",
        "The loss hovers around 0 and says little. Watch gradient norm and clip share for leaps, and the gap of engine and trainer.",
        "GET /api/v1/runs/{run}/metrics?keys=loss,gradient_norm,clip_share",
        "longtail export curves.csv {run} --metrics --key gradient_norm",
    ),
    "Drafter": Guide(
        "How well does each version foresee the model, and why was it published or not?",
        "Every update of the model takes something from the drafter's accuracy; its training is to bring that back. Only a gain beyond the "
        "noise of the held-out responses is published.",
        "GET /api/v1/runs/{run}/drafters",
        "longtail download {run}",
    ),
    "Samples": Guide(
        "What was asked and answered, how good was that, and what drafted which tokens?",
        "Answers to one prompt stand together, with the rewards of all of its group: read a right and a wrong one side by side.",
        "GET /api/v1/runs/{run}/samples?outcome=wrong",
        "longtail show {run}",
    ),
    "Metrics": Guide(
        "Any series, as chosen.",
        "Search by a regular expression, pin what you look at in every run, and take the points away as a table.",
        "GET /api/v1/runs/{run}/metrics/keys",
        "longtail export points.csv {run} --metrics",
    ),
    "System": Guide(
        "How busy were the machines?",
        "A GPU that is idle during the rollout waits for the tail; memory near its limit ends runs.",
        "GET /api/v1/runs/{run}/metrics?prefix=system/",
        "longtail export points.csv {run} --metrics",
    ),
    "Logs": Guide(
        "What did the run say?",
        "A line for each step, publication, checkpoint and alarm. Errors and alarms can be chosen above.",
        "GET /api/v1/runs/{run}/logs?tail=200",
        "longtail logs {run}",
    ),
    "Config": Guide(
        "With what was it made, how does that differ from a preset, and what did each attempt run in?",
        "The differences are all that somebody chose; the rest are defaults.",
        "GET /api/v1/runs/{run}",
        "longtail show {run}",
    ),
    "Files": Guide(
        "What does it leave to take away, such as its drafter?",
        "The newest version of each file is on top. The checksum tells whether a download is whole.",
        "GET /api/v1/runs/{run}/artifacts",
        "longtail download {run}",
    ),
}
EVERY_ROUTE = "/openapi.json"
"""Where the API describes itself."""
GLOSSARY: Mapping[str, str] = {
    "accept length": "Tokens that one pass of the target yields a request: accepted drafts and its own token. Plain decoding: 1.",
    "advantage": "How much better a response is than the others to its prompt: what it teaches, and in which direction.",
    "arm": "A strategy at a batch size, as the tuner sees it: one of the things it can choose.",
    "baseline, plain twin": "The same run without speculation: same model, task, limits and seed. By it a speed-up is measured.",
    "chain, tree": "Drafts of a drafter: tokens in a row, or with several candidates at each place.",
    "clip share": "Share of the tokens whose update was cut off, as the policy had already moved far enough in that direction.",
    "dip": "What an update of the target takes from the drafter's accuracy, if it is more than 5 % of it.",
    "drafter": "The small model that guesses tokens ahead. It shares the target's embedding and head.",
    "entropy": "How undecided the policy is, in nats a token. Near 0 it always says the same, and nothing new is tried.",
    "group": "All responses to one prompt in one step. If all are right, or all wrong, they teach nothing.",
    "harvest": "The share of the workers' waiting time that was used to train the drafter.",
    "held-out responses": "Responses that the drafter is never trained on, by which its versions are judged.",
    "KL": "How far the policy has moved from where it started, in nats a token. Not measured where its coefficient is 0.",
    "n-grams": "Drafts without a model: tokens that followed the same words in other responses.",
    "pass": "One run of the target over a batch: a decode step. With drafts it checks several tokens at once.",
    "policy, target": "The model that is trained (policy) and that the drafter imitates (target): they are the same one.",
    "pull": "One decode step for which the tuner chose a strategy.",
    "regret": "Seconds that the fastest strategy of each batch size would have saved.",
    "spot training": "Training the drafter on workers that are done with their share and wait for the others.",
    "staleness": "Updates between the policy that wrote a token and the one that learns from it.",
    "tail": "The few longest responses of a rollout, for which everyone else waits.",
    "tuner": "What chooses, decode step by decode step, what drafts and how far ahead, by measured speed.",
}
