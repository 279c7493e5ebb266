"""A configuration as YAML text: typed, pasted or uploaded."""

import json
from typing import Any

import streamlit as st
import yaml

from dashboard.fields import Config

HEIGHT = 460


class NotAConfigError(ValueError):
    """The text is not a YAML mapping; the message says why."""


def dump(config: Config) -> str:
    return yaml.safe_dump(config, sort_keys=False)


def parse(text: str) -> Config:
    """The mapping that ``text`` says, in JSON types; NotAConfigError if it is none."""
    try:
        data: Any = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise NotAConfigError(f"not readable as YAML: {error}") from None
    if not isinstance(data, dict):
        raise NotAConfigError("a configuration is a mapping, such as name: my run")
    config: Config = json.loads(json.dumps(data, default=str))
    return config


def editor(key: str) -> str:
    """Draws the editor over session_state[key] and gives its text; an uploaded file replaces it."""

    def take_upload() -> None:
        if upload := st.session_state[f"{key}-upload"]:
            st.session_state[key] = upload.getvalue().decode("utf-8", errors="replace")

    st.file_uploader("Upload a YAML file", ["yaml", "yml", "json"], key=f"{key}-upload", on_change=take_upload)
    return st.text_area(
        "Configuration", key=key, height=HEIGHT, help="Keys that are left out take their defaults.", persist_state="session"
    )
