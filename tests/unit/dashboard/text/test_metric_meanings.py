"""Every metric that the engine reports is explained where it is drawn."""

import re

import pytest

from backend.demo_data import telemetry
from dashboard.text.metric_meanings import meaning
from engine.events.kinds import StepFinished

DECODING = ("decode_seconds", "decode_seconds/plain", "decode_seconds/ngram", "decode_seconds/untrained")
SIGNAL = ("all_right_share", "all_wrong_share", "truncated_share", "right_tokens", "wrong_tokens")


def test_what_a_run_reports_is_explained() -> None:
    config = telemetry.config(algorithm={"steps": 2, "kl_coefficient": 0.01}, evaluation={"every": 1})
    steps = [event for event in telemetry.events(config) if isinstance(event, StepFinished)]
    reported = {key for step in steps for key in (*step.metrics, *(f"phase/{phase}" for phase in step.phases))}
    assert [key for key in sorted(reported) if meaning(key) is None] == []


def test_what_the_engine_documents_is_explained() -> None:
    documented = re.findall(r"\b[a-z]+(?:_[a-z]+)+\b", (StepFinished.__doc__ or "").replace("algorithm.kl_coefficient", ""))
    of_the_text = {"learning_signal", "decode_savings", "machine_usage", "tokens_per_second"}
    assert [key for key in (*documented, *DECODING, *SIGNAL) if key not in of_the_text and meaning(key) is None] == []


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("phase/rollout", "Seconds that the phase rollout took in each step."),
        ("worker/12/tokens_per_second", "Tokens per second of worker 12 while it generates."),
        ("eval/pass_at_8", "Share of the validation prompts that one of 8 responses solves."),
        ("system/node/1/gpu3_memory_gb", "Memory taken of GPU 3 of node/1, in GB."),
        ("system/node-1/cpu_percent", "Use of all cores of node-1, by everybody, in percent."),
        ("my/own", None),
        ("phase/", None),
    ],
)
def test_families_of_metrics(key: str, told: str | None) -> None:
    assert meaning(key) == told
