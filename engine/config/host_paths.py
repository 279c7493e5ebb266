"""The files and folders of its host that a configuration names."""

from pathlib import Path

from engine.config.run import RunConfig
from engine.config.task import DatasetConfig


def data_paths(config: RunConfig) -> dict[str, Path]:
    """Files of rows, by field."""
    task = config.task
    named = {"drafter.pretrain_responses": config.drafter.pretrain_responses}
    if isinstance(task, DatasetConfig):
        named |= {"task.path": task.path, "task.validation_path": task.validation_path}
    return {field: path for field, path in named.items() if path}


def model_paths(config: RunConfig) -> dict[str, str]:
    """Models and drafters by field, as they are written there: ``model.path`` may be a model's name as well as a folder."""
    drafter = config.drafter.path if config.drafter.path not in ("builtin", "auto") else None
    named = {"model.path": config.model.path, "drafter.path": drafter, "rollout.sglang.draft_model": config.rollout.sglang.draft_model}
    return {field: path for field, path in named.items() if path}
