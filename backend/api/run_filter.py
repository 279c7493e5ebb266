"""The query parameters that choose runs, the same for lists and exports."""

from typing import Annotated

from fastapi import Depends, Query
from pydantic import Field

from backend.api.dependencies import IdentityDep, ReadSession
from backend.services.projects import membership_check
from backend.services.runs.listing import CONDITION, NEWEST, SORT, RunFilter
from longtail.schemas.base import Moment
from longtail.schemas.runs import RunState, Tag

MOST_RUNS = 200
MOST_CONDITIONS = 8

RunId = Annotated[str, Field(max_length=16)]
Text = Annotated[str, Field(max_length=200, pattern=r"^[^\x00]*$")]
Condition = Annotated[str, Field(pattern=CONDITION)]
Conditions = Annotated[
    list[Condition],
    Query(
        default_factory=list,
        max_length=MOST_CONDITIONS,
        description="On a value, such as config.model.path=tiny or summary.reward_mean>0.5. Signs: = != < <= > >=; "
        "!= is true also where there is no value",
    ),
]


def _run_filter(
    identity: IdentityDep,
    session: ReadSession,
    run: Annotated[list[RunId], Query(default_factory=list, max_length=MOST_RUNS, description="Only these ids")],
    state: Annotated[list[RunState], Query(default_factory=list, max_length=7, description="In one of these states")],
    tag: Annotated[list[Tag], Query(default_factory=list, max_length=MOST_CONDITIONS, description="With all of these tags")],
    where: Conditions,
    q: Annotated[Text | None, Query(description="A part of the name or the notes, or the beginning of the id")] = None,
    owner: Annotated[Text | None, Query(description="Submitted by this user")] = None,
    project: Annotated[RunId | None, Query(description="Id of a project; else all that are in sight and not archived")] = None,
    created_after: Annotated[Moment | None, Query(description="Submitted then or later")] = None,
    created_before: Annotated[Moment | None, Query(description="Submitted earlier")] = None,
    deleted: Annotated[bool, Query(description="Those deleted, which can still be restored, instead of the others")] = False,
    sort: Annotated[
        str, Query(pattern=SORT, description="created, name, state, owner, duration or summary.KEY; with - before it, falling")
    ] = NEWEST,
) -> RunFilter:
    return RunFilter(
        projects=membership_check.chosen_projects(session, identity, project),
        runs=[run_id for run_id in run if "\0" not in run_id],
        states=state,
        tags=tag,
        owner=owner,
        q=q,
        where=where,
        created_after=created_after.timestamp() if created_after else None,
        created_before=created_before.timestamp() if created_before else None,
        deleted=deleted,
        sort=sort,
    )


RunFilterDep = Annotated[RunFilter, Depends(_run_filter)]
