"""``python -I cell.py SECONDS MEGABYTES ISOLATION WORD``: reads a program, shuts itself in, runs it, says WORD if it came to its end.

Uses nothing of this project: the program must not find it loaded.
"""

import ctypes
import os
import resource
import struct
import sys

AT_FDCWD, AT_RECURSIVE, MOUNT_ATTR_RDONLY, MOUNT_SETATTR = -100, 0x8000, 0x1, 442
MS_NOSUID, MS_NODEV = 0x2, 0x4
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, LAST_CAPABILITY = 24, 38, 63
PR_SET_SECCOMP, FILTER = 22, 2
OPEN_FILES, FILE_BYTES = 64, 16 * 2**20
SYSCALLS = {"x86_64": (0xC000003E, 56, (57, 58)), "aarch64": (0xC00000B7, 220, ())}
"""By machine: its audit number, clone, and the other calls that make a process."""
CLONE3, CLONE_THREAD = 435, 0x10000
DROPPED = "--dropped"
SCRATCH = ("/tmp", "/dev/shm", "/mnt")


def main() -> None:
    seconds, megabytes, isolation, word = sys.argv[1:5]
    if isolation == "namespaces" and DROPPED not in sys.argv:
        _read_only()
        _give_up_rights()
        os.execv(sys.executable, [sys.executable, "-I", "-B", *sys.argv, DROPPED])
    program = sys.stdin.buffer.read().decode("utf-8", "replace")
    _limit(float(seconds), int(megabytes))
    answer = os.dup(1)
    with open(os.devnull, "w") as nothing:  # noqa: PTH123
        os.dup2(nothing.fileno(), 1)
    os.chdir(scratch())
    os.environ["TMPDIR"] = scratch()
    if isolation == "namespaces":
        _no_processes()
    exec(compile(program, "program.py", "exec"), {"__name__": "__main__"})
    os.write(answer, word.encode())


def scratch() -> str:
    """Where the program may write: not where this interpreter lies, which an empty file system would hide."""
    needed = (sys.executable, os.path.realpath(sys.executable), sys.prefix, sys.base_prefix, os.path.abspath(__file__))  # noqa: PTH100
    return next(place for place in SCRATCH if not any(path.startswith(f"{place}/") for path in needed))


def _read_only() -> None:
    """Every file system, and then an empty one at ``scratch`` that can be written."""
    libc = ctypes.CDLL(None, use_errno=True)
    attributes = (ctypes.c_uint64 * 4)(MOUNT_ATTR_RDONLY, 0, 0, 0)
    done = libc.syscall(MOUNT_SETATTR, AT_FDCWD, b"/", AT_RECURSIVE, attributes, ctypes.sizeof(attributes))
    done = done or libc.mount(b"tmpfs", scratch().encode(), b"tmpfs", MS_NOSUID | MS_NODEV, b"size=16m")
    done = done or libc.mount(b"proc", b"/proc", b"proc", MS_NOSUID | MS_NODEV, None)
    if done:
        raise OSError(ctypes.get_errno(), "cannot make the file system read-only")


def _give_up_rights() -> None:
    """After the next exec this process is root of its namespace by name alone."""
    libc = ctypes.CDLL(None, use_errno=True)
    for capability in range(LAST_CAPABILITY + 1):
        libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)  # fails beyond the kernel's last one
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "cannot give up rights")


def _limit(seconds: float, megabytes: int) -> None:
    limits = {
        resource.RLIMIT_CPU: int(seconds) + 1,
        resource.RLIMIT_AS: megabytes * 2**20,
        resource.RLIMIT_FSIZE: FILE_BYTES,
        resource.RLIMIT_NOFILE: OPEN_FILES,
        resource.RLIMIT_CORE: 0,
    }
    for limit, value in limits.items():
        resource.setrlimit(limit, (value, value))


def _no_processes() -> None:
    """Threads only from here on: a limit on processes would not hold for root."""
    audit, clone, others = SYSCALLS[os.uname().machine]
    allow, refuse, unknown = (0x06, 0, 0, 0x7FFF0000), (0x06, 0, 0, 0x00050000 | 1), (0x06, 0, 0, 0x00050000 | 38)
    load, equal, at_least, has = 0x20, 0x15, 0x35, 0x45
    filters = [
        (load, 0, 0, 4),
        (equal, 1, 0, audit),
        refuse,
        (load, 0, 0, 0),
        (at_least, 0, 1, 0x40000000),  # the x32 calls, under other numbers
        refuse,
        (equal, 0, 1, CLONE3),
        unknown,  # then libc uses clone, whose flags can be seen here
        *(step for call in others for step in ((equal, 0, 1, call), refuse)),
        (equal, 1, 0, clone),
        allow,
        (load, 0, 0, 16),
        (has, 0, 1, CLONE_THREAD),
        allow,
        refuse,
    ]
    code = b"".join(struct.pack("HBBI", *step) for step in filters)
    program = struct.pack("HP", len(filters), ctypes.addressof(buffer := ctypes.create_string_buffer(code)))
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_SECCOMP, FILTER, ctypes.create_string_buffer(program), 0, 0):
        raise OSError(ctypes.get_errno(), "cannot forbid processes")
    del buffer


if __name__ == "__main__":
    main()
