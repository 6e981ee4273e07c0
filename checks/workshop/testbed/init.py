"""The first process of a virtual host: everything on the host ends with it.

    init.py FOLDER NAME LIFETIME COMMAND...

Makes the namespaces that it was started in a host called NAME, prints `ready`, and starts the
command once a line is read. Then it collects what ended, until LIFETIME seconds have passed or
FOLDER/cluster.json is gone. The standard library alone, and no import of ours: it starts in 20 ms.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time


def main(folder: str, name: str, lifetime: float, command: list[str]) -> None:
    """Runs the host; see above."""
    socket.sethostname(name)
    subprocess.run(["mount", "--bind", f"{folder}/hosts", "/etc/hosts"], check=True)
    if os.getpid() == 1:  # else memory is shared between hosts
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/dev/shm"], check=True)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    print("ready", flush=True)
    if not sys.stdin.readline():
        return
    log = os.open(f"{folder}/log/{name}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    null = os.open(os.devnull, os.O_RDWR)
    for stream, file in ((0, null), (1, log), (2, log)):
        os.dup2(file, stream)
    if command:
        subprocess.Popen(command, start_new_session=True)
    until = time.monotonic() + lifetime
    while time.monotonic() < until and os.path.exists(f"{folder}/cluster.json"):
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.2)
    if os.getpid() != 1:  # no namespace of processes ends them
        end_others()


def end_others() -> None:
    """Ends the other processes of the host, by their network; also what they start meanwhile.

    Its parent ends with it; ended first, unshare's --kill-child would end this process too early.
    """
    network, left, kept = os.readlink("/proc/self/ns/net"), True, {os.getpid(), os.getppid()}
    while left:
        left = False
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):  # one that has ended has no network
                if int(pid) not in kept and os.readlink(f"/proc/{pid}/ns/net") == network:
                    os.kill(int(pid), signal.SIGKILL)
                    left = True
        time.sleep(0.05)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]), sys.argv[4:])
