"""The form of a run: its main settings on one page, and every setting section by section. What the API says of a field stands under it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from itertools import cycle
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard.analysis.run_config import trains_drafter_only
from dashboard.views.new.field_widget import field_widget, offered_names
from dashboard.views.new.schema_fields import Config, field, paths, value

MAIN = "main settings"
COLUMNS = 3
Entries = Sequence[str]
ErrorSlots = dict[str, DeltaGenerator]

LABELS: Mapping[str, str] = {
    "model.path": "Model",
    "task.name": "Task",
    "task.four_numbers": "Share of hard problems",
    "task.two_steps": "Share of hard problems",
    "task.largest": "Largest number",
    "task.examples": "Solved problems before each",
    "task.path": "Data file",
    "task.question": "Question column",
    "task.answer": "Answer column",
    "task.choices": "Choices column",
    "task.tests": "Tests column",
    "algorithm.name": "Algorithm",
    "algorithm.prompts_per_step": "Prompts a step",
    "algorithm.group_size": "Responses for each prompt",
    "cluster.device": "Computes on",
    "cluster.threads_per_worker": "CPU threads a worker",
    "speculation.enabled": "Speculative rollout",
    "drafter.path": "Drafter to begin with",
    "drafter.recipe": "Recipe of the drafter",
    "drafter.pretrain_minutes": "Train the drafter first (minutes)",
    "drafter.pretrain_responses": "Responses to learn from (file)",
    "drafter.pretrain_learning_rate": "Largest learning rate",
    "drafter.pretrain_reverse_kl": "Reverse KL while it is trained first",
    "drafter.draft_vocabulary": "Tokens to draft from",
    "drafter.spot.enabled": "Train the drafter in idle time",
    "speculation.threshold": "Speculate up to (requests)",
    "speculation.hysteresis": "Margin before it stops",
    "speculation.tuner.name": "Tuner",
    "speculation.suffix.enabled": "Draft from sibling responses",
    "rollout.engine": "Engine",
    "rollout.max_new_tokens": "Longest response (tokens)",
    "rollout.max_prompt_tokens": "Longest prompt (tokens)",
    "rollout.top_p": "Top-p",
    "rollout.min_p": "Min-p",
    "rollout.max_batch": "Largest batch",
}
"""Where the setting's own name says too little."""
TASK_FIELDS: Mapping[str, Entries] = {
    "countdown": ("task.four_numbers",),
    "word_problems": ("task.largest", "task.two_steps", "task.examples"),
    "math": ("task.path", "task.question", "task.answer"),
    "choice": ("task.path", "task.question", "task.choices", "task.answer"),
    "code": ("task.path", "task.question", "task.tests"),
    "function": ("task.path", "task.question", "task.function"),
    "prompts": ("task.path", "task.question"),
}
GROUPS: Mapping[str, Entries] = {
    "Run": ("name", "seed", "model.path"),
    "Training": (
        "algorithm.name",
        "algorithm.steps",
        "algorithm.prompts_per_step",
        "algorithm.group_size",
        "algorithm.learning_rate",
    ),
    "Speculation": (
        "speculation.enabled",
        "drafter.path",
        "drafter.pretrain_minutes",
        "drafter.spot.enabled",
        "speculation.threshold",
        "speculation.hysteresis",
        "speculation.tuner.name",
        "speculation.suffix.enabled",
    ),
    "Task": ("task.name",),
    "Machine": ("cluster.workers", "cluster.device", "cluster.threads_per_worker", "rollout.engine"),
    "Rollout": ("rollout.max_new_tokens", "rollout.temperature", "rollout.min_p", "rollout.max_batch"),
}

DRAFTER_GROUPS: Mapping[str, Entries] = {
    "Run": ("name", "seed", "model.path"),
    "Drafter": (
        "drafter.pretrain_minutes",
        "drafter.recipe",
        "drafter.path",
        "drafter.draft_vocabulary",
        "drafter.pretrain_learning_rate",
        "drafter.pretrain_reverse_kl",
    ),
    "Machine": ("cluster.workers", "cluster.device", "cluster.threads_per_worker", "rollout.engine"),
    "Task": ("task.name",),
    "Rollout": ("rollout.max_new_tokens", "rollout.max_prompt_tokens", "rollout.temperature", "rollout.top_p", "rollout.max_batch"),
    "After it": ("algorithm.steps",),
}
"""Of a run that only trains a drafter."""


def sections(schema: Mapping[str, Any]) -> list[str]:
    """What there is to draw: the main settings, and each part of the configuration."""
    return [MAIN, *dict.fromkeys(path.partition(".")[0] for path in paths(schema, {}) if "." in path)]


@dataclass(frozen=True)
class Form:
    """Draws the fields of ``config``; ``on_edit`` hears of the user's changes (see field_widget). ``offered``: by field values that
    can be clicked in place of typing them. ``slots``: by field the place for what is wrong with it."""

    schema: Mapping[str, Any]
    config: Config
    on_edit: Callable[[str, Any], None]
    offered: Mapping[str, Entries]
    slots: ErrorSlots = dataclass_field(default_factory=dict)

    def draw(self, section: str) -> None:
        """The main settings in columns of groups, another section in groups of columns."""
        places = st.columns(COLUMNS) if section == MAIN else [st.container()]
        for number, (title, entries) in enumerate(groups(self.schema, self.config, section).items()):
            with places[number % len(places)].container(border=True):
                st.markdown(f"**{title}**")
                columns = [st.container()] if section == MAIN else st.columns(COLUMNS)
                for column, path in zip(cycle(columns), entries, strict=False):
                    with column:
                        self._draw(path)

    def _draw(self, path: str) -> None:
        spec = field(self.schema, path, self.config)
        present = value(self.config, spec)
        field_widget(spec, label(path), present, self.on_edit)
        self.slots[path] = st.empty()
        if names := self.offered.get(path):
            offered_names(spec, names, present, self.on_edit)


def groups(schema: Mapping[str, Any], config: Config, section: str) -> Mapping[str, Entries]:
    """The fields of a section under their titles."""
    if section == MAIN:
        task = value(config, field(schema, "task.name", config))
        shown, more = (DRAFTER_GROUPS, ("drafter.pretrain_responses",)) if trains_drafter_only(config) else (GROUPS, ())
        return {**shown, "Task": (*shown["Task"], *TASK_FIELDS.get(task, ()), *more)}
    found: dict[str, list[str]] = {}
    for path in paths(schema, config):
        if path.startswith(f"{section}."):
            found.setdefault(path.rpartition(".")[0], []).append(path)
    return found


def label(path: str) -> str:
    return LABELS.get(path) or path.rpartition(".")[2].replace("_", " ").capitalize()
