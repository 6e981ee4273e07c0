"""Virtual hosts: Linux namespaces, a set of CPUs and a cable each.

A host is one process (init.py) and what was started in its namespaces. When that process dies the
kernel ends the others and removes network and mounts; only the set of CPUs is left to remove.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, cast

from bisection.core.verdicts import BisectionError, Exit

INIT = Path(__file__).with_name("init.py")
NETWORK = ("net", "uts", "mount")  # namespaces of any host
SHARED = (*NETWORK, "ipc")  # of one that is apart; commands on the login node enter these
PATIENCE = 20.0  # s for any one command that sets a host up


class TestbedError(BisectionError):
    """The virtual cluster cannot be used; the text is the reason."""

    __test__ = False  # pytest would take the class for a test
    exit_code = Exit.NOT_MEASURED


@dataclass(frozen=True)
class Process:
    """A process by number and start, as numbers are used again."""

    pid: int
    start: int  # clock ticks since boot

    @classmethod
    def of(cls, pid: int) -> "Process | None":
        """The process of a number now; None if there is none, or it has ended (a zombie)."""
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return None
        return None if fields[0] in "ZX" else cls(pid, int(fields[19]))

    @property
    def alive(self) -> bool:
        """True if it still runs."""
        return Process.of(self.pid) == self

    def command(self) -> list[str]:
        """Its command line; empty if it has ended."""
        try:
            words = Path(f"/proc/{self.pid}/cmdline").read_bytes().rstrip(b"\0").split(b"\0")
        except OSError:
            return []
        return [word.decode(errors="replace") for word in words]

    def send(self, number: signal.Signals) -> None:
        """Sends a signal, unless it has ended."""
        if self.alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)


def start(
    name: str,
    folder: Path,
    lifetime: float,
    command: Sequence[str],
    cpuset: Path | None = None,
    parent: Process | None = None,
    apart: bool = True,
    connect: Callable[[Process], None] = lambda _: None,
) -> Process:
    """Starts a host.

    Args:
        name: its host name.
        folder: of the cluster.
        lifetime: s after which it ends itself.
        command: its daemon.
        cpuset: the control group of its CPUs; None for all of this machine's.
        parent: the host whose mounts it sees, also later ones; None for this machine.
        apart: whether it sees no memory and no process of other hosts.
        connect: is called with its first process before the daemon starts.

    Returns:
        Its first process.

    Raises:
        TestbedError: no namespaces can be made.
    """
    spaces = (*SHARED, "pid") if apart else NETWORK
    flags = [*(f"--{space}" for space in spaces), "--fork", "--kill-child"]
    flags += ["--propagation", "slave" if parent else "private"]
    flags += ["--mount-proc"] if parent and apart else []
    line = [*entered(parent, ("mount",)), "unshare", *flags]
    line += [sys.executable, "-I", "-S", str(INIT), str(folder), name, f"{lifetime:.0f}", *command]
    with open(folder / "log" / f"{name}.log", "ab") as log:
        outer = subprocess.Popen(
            line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
            start_new_session=True, preexec_fn=partial(enter_group, cpuset) if cpuset else None,
        )  # fmt: skip
    with cast("IO[bytes]", outer.stdout) as said, cast("IO[bytes]", outer.stdin) as told:
        if said.readline() != b"ready\n":
            outer.wait(timeout=PATIENCE)
            words = (folder / "log" / f"{name}.log").read_text(errors="replace").splitlines()
            raise TestbedError(f"{name} does not start: {words[-1] if words else 'no output'}")
        children = Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text().split()
        host = Process.of(int(children[0]))
        if host is None:
            raise TestbedError(f"{name} ended while it started")
        connect(host)
        told.write(b"go\n")
        told.flush()
    return host


def entered(host: Process | None, spaces: Sequence[str]) -> list[str]:
    """The words before a command that has it run on a host; none without a host."""
    if host is None:
        return []
    # A host begun in a chroot has its root there, and not where its mounts begin.
    root = ["--root"] if "mount" in spaces else []
    return ["nsenter", f"--target={host.pid}", *(f"--{space}" for space in spaces), *root]


def processes(host: Process) -> list[Process]:
    """Returns the processes on a host, its first process among them; empty if the host is dead."""
    space = _network(host.pid)
    pids = [int(entry) for entry in os.listdir("/proc") if entry.isdigit()] if space else []
    running = (Process.of(pid) for pid in pids if _network(pid) == space)
    return [process for process in running if process]


def _network(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/net")
    except OSError:
        return ""


def end(host: Process) -> None:
    """Ends a host as a power cut does, and what other processes run on it.

    Raises:
        TestbedError: something does not end.
    """
    if not host.alive:
        return
    running = processes(host)
    host.send(signal.SIGKILL)
    for process in running:
        if process.pid != os.getpid():
            process.send(signal.SIGKILL)
    left = running
    for _ in until(PATIENCE):
        left = [process for process in left if process.alive and process.pid != os.getpid()]
        if not left:
            return
    raise TestbedError(f"process {left[0].pid} does not end: {' '.join(left[0].command())[:80]}")


def until(seconds: float, pause: float = 0.05) -> Iterator[None]:
    """Turns of a loop, until so many seconds have passed; at least one."""
    limit = time.monotonic() + seconds
    yield
    while time.monotonic() < limit:
        time.sleep(pause)
        yield


# ---- sets of CPUs: control groups of version 1 or 2 ----


def cpuset_root() -> Path:
    """The control group below which sets of CPUs can be made.

    Raises:
        TestbedError: there is none.
    """
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    for _, folder, kind, options, *_ in mounts:
        if kind == "cgroup" and "cpuset" in options.split(","):
            return Path(folder)
        if kind == "cgroup2" and "cpuset" in _words(Path(folder, "cgroup.controllers")):
            if "cpuset" not in _words(Path(folder, "cgroup.subtree_control")):
                try:
                    Path(folder, "cgroup.subtree_control").write_text("+cpuset")
                except OSError as error:
                    raise TestbedError(
                        f"control groups: no sets of CPUs ({error.strerror})"
                    ) from None
            return Path(folder)
    raise TestbedError("control groups: no controller of sets of CPUs (cpuset) is mounted")


def make_cpuset(name: str, cpus: Sequence[int]) -> Path:
    """A control group with these CPUs, and all memory of this machine."""
    root = cpuset_root()
    group = root / name
    group.mkdir(exist_ok=True)
    memory = next(filter(None, map(_text, root.glob("cpuset.mems*"))), "0")
    (group / "cpuset.cpus").write_text(",".join(map(str, cpus)))
    (group / "cpuset.mems").write_text(memory)
    return group


def end_cpusets(prefix: str) -> None:
    """Ends what still runs in the control groups whose names begin so, and removes them.

    Without a namespace of their own (shared memory), a node's processes outlive its first one.
    """
    with contextlib.suppress(TestbedError):
        for group in cpuset_root().glob(f"{prefix}*"):
            for pid in map(int, _words(group / "cgroup.procs")):
                if pid != os.getpid() and (process := Process.of(pid)):
                    process.send(signal.SIGKILL)
            for _ in until(2):  # the kernel still counts those that have just ended
                with contextlib.suppress(OSError):
                    group.rmdir()
                    break


def enter_group(group: Path) -> None:
    """Puts this process into a control group."""
    (group / "cgroup.procs").write_text("0")


def _words(path: Path) -> list[str]:
    return _text(path).split()


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
