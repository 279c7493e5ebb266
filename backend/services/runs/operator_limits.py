"""What a run may name only where whoever operates this installation allows it: files of the host, code of its users, clusters to join."""

import os
from collections.abc import Sequence
from pathlib import Path

from backend.settings import Settings
from engine.config import RunConfig, data_paths, model_paths, own_code
from engine.models.library import BUILT_IN, kept
from longtail.schemas.base import FieldError
from longtail.schemas.identity import Role

BY_OPERATOR = "whoever operates this installation may allow it with"
OWN_CODE = f"code of your own is not run here; {BY_OPERATOR} LONGTAIL_OWN_CODE=true"
CLUSTER = f"a run is only sent to clusters that are named here, as it takes code from them; {BY_OPERATOR} LONGTAIL_RAY_ADDRESSES"


def beyond_limits(config: RunConfig, settings: Settings, role: Role) -> list[FieldError]:
    """A fault for each field that ``role`` may not set so here. No file is looked into, and of one outside the allowed folders not even
    whether it exists is told."""
    fields = {} if settings.own_code else dict.fromkeys(own_code(config), OWN_CODE)
    if config.cluster.ray_address not in (None, *settings.ray_addresses):
        fields["cluster.ray_address"] = CLUSTER
    data_roots = _roots(settings.data_roots, settings.home / "data", role)
    fields |= {field: _data(data_roots) for field, path in data_paths(config).items() if not _lies_in(path, data_roots)}
    model_roots = _roots(settings.model_roots, settings.home / "models", role)
    folders = {field: Path(path) for field, path in model_paths(config).items() if field != "model.path" or not _has_name(path)}
    fields |= {field: _models(model_roots) for field, path in folders.items() if not _lies_in(path, model_roots)}
    return [FieldError(field=field, message=message) for field, message in fields.items()]


def _roots(allowed: Sequence[Path], default: Path, role: Role) -> Sequence[Path]:
    """Where nothing else is said, an admin may name all files: on one's own machine that is its only user."""
    return allowed or ((Path("/"),) if role == "admin" else (default,))


def _has_name(model: str) -> bool:
    """Whether it is one of those that ``longtail models`` lists, which the operator has put there."""
    return model in BUILT_IN or kept(model) is not None


def _lies_in(path: Path, roots: Sequence[Path]) -> bool:
    """Where links lead counts."""
    if "\0" in str(path):
        return False
    place = Path(os.path.realpath(path))
    return any(place.is_relative_to(os.path.realpath(root.expanduser())) for root in roots)


def _data(roots: Sequence[Path]) -> str:
    return f"data is read from {_listed(roots)} only; {BY_OPERATOR} LONGTAIL_DATA_ROOTS"


def _models(roots: Sequence[Path]) -> str:
    return f"use a name that `longtail models` lists, or a folder in {_listed(roots)}; {BY_OPERATOR} LONGTAIL_MODEL_ROOTS"


def _listed(roots: Sequence[Path]) -> str:
    return " or ".join(map(str, roots))
