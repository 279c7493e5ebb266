"""Errors that reach the user without a traceback: their message says what is wrong and what to do."""

USER_ERROR, RESUMABLE, FAULT = 2, 75, 70
"""Exit codes: a mistake that the user can mend; start again with --resume (EX_TEMPFAIL of sysexits.h); a fault of ours (EX_SOFTWARE)."""


class LongtailError(Exception):
    """Base of every error that is the user's to mend."""

    code = "error"
    exit_code = USER_ERROR


class ConfigError(LongtailError):
    """The run configuration is not usable, or training has diverged with it."""

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


class AttemptError(LongtailError):
    """This attempt cannot go on, through no fault of the run: another one that resumes from the last checkpoint can."""

    code = "lost"
    exit_code = RESUMABLE


class WorkerLostError(AttemptError):
    """A worker died: its process was killed, or its machine is gone."""

    code = "worker_lost"


class TakenOverError(AttemptError):
    """A later engine goes on in the run's folder."""

    code = "taken_over"


class StoppedError(AttemptError):
    """Not a fault: the run stopped at a step boundary, as it was asked to."""

    code = "stopped"


class SyncError(AttemptError):
    """The workers hold different weights after a sync."""

    code = "sync"
