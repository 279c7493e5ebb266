"""The first questions of every visitor, at the top of the run page."""

import streamlit as st

from backend.schemas.comparison import Comparison
from dashboard import answers
from dashboard.feed import Feed, Needs
from dashboard.formats import plain
from dashboard.pairs import speculates

NEEDS = Needs(("lengths", "drafters"), ("reward_mean", "step_seconds", "accept_length", "idle_seconds", "trained_seconds"))


def questions(feed: Feed, comparison: Comparison | None) -> None:
    pair = {speculates(item.run.config): item for item in comparison.items} if comparison else {}
    given = (
        answers.training(feed.series("reward_mean"), feed.run.steps),
        answers.faster(feed.run, feed.series("step_seconds"), pair.get(False), pair.get(True)),
        answers.why(
            feed.run,
            feed.series("accept_length"),
            feed.series("idle_seconds"),
            feed.series("trained_seconds"),
            feed.lengths,
            feed.drafters,
        ),
    )
    for column, answer in zip(st.columns(3), given, strict=True):
        with column, st.container(border=True, height="stretch", gap="xsmall"):
            st.caption(answer.question)
            st.subheader(plain(answer.headline), anchor=False)
            st.caption(plain(answer.detail))
