"""Stands between a job worker and its engine: ``python -m backend.jobs.engine.kill_on_worker_loss DEADLINE COMMAND ...``.

It leads the engine's session. On stdin it hears, a line each, until when (on the monotonic clock) the worker holds its lease; once that
is over, or the worker is gone, it kills every process of the attempt. So whatever becomes of the worker (killed, frozen, cut off from the
database), no engine outlives the lease to write into a run that somebody else has by then. SIGTERM is passed on; it ends as its engine.
"""

import os
import select
import signal
import subprocess
import sys
import threading
import time

from backend.jobs.engine.processes import attempt_here, kill_all

LINE_BYTES = 4096


def main(deadline: float, command: list[str]) -> None:
    engine = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    signal.signal(signal.SIGTERM, lambda number, _: engine.send_signal(number))
    threading.Thread(target=_watch, args=(deadline,), daemon=True).start()
    code = engine.wait()
    if code < 0:
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)


def _watch(deadline: float) -> None:
    """Returns never: at the end nothing of the attempt is left, this process included."""
    rest = b""
    while (left := deadline - time.monotonic()) > 0:
        if not select.select([0], [], [], left)[0]:
            continue
        heard = os.read(0, LINE_BYTES)
        if not heard:
            break
        *lines, rest = (rest + heard).split(b"\n")
        deadline = max([deadline, *map(float, lines)])
    kill_all(*attempt_here(), os.getsid(0))


if __name__ == "__main__":
    main(float(sys.argv[1]), sys.argv[2:])
