"""A configuration as YAML text: typed, pasted or uploaded."""

import json
from typing import Any

import streamlit as st
import yaml

from dashboard.text.escaping import escaped
from dashboard.views.new.schema_fields import Config

HEIGHT = 520
MOST_BYTES = 2**20
"""Of a configuration, as of a request to the API: a few lines of YAML can stand for more than a memory holds."""
MEGABYTES = 1
WRITTEN = "yaml-written"
"""Key of the session: the text that the form has written last."""


class NotAConfigError(ValueError):
    """The text is not a YAML mapping; the message says why."""


def dump(config: Config) -> str:
    return yaml.safe_dump(config, sort_keys=False, allow_unicode=True)


def parse(text: str) -> Config:
    """The mapping that ``text`` says, in JSON types; NotAConfigError if it is none."""
    try:
        twice = _given_twice(yaml.compose(text, yaml.SafeLoader))
        data: Any = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise NotAConfigError(f"not readable as YAML: {_said(error)}") from None
    if twice:
        raise NotAConfigError(f"{twice} is given twice; the first one would be lost")
    if not isinstance(data, dict):
        raise NotAConfigError("a configuration is a mapping, such as name: my run")
    config: Config = json.loads(_json(data), parse_constant=_infinity)
    return config


def _given_twice(root: yaml.Node | None) -> str | None:
    """A key that a mapping has twice, with its line. Aliases may make a node part of many, or of itself: each is looked at once."""
    left, seen = [root], set[int]()
    while left:
        node = left.pop()
        if id(node) in seen or not isinstance(node, yaml.CollectionNode):
            continue
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            left.extend(node.value)
            continue
        keys: set[str] = set()
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in keys and key.value != "<<":
                return f"line {key.start_mark.line + 1}: {key.value}"
            keys.add(str(key.value))
            left.append(value)
    return None


def yaml_editor(key: str) -> str:
    """Draws the editor over session_state[key] and gives its text; an uploaded file replaces it, if it is text."""
    unread = f"{key}-unread"

    def take_upload() -> None:
        upload = st.session_state[f"{key}-upload"]
        st.session_state[unread] = None
        try:
            st.session_state[key] = upload.getvalue().decode("utf-8") if upload else st.session_state[key]
        except UnicodeDecodeError:
            st.session_state[unread] = upload.name

    kinds = ["yaml", "yml", "json"]
    st.file_uploader("Upload a YAML file", kinds, key=f"{key}-upload", on_change=take_upload, max_upload_size=MEGABYTES)
    if name := st.session_state.get(unread):
        st.error(f"{escaped(name)} is no text in UTF-8, so the configuration below stays as it was. Save the file as UTF-8.", icon="⚠️")
    return st.text_area(
        "Configuration", key=key, height=HEIGHT, help="Keys that are left out take their defaults.", persist_state="session"
    )


def is_typed() -> bool:
    """Whether the text says anything that the form has not written."""
    return bool(st.session_state["yaml"] != st.session_state.get(WRITTEN))


def _said(error: Exception) -> str:
    """Where the fault is and what it is, without the parser's own name for the text."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return f"line {error.problem_mark.line + 1}, column {error.problem_mark.column + 1}: {error.problem}"
    return str(error)


def _infinity(name: str) -> str:
    """As a text, since JSON has no such number: where one has a meaning, the API takes it so."""
    if name == "NaN":
        raise NotAConfigError("a configuration has numbers, and .nan is none")
    return name


def _json(data: Any) -> str:
    parts: list[str] = []
    size = 0
    try:
        for part in json.JSONEncoder(default=str).iterencode(data):
            parts.append(part)
            size += len(part)
            if size > MOST_BYTES:
                break
    except (TypeError, ValueError, RecursionError):
        raise NotAConfigError("a configuration has texts as its keys, and nothing that contains itself") from None
    if size > MOST_BYTES:
        raise NotAConfigError(f"a configuration has at most {MOST_BYTES:,} characters")
    return "".join(parts)
