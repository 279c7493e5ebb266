"""What whoever starts a part of the platform can mend, in a line that says what to do."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from pydantic import ValidationError
from sqlalchemy.exc import ArgumentError, DBAPIError

from backend.settings import Settings

USER_ERROR = 2
DATABASE = "see LONGTAIL_DATABASE_URL"


@contextmanager
def told() -> Iterator[None]:
    """Ends the process with code 2 after a line on stderr, where the block fails over settings, the home or the database."""
    try:
        yield
    except (ValidationError, OSError, DBAPIError, ArgumentError) as error:
        if not (message := said(error)):
            raise
        print(message, file=sys.stderr)
        sys.exit(USER_ERROR)


def said(error: Exception) -> str:
    """Empty for what is no fault of whoever starts it."""
    if isinstance(error, ValidationError):
        return "\n".join(map(_of_setting, error.errors())) if error.title == Settings.__name__ else ""
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}; see LONGTAIL_HOME and whose folder it is" if error.filename else ""
    if isinstance(error, ArgumentError):
        return f"the address of the database is none; {DATABASE}"
    return f"the database cannot be used: {str(getattr(error, 'orig', error)).splitlines()[0]}; {DATABASE}"


def _of_setting(fault: object) -> str:
    assert isinstance(fault, dict)
    return f"LONGTAIL_{str(fault['loc'][0]).upper()}: {fault['msg']} (got {fault['input']!r})"
