"""What whoever starts a part of the platform can mend, in a line that says what to do."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from pydantic import ValidationError
from pydantic_settings import SettingsError
from sqlalchemy.exc import ArgumentError, DBAPIError

from backend.settings import Settings
from engine.errors import USER_ERROR

DATABASE = "see LONGTAIL_DATABASE_URL"
OTHER_TABLES = re.compile(r"no such (table|column)|(relation|column) .* does not exist")


@contextmanager
def told() -> Iterator[None]:
    """Ends the process with code 2 after a line on stderr, where the block fails over settings, the home or the database."""
    try:
        yield
    except (ValidationError, SettingsError, OSError, DBAPIError, ArgumentError) as error:
        if not (message := said(error)):
            raise
        end(message)


def end(message: str) -> NoReturn:
    print(message, file=sys.stderr)
    sys.exit(USER_ERROR)


def said(error: Exception) -> str:
    """Empty for what is no fault of whoever starts it."""
    if isinstance(error, ValidationError):
        return "\n".join(map(_of_setting, error.errors())) if error.title == Settings.__name__ else ""
    if isinstance(error, SettingsError):
        field = re.search(r'field "(\w+)"', str(error))
        return f"""LONGTAIL_{field[1].upper()}: a list is written as JSON, such as '["one", "another"]'""" if field else ""
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}; see LONGTAIL_HOME and whose folder it is" if error.filename else ""
    if isinstance(error, ArgumentError):
        return f"the address of the database is none; {DATABASE}"
    line = str(getattr(error, "orig", error)).splitlines()[0]
    if OTHER_TABLES.search(line):
        return "the database is not of this version; run: python -m backend.migrate"
    return f"the database cannot be used: {line}; {DATABASE}"


def _of_setting(fault: object) -> str:
    assert isinstance(fault, dict)
    return f"LONGTAIL_{str(fault['loc'][0]).upper()}: {fault['msg']} (got {fault['input']!r})"
