"""Which commit a folder is at."""

import os
import subprocess
from pathlib import Path

from longtail.schemas.attempts import GitState

SECONDS = 5.0
HANDS_OFF = {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}


def git_state(folder: Path) -> GitState | None:
    """None if ``folder`` is in no repository with a commit, or git does not answer in time."""
    try:
        commit = _git(folder, "rev-parse", "--verify", "HEAD")
        branch = _git(folder, "rev-parse", "--abbrev-ref", "HEAD")
        changed = _git(folder, "status", "--porcelain")
    except (OSError, subprocess.SubprocessError):
        return None
    return GitState(commit=commit, branch=None if branch == "HEAD" else branch, dirty=bool(changed))


def _git(folder: Path, *arguments: str) -> str:
    """``fsmonitor`` off: a status must not start a program that the repository names."""
    command = ["git", "-c", "core.fsmonitor=false", "-C", str(folder), *arguments]
    asked = subprocess.run(command, env=os.environ | HANDS_OFF, capture_output=True, text=True, timeout=SECONDS, check=True)
    return asked.stdout.strip()
