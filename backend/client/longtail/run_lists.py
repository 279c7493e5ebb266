"""The client's methods about projects, and about many runs: lists, labels, exports."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

import httpx

from longtail.identity import Identity
from longtail.schemas.attempts import Attempt, AttemptPage
from longtail.schemas.base import Items
from longtail.schemas.identity import Role
from longtail.schemas.projects import Member, MemberPage, Project, ProjectPage
from longtail.schemas.run_overviews import RunOverview
from longtail.schemas.runs import Run, RunPage, RunTotals
from longtail.transport import MOST, ApiError

NOT_FOUND, MOST_GLANCES = 404, 100

Format = Literal["csv", "json", "parquet"]
Several = str | Sequence[str] | None


class RunLists(Identity):
    """Runs are chosen by: ``run`` (ids), ``state``, ``tag`` (all of them), ``owner``, ``project`` (its id), ``where`` (conditions such as
    "config.model.path=tiny" or "summary.reward_mean>0.5"), ``created_after`` and ``created_before`` (with a time zone), ``deleted`` (those
    that can be restored, instead of the others), and ``q``, a part of the name or the notes or the beginning of the id. ``sort`` is
    created, name, state, owner, duration or summary.KEY, with - before it falling; the default is "-created".
    """

    def runs(
        self,
        state: Several = None,
        q: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
        *,
        sort: str | None = None,
        **choice: Any,
    ) -> RunPage:
        """Newest first unless ``sort`` says otherwise; ``choice`` as above."""
        return self._get(RunPage, "/api/v1/runs", limit=limit, cursor=cursor, **_chosen(state=state, q=q, sort=sort, **choice))

    def run_totals(self, **choice: Any) -> RunTotals:
        """How many runs of the ``choice`` are in each state."""
        return self._get(RunTotals, "/api/v1/runs/totals", **_chosen(**choice))

    def glances(self, run_ids: Sequence[str]) -> list[RunOverview]:
        """In no particular order; those out of sight are left out. A request for each hundred."""
        parts = [list(run_ids[at : at + MOST_GLANCES]) for at in range(0, len(run_ids), MOST_GLANCES)]
        return [glance for part in parts for glance in self._get(Items[RunOverview], "/api/v1/glances", run=part, limit=len(part)).items]

    def change_run(self, run_id: str, revision: int | None = None, **changes: Any) -> Run:
        """``name``, ``notes``, ``tags``, ``priority``, ``project_id`` or ``owner``. With a ``revision`` only if the run is still at that,
        else ApiError 412."""
        headers = {} if revision is None else {"If-Match": f'"{revision}"'}
        return self._reply(Run, self._request("PATCH", f"/api/v1/runs/{run_id}", json=changes, headers=headers))

    def attempts(self, run_id: str) -> list[Attempt]:
        """First to last, each with the environment that it ran in."""
        return self._all(AttemptPage, f"/api/v1/runs/{run_id}/attempts")

    def export_runs(self, path: Path, form: Format = "csv", **choice: Any) -> None:
        """Writes a table with a row for each chosen run, whole or not at all."""
        self._save(path, "/api/v1/export/runs", {"format": form} | _chosen(**choice))

    def export_metrics(self, path: Path, form: Format = "csv", keys: Sequence[str] = (), **choice: Any) -> None:
        """Writes a table with a row for each point of the chosen runs, whole or not at all; of all keys, or of ``keys``."""
        self._save(path, "/api/v1/export/metrics", {"format": form} | _chosen(keys=",".join(keys) or None, **choice))

    def projects(self, archived: bool = False, limit: int = 50, cursor: str | None = None) -> ProjectPage:
        """Those that one may see, newest first."""
        return self._get(ProjectPage, "/api/v1/projects", archived=archived, limit=limit, cursor=cursor)

    def project(self, name: str) -> Project:
        """By name or id; ApiError with status 404 if there is none in sight."""
        for each in self.every(self.projects, archived=True, limit=MOST):
            if name in (each.id, each.name):
                return each
        raise ApiError(NOT_FOUND, "Not found", f"there is no project {name}")

    def create_project(self, name: str, description: str = "") -> Project:
        return self._post(Project, "/api/v1/projects", {"name": name, "description": description})

    def change_project(self, project_id: str, **changes: Any) -> Project:
        """``name``, ``description`` or ``archived``."""
        return self._reply(Project, self._request("PATCH", f"/api/v1/projects/{project_id}", json=changes))

    def members(self, project_id: str) -> list[Member]:
        """By name."""
        return self._all(MemberPage, f"/api/v1/projects/{project_id}/members")

    def set_member(self, project_id: str, user: str, role: Role) -> Member:
        """Lets the user in, or changes what they may do there."""
        return self._reply(Member, self._request("PUT", _member(project_id, user), json={"role": role}))

    def remove_member(self, project_id: str, user: str) -> None:
        self._request("DELETE", _member(project_id, user))

    def _save(self, path: Path, address: str, params: dict[str, Any]) -> None:
        part = path.with_name(path.name + ".part")
        try:
            with self._http.stream("GET", address, params=params) as response, part.open("wb") as file:
                self._raise_for_problem(response)
                for chunk in response.iter_bytes():
                    file.write(chunk)
            part.replace(path)
        except httpx.TransportError as error:
            raise self._unreachable(error) from error
        finally:
            part.unlink(missing_ok=True)


def _chosen(**choice: Any) -> dict[str, Any]:
    """As query parameters."""
    given = {name: value for name, value in choice.items() if value is not None}
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in given.items()}


def _member(project_id: str, user: str) -> str:
    """The address of a membership, for whatever somebody has typed as a name."""
    return f"/api/v1/projects/{project_id}/members/{quote(user, safe='')}"
