"""What lies in a run's folder: the names that the engine, and whoever looks after its runs, know these by."""

EVENTS = "events.jsonl"
CHECKPOINTS = "checkpoints"
PRETRAINING = "pretraining"
STOP = "stop"
"""A file that asks the run to stop at the next step boundary."""
UNFINISHED_ARTIFACTS = ".artifacts."
"""What the names of folders begin with in which an export makes artifacts, perhaps the whole policy: one that is killed leaves its own."""
