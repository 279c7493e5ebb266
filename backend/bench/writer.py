"""One script that tracks its run: ``python -m backend.bench.writer SECONDS``. Says "ready", waits for a line, and prints what it sent."""

import json
import sys
import time

from backend.bench.ingest import KEYS, STEPS, value
from longtail import Longtail
from longtail.schemas.tracking import NewBatch, NewPoints


def main(seconds: float) -> None:
    with Longtail() as client:
        run_id = client.begin("bench").id
        print("ready", flush=True)
        sys.stdin.readline()
        latencies: list[float] = []
        until, busy = time.monotonic() + seconds, time.process_time()
        while (began := time.monotonic()) < until:
            client.ingest(run_id, _batch(len(latencies)))
            latencies.append(time.monotonic() - began)
        busy = time.process_time() - busy
    print(json.dumps({"run_id": run_id, "latencies": latencies, "busy": busy}))


def _batch(number: int) -> NewBatch:
    steps = range(number * STEPS, (number + 1) * STEPS)
    return NewBatch(id=str(number), series=[NewPoints(key=key, points=[(step, value(key, step)) for step in steps]) for key in KEYS])


if __name__ == "__main__":
    main(float(sys.argv[1]))
