"""The client's side of artifacts: downloads that go on where they broke off, and uploads."""

import hashlib
import time
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path

import httpx

from longtail.file_chunks import chunks
from longtail.identity import Identity
from longtail.logins import for_browsers
from longtail.schemas.artifacts import Artifact, ArtifactCard, ArtifactPage, ArtifactType, RunArtifactPage
from longtail.schemas.credentials import LinkKey
from longtail.transport import ApiError, last_part

TRIES = 5
"""Without a single byte between them."""
PAUSE_SECONDS = 0.5


class Files(Identity):
    def artifacts(self, run_id: str) -> list[Artifact]:
        """Those of a run, oldest first."""
        return self._all(RunArtifactPage, f"/api/v1/runs/{run_id}/artifacts")

    def all_artifacts(
        self,
        types: Sequence[ArtifactType] = (),
        q: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
        *,
        run: str | None = None,
        project: str | None = None,
    ) -> ArtifactPage:
        """Those of all runs, newest first. ``q``: a part of the name, of the run's name or of the base model, or the beginning of the run's
        id or of the checksum. ``run`` and ``project`` are ids."""
        wanted = {"type": list(types) or None, "q": q or None, "run": run, "project": project}
        return self._get(ArtifactPage, "/api/v1/artifacts", limit=limit, cursor=cursor, **wanted)

    def artifact(self, artifact_id: str) -> ArtifactCard:
        """With the text of its model card."""
        return self._get(ArtifactCard, _path(artifact_id))

    def artifact_url(self, artifact_id: str) -> str:
        """Address of the file, for a link in a page: whoever has it may download the file for an hour or two."""
        path = f"{_path(artifact_id)}/download"
        return f"{for_browsers(self.base_url)}{path}?link={self._link_key.link(path)}"

    @cached_property
    def _link_key(self) -> LinkKey:
        return self._get(LinkKey, "/api/v1/me/link-key")

    def delete_artifact(self, artifact_id: str) -> None:
        """For good."""
        self._request("DELETE", _path(artifact_id))

    def upload(self, run_id: str, path: Path, type: ArtifactType = "file", name: str | None = None) -> Artifact:
        """Keeps a file with a run: safetensors, JSON, text, or a .zip or .tar of those. Doing it again does no harm."""
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256")
        headers = {"X-SHA256": digest.hexdigest(), "Content-Length": str(path.stat().st_size), "Content-Type": "application/octet-stream"}
        where = {"name": name or path.name, "type": type}
        reply = self._request("POST", f"/api/v1/runs/{run_id}/artifacts", params=where, content=chunks(path), headers=headers)
        return self._reply(Artifact, reply)

    def download(self, artifact_id: str, path: Path) -> None:
        """Writes the artifact to ``path``, whole and with the right checksum or not at all.

        A connection that breaks is made anew. What has arrived when even that fails stays beside ``path``, and the next call goes on there.
        """
        artifact = self.artifact(artifact_id)
        part = path.with_name(f"{path.name}.{artifact.sha256[:12]}.part")
        digest = hashlib.sha256()
        if part.exists() and part.stat().st_size <= artifact.bytes:
            for chunk in chunks(part):
                digest.update(chunk)
        else:
            part.write_bytes(b"")
        fruitless = 0
        while (have := part.stat().st_size) < artifact.bytes:
            failure = self._go_on(artifact, part, digest.update, have)
            fruitless = fruitless + 1 if part.stat().st_size == have else 0
            if fruitless == TRIES:
                raise ApiError(0, "Broken off", f"{failure or 'no more comes'}; download again to go on with {part}") from failure
            if failure is not None:
                time.sleep(PAUSE_SECONDS)
        if digest.hexdigest() != artifact.sha256:
            part.unlink()
            raise ApiError(0, "Bad checksum", f"{path.name} arrived damaged; download it again")
        part.replace(path)

    def _go_on(self, artifact: Artifact, part: Path, noted: Callable[[bytes], None], have: int) -> httpx.TransportError | None:
        """Appends what comes from ``have`` on; what it broke off with, if it did."""
        headers = {"Accept-Encoding": "identity"}
        if have:
            headers |= {"Range": f"bytes={have}-", "If-Range": f'"{artifact.sha256}"'}
        try:
            with self._http.stream("GET", f"{_path(artifact.id)}/download", headers=headers) as response, part.open("ab") as file:
                self._raise_for_problem(response)
                if have and response.status_code != httpx.codes.PARTIAL_CONTENT:
                    part.unlink()
                    raise ApiError(0, "Changed", f"{artifact.name} is not what it was; download it again")
                for chunk in response.iter_raw():
                    noted(chunk)
                    file.write(chunk)
        except httpx.TransportError as error:
            return error
        return None


def _path(artifact_id: str) -> str:
    return f"/api/v1/artifacts/{last_part(artifact_id)}"
