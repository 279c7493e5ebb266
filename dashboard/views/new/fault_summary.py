"""What keeps a run from being started, in a line for whoever looks at the button: on a phone the fields are screens away."""

from collections.abc import Sequence

from dashboard.text.escaping import escaped
from longtail.schemas.base import FieldError

NAMED = 3


def fault_summary(errors: Sequence[FieldError]) -> str:
    """As Markdown; empty if there is nothing."""
    if not errors:
        return ""
    if len(errors) == 1:
        return f":red[Not to be started yet: `{errors[0].field}`: {escaped(errors[0].message)}]"
    fields = list(dict.fromkeys(error.field for error in errors))
    more = f" and {len(fields) - NAMED} more" if len(fields) > NAMED else ""
    named = ", ".join(f"`{field}`" for field in fields[:NAMED])
    return f":red[Not to be started yet, see what stands at the fields: {named}{more}]"
