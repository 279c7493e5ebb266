"""The first questions of every visitor, at the top of the run page."""

from collections.abc import Sequence
from datetime import UTC, datetime

import streamlit as st

from dashboard.analysis import pretraining_questions, run_questions
from dashboard.analysis.run_config import speculates
from dashboard.data.run_data import DataQuery, RunData
from dashboard.text.escaping import escaped
from longtail.schemas.comparison import Comparison
from longtail.schemas.runs import Run

QUERY = DataQuery(metric_keys=("step_seconds",), statistics=True)
PRETRAINING = DataQuery(("pretraining",))


def query(run: Run) -> DataQuery:
    return PRETRAINING if run.pretrains else QUERY


def question_cards(data: RunData, comparison: Comparison | None) -> None:
    """While its drafter is pretrained, a run is asked about that."""
    run = data.run
    if run.pretrains:
        how_far = pretraining_questions.how_far(run, datetime.now(UTC))
        _cards((how_far, pretraining_questions.how_good(data.pretraining, run), pretraining_questions.from_what(run)))
        return
    pair = {speculates(item.run.config): item for item in comparison.items} if comparison else {}
    if (found := data.statistics) is not None:
        training = run_questions.is_it_training(found, run.steps)
        faster = run_questions.is_it_faster(run, found, pair.get(False), pair.get(True))
        answers = (training, faster, run_questions.why(run, found))
        _cards(tuple(map(run_questions.of_ended, answers)) if run.finished else answers)


def _cards(answers: Sequence[run_questions.Answer]) -> None:
    for column, answer in zip(st.columns(3), answers, strict=True):
        with column, st.container(border=True, height="stretch", gap="xsmall"):
            st.caption(answer.question)
            st.subheader(escaped(answer.headline), anchor=False)
            st.caption(escaped(answer.detail))
