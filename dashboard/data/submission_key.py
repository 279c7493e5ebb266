"""What keeps a click that is heard twice, or repeated after a failure, from starting two runs."""

import hashlib
import json
from typing import Any
from uuid import uuid4

import streamlit as st

NONCE = "nonce-"
"""Before a purpose, a key of the session: makes what is submitted next unlike what was submitted before."""


def submission_key(purpose: str, *body: Any) -> str:
    """The idempotency key of ``body``: the same until something is ``submitted`` for that ``purpose``."""
    nonce: str = st.session_state.setdefault(NONCE + purpose, uuid4().hex)
    return hashlib.sha256((nonce + json.dumps(body, sort_keys=True)).encode()).hexdigest()


def submitted(purpose: str) -> None:
    """What is submitted for it from now on is another run, though it may say the same. Streamlit hears the second one of two clicks no
    later than here, and begins anew with the nonce as it is."""
    st.session_state.pop(NONCE + purpose, None)
