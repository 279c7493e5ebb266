"""A stand-in for the Python interpreter: a server (see server.py) begins the process as a copy of one that has everything imported.

It looks like a process of its own but for these: the copy is a child of the server and leads a session, so that its parent and its
session are not those that were asked for; a signal reaches the copy and not the processes that it has started; it ends a moment after
its client was killed; and what modules make of the environment when they are imported is of the server's, the hash seed, too.
A true interpreter does what is asked for with other options than -m, -c and -u.
"""

import contextlib
import json
import os
import resource
import signal
import socket
import sys

FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


def open_files() -> list[int]:
    """Numbers of the open files; the process gets each of them under the same one."""
    return [number for number in map(int, os.listdir("/proc/self/fd")) if os.path.exists(f"/proc/self/fd/{number}")]


def order(arguments: list[str], unbuffered: bool, files: list[int]) -> bytes:
    """What the server must know to begin the process that this one stands for."""
    umask = os.umask(0)
    os.umask(umask)
    kinds = [value for name, value in vars(resource).items() if name.startswith("RLIMIT_")]
    told = {
        "arguments": arguments,
        "unbuffered": unbuffered,
        "environment": dict(os.environ),
        "folder": os.getcwd(),
        "files": files,
        "umask": umask,
        "parent": os.getppid(),
        "ignored": [int(number) for number in FORWARDED if signal.getsignal(number) == signal.SIG_IGN],
        "blocked": [int(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, ())],
        "limits": {kind: resource.getrlimit(kind) for kind in kinds},
        "processors": sorted(os.sched_getaffinity(0)),
        "leads": os.getpgid(0) == os.getpid(),
    }
    return json.dumps(told).encode()


def pass_on(child: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # it has ended, and how is on the way
        os.kill(child, number)


def end_as(status: int) -> None:
    """Ends this process as the one that it stands for has ended."""
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.kill(os.getpid(), -code)
    os._exit(code)


def main(python: str, address: str) -> None:
    """Begins the process and waits for its end; signals go on to it, and it dies with this one."""
    unbuffered = sys.argv[1:2] == ["-u"]
    arguments = sys.argv[1 + unbuffered :]
    if not arguments or (arguments[0].startswith("-") and arguments[0] not in ("-m", "-c")):
        os.execv(python, [python, *sys.argv[1:]])
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    files = [number for number in open_files() if number != server.fileno()]
    server.connect(address)
    wanted = order(arguments, unbuffered, files)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED)  # what comes now must wait until it can go on
    socket.send_fds(server, [len(wanted).to_bytes(4, "big")], files)
    server.sendall(wanted)
    answers = server.makefile("r")
    child = int(answers.readline())
    for number in FORWARDED:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda received, _: pass_on(child, received))
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    end_as(int(answers.readline()))
