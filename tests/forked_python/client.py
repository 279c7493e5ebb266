"""A stand-in for the Python interpreter: a server (see server.py) begins the process as a copy of one that has everything imported.

What is asked for with other options than -m, -c and -u, or of a server that is gone, a real interpreter does.
"""

import json
import os
import signal
import socket
import sys

FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


def open_files() -> list[int]:
    """Numbers of the open files; the process gets each of them under the same one."""
    return [number for number in map(int, os.listdir("/proc/self/fd")) if os.path.exists(f"/proc/self/fd/{number}")]


def order(arguments: list[str], files: list[int]) -> bytes:
    """What the server must know to begin the process that this one stands for."""
    umask = os.umask(0)
    os.umask(umask)
    told = {
        "arguments": arguments,
        "environment": dict(os.environ),
        "folder": os.getcwd(),
        "files": files,
        "umask": umask,
        "parent": os.getppid(),
        "ignored": [int(number) for number in FORWARDED if signal.getsignal(number) == signal.SIG_IGN],
        "leads": os.getpgid(0) == os.getpid(),
    }
    return json.dumps(told).encode()


def end_as(status: int) -> None:
    """Ends this process as the one that it stands for has ended."""
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


def main(python: str, address: str) -> None:
    """Begins the process and waits for its end; signals go on to it, and it dies with this one."""
    arguments = [argument for place, argument in enumerate(sys.argv[1:]) if place > 0 or argument != "-u"]
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    files = [number for number in open_files() if number != server.fileno()]
    try:
        if not arguments or (arguments[0].startswith("-") and arguments[0] not in ("-m", "-c")):
            raise ConnectionError
        server.connect(address)
    except OSError:
        os.execv(python, [python, *sys.argv[1:]])
    wanted = order(arguments, files)
    signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED)  # what comes now must wait until it can go on
    socket.send_fds(server, [len(wanted).to_bytes(4, "big")], files)
    server.sendall(wanted)
    answers = server.makefile("r")
    child = int(answers.readline())
    for number in FORWARDED:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda received, _: os.kill(child, received))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)
    end_as(int(answers.readline()))
