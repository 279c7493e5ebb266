"""What an upload may be: safetensors, JSON, text, and archives of those. Nothing that a loader would unpickle: a pickle is a program.

Files are looked into by a process of its own with little memory and time (see file_inspection), so that none can stop this one.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import TypedDict

from backend.database import storable_text
from backend.errors import UnsupportedError

INSPECTION = Path(__file__).with_name("file_inspection.py")
WAIT_SECONDS = 120.0
CHECKS_AT_A_TIME = 2


class Answer(TypedDict):
    refused: str | None
    card: str | None


def check_upload(name: str, file: Path, max_bytes: int) -> str | None:
    """The model card in it. UnsupportedError unless the suffix of ``name`` is one that may be kept, and the content is of that kind."""
    answer = _inspected("check", file, name, str(max_bytes))
    if answer is None:
        raise UnsupportedError(f"{name} takes too long to look into; pack fewer files, or send it in parts")
    if answer["refused"] is not None:
        raise UnsupportedError(answer["refused"])
    return answer["card"]


def model_card(file: Path) -> str | None:
    """The README.md of a zip, in its top folder or the one below; None where there is none, or it takes too much to find it."""
    answer = _inspected("card", file)
    return answer and answer["card"]


def _inspected(action: str, file: Path, *more: str) -> Answer | None:
    """None if it took too long, or more than this machine has."""
    command = [sys.executable, "-I", "-S", "-B", str(INSPECTION), action, str(file), *more]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=WAIT_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return None
    if done.returncode < 0 or (action == "card" and done.returncode):  # a card is told where there is one, and stops nothing
        return None
    done.check_returncode()
    answer: Answer = json.loads(done.stdout)
    return {"refused": answer["refused"], "card": answer["card"] and storable_text(answer["card"])}
