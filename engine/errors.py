"""Errors that a user can mend. Their message says what is wrong and what to do; they reach the user without a traceback."""


class LongtailError(Exception):
    """Base of every error that is the user's to mend."""

    code = "error"


class ConfigError(LongtailError):
    """The run configuration is not usable."""

    code = "config"


class ModelError(LongtailError):
    """The model folder is missing, incomplete or of an unsupported architecture."""

    code = "model"


class DataError(LongtailError):
    """The task's data is missing, empty, unreadable, or has a prompt that is too long."""

    code = "data"


class CheckpointError(LongtailError):
    """A checkpoint is missing or does not verify."""

    code = "checkpoint"
