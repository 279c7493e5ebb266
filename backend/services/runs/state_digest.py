"""Tells states of a run apart."""

import hashlib

from longtail.schemas.runs import Run


def state_digest(run: Run) -> str:
    """The same 16 hexadecimal digits for as long as nothing of the run changes."""
    return hashlib.sha256(run.model_dump_json().encode()).hexdigest()[:16]
