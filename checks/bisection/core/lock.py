"""One measurement at a time below a home: two would disturb each other."""

import atexit
import contextlib
import errno
import fcntl
import os
import shlex
import socket
import sys
import time
from pathlib import Path
from typing import TextIO

from bisection.core import paths
from bisection.core.format import utc
from bisection.core.verdicts import BisectionError, NotMeasured

_held: dict[Path, TextIO] = {}


def measure_alone() -> None:
    """Keeps other measurements of the home out until this process ends, however it ends.

    The lock is the kernel's (flock on run.lock), so a process that died holds none. Set-up asks for
    it too, before it installs anything.

    Raises:
        NotMeasured: another process has the lock.
        BisectionError: nothing can be written below the home.
    """
    path = paths.home() / "run.lock"
    if path in _held:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = open(path, "a+", encoding="utf-8")  # noqa: SIM115 # open as long as it is locked
    except OSError as error:
        text = f"cannot write to {path.parent} ({error.strerror})"
        raise BisectionError(f"{text}; BISECTION_HOME names another folder") from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        other = file.read().strip() or "an unknown process"
        file.close()
        text = f"{path.parent} is in use, and two would disturb each other: {other}"
        raise NotMeasured(text) from None
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP):
            raise
        print(f"note: no locks below {path.parent}: a second run would not be noticed")
    _held[path] = file
    file.truncate(0)
    atexit.register(file.truncate, 0)
    command = shlex.join(["bisection", *sys.argv[1:]])
    owner = f"pid {os.getpid()} on {socket.gethostname()} since {utc(time.time())}: {command}\n"
    with contextlib.suppress(OSError):  # it holds without its owner's name, too
        os.write(file.fileno(), owner.encode())
