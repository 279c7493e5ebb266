"""The form of a run's main settings. What the API says about a field is shown under it."""

from collections.abc import Mapping, Sequence
from math import floor, log10
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard.fields import Config, Field, changed, field, value
from dashboard.formats import plain

Entries = Sequence[tuple[str, str]]  # (field, label)
TASK_FIELDS: Mapping[str, Entries] = {
    "countdown": (("task.four_numbers", "Share of hard problems"),),
    "math": (("task.path", "Data file"), ("task.question", "Question column"), ("task.answer", "Answer column")),
    "choice": (
        ("task.path", "Data file"),
        ("task.question", "Question column"),
        ("task.choices", "Choices column"),
        ("task.answer", "Answer column"),
    ),
    "code": (("task.path", "Data file"), ("task.question", "Question column"), ("task.tests", "Tests column")),
    "function": (("task.path", "Data file"), ("task.question", "Question column"), ("task.function", "Function")),
}
COLUMNS: Sequence[Mapping[str, Entries]] = (
    {
        "Run": (("name", "Name"), ("seed", "Seed"), ("model.path", "Model")),
        "Task": (("task.name", "Task"),),
    },
    {
        "Training": (
            ("algorithm.name", "Algorithm"),
            ("algorithm.steps", "Steps"),
            ("algorithm.prompts_per_step", "Prompts a step"),
            ("algorithm.group_size", "Responses for each prompt"),
            ("algorithm.learning_rate", "Learning rate"),
        ),
        "Machine": (("cluster.workers", "Workers"), ("cluster.threads_per_worker", "CPU threads a worker")),
    },
    {
        "Speculation": (
            ("speculation.enabled", "Speculative rollout"),
            ("drafter.spot.enabled", "Train the drafter in idle time"),
            ("speculation.threshold", "Speculate up to (requests)"),
            ("speculation.hysteresis", "Margin before it stops"),
            ("speculation.tuner.name", "Tuner"),
            ("speculation.suffix.enabled", "Draft from sibling responses"),
            ("speculation.tail_requests", "Last requests (tail mode)"),
        ),
        "Rollout": (
            ("rollout.engine", "Engine"),
            ("rollout.max_new_tokens", "Longest response (tokens)"),
            ("rollout.temperature", "Temperature"),
            ("rollout.min_p", "Min-p"),
            ("rollout.max_batch", "Largest batch"),
        ),
    },
)


def form(schema: Mapping[str, Any], config: Config, edition: int) -> tuple[Config, dict[str, DeltaGenerator]]:
    """Draws the form; gives ``config`` with what the user changed, and by field the place for what is wrong with it.

    A new ``edition`` makes the widgets forget what was typed.
    """
    slots: dict[str, DeltaGenerator] = {}
    for column, groups in zip(st.columns(len(COLUMNS)), COLUMNS, strict=True):
        for title, entries in groups.items():
            with column, st.container(border=True):
                st.markdown(f"**{title}**")
                config = _edit(schema, config, entries, edition, slots)
                if title == "Task":
                    task = value(config, field(schema, "task.name", config))
                    config = _edit(schema, config, TASK_FIELDS.get(task, ()), edition, slots)
    return config, slots


def _edit(schema: Mapping[str, Any], config: Config, entries: Entries, edition: int, slots: dict[str, DeltaGenerator]) -> Config:
    for path, label in entries:
        spec = field(schema, path, config)
        before = value(config, spec)
        after = _widget(spec, label, before, f"{path}-{edition}")
        slots[path] = st.empty()
        config = config if after == before else changed(config, spec, after)
    return config


def _widget(spec: Field, label: str, before: Any, key: str) -> Any:
    help = plain(spec.help) if spec.help else None
    if spec.kind == "choice":
        return st.selectbox(label, spec.options, spec.options.index(before) if before in spec.options else 0, key=key, help=help)
    if spec.kind == "boolean":
        return st.toggle(label, bool(before), key=key, help=help)
    if spec.kind == "integer" and isinstance(before, int):
        return st.number_input(label, value=before, step=1, key=key, help=help)
    if spec.kind == "number" and isinstance(before, int | float):
        return st.number_input(label, value=float(before), step=_step(spec.default), format="%g", key=key, help=help)
    text = st.text_input(label, "" if before is None else str(before), key=key, help=help)
    return text or (None if spec.nullable or before is None else "")


def _step(default: Any) -> float:
    """A tenth of the default's magnitude or less: 2e-4 moves by 1e-5."""
    return float(10.0 ** floor(log10(default or 1.0) - 0.5))
