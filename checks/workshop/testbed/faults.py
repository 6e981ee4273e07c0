"""Faults of a cluster: how each is made, and what a run must report.

The first line of a fault's docstring is its description.
"""

import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bisection.core.reasons.launches import (
    Blocked,
    Cancelled,
    Disturbed,
    Hang,
    Infrastructure,
    KernelDied,
    KernelsStale,
    Misplaced,
    MpiAbort,
    NodeFail,
    NotStarted,
    ReframeText,
    Timeout,
    WrongAnswer,
)
from bisection.core.reasons.machines import SlowClock, SlowWriter, TcpLosses
from bisection.core.verdicts import Exit
from interconnect.reasons import SlowComponent
from workshop.testbed.blueprint import HEAD
from workshop.testbed.hosts import TestbedError
from workshop.testbed.scene import LIMIT, LONG, NOISE, PAIRS, SAMPLING, SHORT, Ran, Scene, shim

Make = Callable[[Scene], Ran]


@dataclass(frozen=True)
class Named:
    """What a function makes: its name and its docstring say it."""

    make: Callable[..., Any]

    @property
    def name(self) -> str:
        """As the command line has it."""
        return self.make.__name__.replace("_", "-")

    @property
    def text(self) -> str:
        """Returns the fault in words."""
        return (self.make.__doc__ or "").partition("\n")[0].rstrip(".")


@dataclass(frozen=True)
class Fault(Named):
    """A fault, and the wanted outcome."""

    make: Make
    code: str | None = None  # of a reason that the verdict has; None: the run passes
    names: tuple[str, ...] = ()  # what that reason names: nodes, ranks, signals
    exit_code: Exit = Exit.FAILED
    within: float = 120.0  # s, from the fault to the run's end, on a machine with loud neighbours
    accounting: bool = False  # needs the accounting database
    quick: bool = False  # one of those that every test of the project makes


@dataclass
class Outcome:
    """A fault on one back-end, and what was wrong with what followed."""

    fault: Fault
    backend: str
    seconds: float
    ran: Ran | None = None
    cause: str = ""  # the verdict's words
    wrong: list[str] = field(default_factory=list)  # empty: all as wanted


def faults_of(names: Iterable[str], quick: bool) -> list[Fault]:
    """The faults of these names, all if there are none.

    Raises:
        TestbedError: there is no fault of a name.
    """
    return [fault for fault in named(FAULTS, names) if fault.quick or not quick]


def named(faults: list[Any], names: Iterable[str]) -> list[Any]:
    """Those of faults that have these names, all if there are none; raises as `faults_of`."""
    known = {fault.name: fault for fault in faults}
    for name in names:
        if name not in known:
            raise UnknownFault(f"{name}: no fault; there are {', '.join(known)}")
    return [known[name] for name in names] or faults


class UnknownFault(TestbedError):
    """There is no such fault."""

    exit_code = Exit.USAGE


def tried(fault: Fault, scene: Scene, backend: str) -> Outcome:
    """Makes one fault, judges what the run made of it, and mends the cluster."""
    began = time.monotonic()
    outcome = Outcome(fault, backend, 0.0)
    try:
        outcome.ran = fault.make(scene)
        outcome.wrong += [f"left behind: {thing}" for thing in scene.left()]
        judge(outcome, outcome.ran)
    except TestbedError as error:
        outcome.wrong.append(str(error))
    finally:
        outcome.seconds = time.monotonic() - began
        scene.mend()
    return outcome


def judge(outcome: Outcome, ran: Ran) -> None:
    """Says what of the wanted outcome is not there."""
    fault = outcome.fault
    if not ran.verdict:
        outcome.wrong.append("no verdict")
    if ran.exit_code not in _accepted(fault, ran):
        outcome.wrong.append(f"exit {ran.exit_code}, not {fault.exit_code:d}")
    if ran.after > fault.within:
        outcome.wrong.append(f"{ran.after:.0f} s after it, not {fault.within:.0f} s at most")
    if "Traceback (most recent call last)" in ran.output:
        outcome.wrong.append("a traceback")
    outcome.cause = next(iter(ran.causes), ran.verdict)
    accused = re.findall(r"^(\S+) bisection:", ran.named, re.M)
    outcome.wrong += [f"{n} is in nodecheck.txt" for n in accused if n not in fault.names]
    if fault.code is None:
        return
    pairs = [
        (reason, text)
        for reason, text in zip(ran.reasons, ran.causes, strict=False)
        if fault.code in reason
    ]
    if not pairs:
        there = "; ".join(ran.causes) or "nothing"
        outcome.wrong.append(f"{there}, not {fault.code}")
        return
    outcome.cause = pairs[0][1]
    for word in fault.names:
        if not any(re.search(rf"\b{re.escape(word)}\b", text) for _, text in pairs):
            outcome.wrong.append(f"{word} is not named")
        elif fault.exit_code in (Exit.OK, Exit.SLOWER) and word not in accused:
            outcome.wrong.append(f"{word} is not in nodecheck.txt")


def _accepted(fault: Fault, ran: Ran) -> tuple[int, ...]:
    """Exit codes that are as wanted. A launch that passes may have been disturbed by neighbours."""
    disturbed = any(Disturbed.code in reason for reason in ran.reasons)
    extra = (Exit.NOT_MEASURED,) if fault.exit_code == Exit.OK and disturbed else ()
    return (fault.exit_code, *extra)


# ---- nodes and links ----


def node_lost(scene: Scene) -> Ran:
    """The power of a node fails while a kernel runs on it."""
    return scene.run("srun-2", *LONG, during=lambda: scene.cluster.kill_node("node2"))


def cable_cut(scene: Scene) -> Ran:
    """The cable of a node is pulled while a kernel runs on it."""
    ran = scene.run("srun-2", *LONG, during=lambda: scene.cluster.cut("node2"))
    scene.cluster.mend("node2")  # nobody ends what runs on a node that cannot be reached
    return ran


def slow_link(scene: Scene) -> Ran:
    """A node's link has a third of the bandwidth of the others."""
    return _pairs(scene, lambda: scene.cluster.shape("node3", "50mbit"))


def late_link(scene: Scene) -> Ran:
    """A node's link holds packets for twice as long as the others do."""

    def delay() -> None:
        for number in range(1, 7):
            scene.cluster.delay(f"node{number}", 0.004 if number == 3 else 0.002)

    return _pairs(scene, delay)


def same_links(scene: Scene) -> Ran:
    """Nothing is wrong: all links are alike."""
    return _pairs(scene, lambda: None)


def _pairs(scene: Scene, disturb: Callable[[], None]) -> Ran:
    """Measures pairs of nodes whose links are slower than their processors, as in real clusters."""
    for number in range(1, 7):
        scene.cluster.shape(f"node{number}", "150mbit")
    disturb()
    return scene.run("six-6", *PAIRS)


def lossy_link(scene: Scene) -> Ran:
    """A node's link loses one packet of 100, both ways."""
    scene.cluster.lose("node3", 0.01)
    return scene.run("six-6", *SHORT, "-S", SAMPLING.format(5))


def slow_core(scene: Scene) -> Ran:
    """Interrupts take most of the time of a node's core."""
    with scene.interrupted("node2"):
        return scene.run("srun-2", *NOISE)


def same_cores(scene: Scene) -> Ran:
    """Nothing is wrong: all cores are alike."""
    return scene.run("srun-2", *NOISE)


# ---- ranks ----


def stopped_rank(scene: Scene) -> Ran:
    """A rank does not go on (SIGSTOP)."""
    patience = "TransposeLaunch.options=--progress-timeout=8"
    stop = lambda: scene.signal_rank(signal.SIGSTOP)  # noqa: E731
    return scene.run("mpirun-2", *LONG, "-S", patience, during=stop)


def stopped_rank_srun(scene: Scene) -> Ran:
    """The same under srun."""
    patience = "TransposeLaunch.options=--progress-timeout=8"
    stop = lambda: scene.signal_rank(signal.SIGSTOP)  # noqa: E731
    return scene.run("srun-2", *LONG, "-S", patience, during=stop)


def segv_srun(scene: Scene) -> Ran:
    """A rank dies of SIGSEGV under srun."""
    return scene.run("srun-2", *LONG, during=lambda: scene.signal_rank(signal.SIGSEGV))


def segv_mpirun(scene: Scene) -> Ran:
    """A rank dies of SIGSEGV under mpirun."""
    return scene.run("mpirun-2", *LONG, during=lambda: scene.signal_rank(signal.SIGSEGV))


ABORT = """
#include <mpi.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
static void *abort_later(void *unused)
{
    sleep(3);
    MPI_Abort(MPI_COMM_WORLD, 7);
    return unused;
}
int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    int code = PMPI_Init_thread(argc, argv, required, provided), rank;
    pthread_t thread;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 1) pthread_create(&thread, NULL, abort_later, NULL);
    return code;
}
int MPI_Init(int *argc, char ***argv)
{
    int provided;
    return MPI_Init_thread(argc, argv, MPI_THREAD_SINGLE, &provided);
}
"""


def mpi_abort(scene: Scene) -> Ran:
    """A rank calls MPI_Abort."""
    library = shim(ABORT, scene.cluster.folder)
    preload = f"TransposeLaunch.env_vars=LD_PRELOAD:{library}"
    return scene.run("srun-2", *LONG, "-S", preload)


# ---- launchers that cannot start ----


def no_step(scene: Scene) -> Ran:
    """srun asks for more tasks than the job has cores."""
    return scene.run("srun-2", *SHORT, "-S", "TransposeLaunch.env_vars=SLURM_NTASKS:64")


# ---- the queue ----


def time_limit(scene: Scene) -> Ran:
    """A launch reaches its time limit: a rank stands still, and the watchdog is off."""

    def shorten() -> None:
        scene.signal_rank(signal.SIGSTOP)
        scene.slurm("scontrol", "update", f"jobid={scene.job()}", "timelimit=1")

    unwatched = "TransposeLaunch.options=--progress-timeout=0"
    return scene.run("srun-2", *LONG, "-S", unwatched, during=shorten)


def cancelled(scene: Scene) -> Ran:
    """Somebody cancels the job."""
    return scene.run("srun-2", *LONG, during=lambda: scene.slurm("scancel", scene.job()))


def ctrl_c(scene: Scene) -> Ran:
    """A person interrupts the run (Ctrl-C)."""
    return scene.run("srun-2", *LONG, during=scene.interrupt)


def impossible(scene: Scene) -> Ran:
    """A launch asks for 8 of 4 nodes."""
    return scene.run("all-8", *SHORT)


def no_such_feature(scene: Scene) -> Ran:
    """A launch asks for nodes of a feature that none has."""
    return scene.run("nowhere-2", *SHORT)


def drained(scene: Scene) -> Ran:
    """A node is drained, and a launch needs it."""
    state = ("nodename=node2", "state=drain", "reason=fan")
    scene.slurm("scontrol", "update", *state)
    return scene.run("all-4", *SHORT)


def down(scene: Scene) -> Ran:
    """A node is down, and a launch needs it."""
    state = ("nodename=node2", "state=down", "reason=dimm")
    scene.slurm("scontrol", "update", *state)
    return scene.run("all-4", *SHORT)


def busy(scene: Scene) -> Ran:
    """Another job has the nodes for longer than the run may last (--deadline)."""
    with scene.beside("srun", "-p", "duo", "-N2", "--mpi=none", "sleep", "600"):
        time.sleep(1)
        return scene.run("srun-2", *SHORT, "--deadline", "20s")


# ---- daemons ----


def controller_away(scene: Scene) -> Ran:
    """Slurm's controller does not answer for 12 s."""
    return _away(scene, "slurmctld", 12)


def database_away(scene: Scene) -> Ran:
    """Slurm's accounting does not answer for 40 s."""
    return _away(scene, "slurmdbd", 40)


def _away(scene: Scene, daemon: str, seconds: float) -> Ran:
    def pause() -> None:
        scene.cluster.pause(daemon)
        time.sleep(seconds)
        scene.cluster.resume(daemon)

    return scene.run("srun-2", *SHORT, "-S", SAMPLING.format(400), during=pause)


# ---- folders ----


def no_common_folder(scene: Scene) -> Ran:
    """The first node does not see the folder of the job."""
    for number in range(1, 5):
        scene.mount(f"node{number}", scene.cluster.folder / "home")
    return scene.run("srun-2", *SHORT)


def disk_full(scene: Scene) -> Ran:
    """The disk below the results is full."""
    home = scene.cluster.folder / "small"
    scene.mount(HEAD, home, "400k")
    return scene.run("srun-2", *SHORT, home=home)


# ---- disks of restart files ----

# In place of the C library: files of a restart file's folder, on one host.
DISK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>
static char watched[4096];
static int is(const char *fault)
{
    char host[65] = "";
    gethostname(host, 64);
    return strcmp(host, getenv("DISK_HOST")) == 0 && strcmp(getenv("DISK_FAULT"), fault) == 0;
}
static int is_watched(int file)
{
    return file >= 0 && file < (int)sizeof watched && watched[file];
}
static void take_time(int file, size_t bytes) /* 10 MB/s */
{
    if (is_watched(file) && is("slow")) usleep(bytes / 10);
}
#define REAL(NAME) ((__typeof__(NAME) *)dlsym(RTLD_NEXT, #NAME))
int open(const char *path, int flags, ...)
{
    static time_t first;
    int mode = 0, writes = (flags & O_ACCMODE) != O_RDONLY;
    writes = writes && strstr(path, "/bisection-restart-");
    va_list more;
    va_start(more, flags);
    if (flags & O_CREAT) mode = va_arg(more, int);
    va_end(more);
    if (writes && !first) first = time(NULL);
    if (writes && is("read-only") && time(NULL) > first + 2) {
        errno = EROFS;
        return -1;
    }
    int file = REAL(open)(path, flags, mode);
    if (file >= 0 && file < (int)sizeof watched) watched[file] = writes;
    return file;
}
ssize_t write(int file, const void *from, size_t bytes)
{
    take_time(file, bytes);
    if (is_watched(file) && is("lost"))
        return lseek(file, bytes, SEEK_CUR) < 0 ? -1 : (ssize_t)bytes;
    return REAL(write)(file, from, bytes);
}
ssize_t pwrite(int file, const void *from, size_t bytes, off_t at)
{
    take_time(file, bytes);
    return REAL(pwrite)(file, from, bytes, at);
}
ssize_t pwritev(int file, const struct iovec *parts, int count, off_t at)
{
    for (int i = 0; i < count; i++) take_time(file, parts[i].iov_len);
    return REAL(pwritev)(file, parts, count, at);
}
"""
WRITES = ("-n", "^restart%method=file-per-rank%launch.layout=mpi%launch.case=waves-mini$")
ALONE = ("-S", "RestartLaunch.methods=waves-mini:file-per-rank")
REPEATS = "RestartLaunch.sampling=waves-mini:--repeats {} --block 1 --limit 1000000"


def _with_disk(scene: Scene, fault: str, repeats: int, *choices: str) -> Ran:
    """Writes files on two nodes; those of node2 go to a disk with a fault."""
    library = shim(DISK, scene.cluster.folder)
    preload = f"RestartLaunch.env_vars=LD_PRELOAD:{library},DISK_HOST:node2,DISK_FAULT:{fault}"
    settings = ("-S", preload, "-S", REPEATS.format(repeats), *choices)
    return scene.run("srun-2", *WRITES, *settings)


def slow_disk(scene: Scene) -> Ran:
    """A node writes 10 MB/s, the other node much more."""
    # By all methods, as ratios are to others; the retest is the second launch that names the node.
    return _with_disk(scene, "slow", 3, "--retest", "8m")


def lost_write(scene: Scene) -> Ran:
    """The file system of a node takes what is written, and keeps zeros."""
    return _with_disk(scene, "lost", 1, *ALONE)


def read_only(scene: Scene) -> Ran:
    """The file system of a node becomes read-only while files are written."""
    return _with_disk(scene, "read-only", 1000000, *ALONE)


def full_disk(scene: Scene) -> Ran:
    """Another program fills the file system while files are written."""
    folder = scene.cluster.folder / "scratch"
    scene.mount(HEAD, folder, "64m")

    def fill() -> None:
        line = ("sh", "-c", f"cat /dev/zero >{folder}/fill")
        subprocess.run(scene.cluster.command(line), capture_output=True)

    where = f"RestartLaunch.options=--directory={folder},--share=50"
    repeats = REPEATS.format(1000000)
    return scene.run("srun-2", *WRITES, *ALONE, "-S", where, "-S", repeats, during=fill)


# ---- kernels, launchers, binding ----


def shared_core(scene: Scene) -> Ran:
    """Both ranks of a node are bound to one core."""
    return scene.run("shared-1", *SHORT)


def strangers(scene: Scene) -> Ran:
    """The kernels' MPI and the launcher do not know each other."""
    return scene.run("srun-2", *SHORT, kernels=scene.foreign)


def stale_kernels(scene: Scene) -> Ran:
    """The kernels were built from other sources than those of the checkout."""
    folder = scene.cluster.folder / "stale"
    (folder / "bin").mkdir(parents=True, exist_ok=True)
    for kernel in (scene.kernels / "bin").iterdir():
        copy = folder / "bin" / kernel.name
        copy.write_bytes(_of_other_sources(kernel))
        copy.chmod(0o755)
    return scene.run("srun-2", *SHORT, kernels=folder)


def _of_other_sources(kernel: Path) -> bytes:
    """A kernel with another hash of its sources in it."""
    data = kernel.read_bytes()
    return re.sub(rb"(?<=bisection-sources:)[0-9a-f]{64}", b"0" * 64, data)


FAULTS = [
    Fault(node_lost, NodeFail.code, ("node2",), quick=True),
    Fault(cable_cut, NodeFail.code, ("node2",)),
    Fault(slow_link, SlowComponent.code, ("node3",), within=LIMIT),
    Fault(late_link, SlowComponent.code, ("node3",), within=LIMIT),
    Fault(same_links, exit_code=Exit.OK, within=LIMIT),
    Fault(lossy_link, TcpLosses.code, ("node3",), Exit.OK, within=LIMIT),
    Fault(slow_core, SlowClock.code, ("node2",), Exit.SLOWER, within=LIMIT),
    Fault(same_cores, exit_code=Exit.OK, within=LIMIT),
    Fault(stopped_rank, Hang.code, ("1", "node2"), within=60),
    Fault(stopped_rank_srun, Hang.code, ("1", "node2"), within=60, quick=True),
    Fault(segv_srun, KernelDied.code, ("SIGSEGV", "1", "node2"), within=30, quick=True),
    Fault(segv_mpirun, KernelDied.code, ("SIGSEGV", "1", "node2"), within=30),
    Fault(mpi_abort, MpiAbort.code, ("1", "node2")),
    Fault(no_step, NotStarted.code, ("srun",), Exit.NOT_MEASURED),
    Fault(time_limit, Timeout.code, within=150),
    Fault(cancelled, Cancelled.code, exit_code=Exit.NOT_MEASURED, within=30),
    Fault(ctrl_c, ReframeText.code, ("user",), exit_code=Exit.NOT_MEASURED, within=60),
    Fault(impossible, Blocked.code, exit_code=Exit.NOT_MEASURED),
    Fault(no_such_feature, Blocked.code, exit_code=Exit.NOT_MEASURED),
    Fault(drained, Blocked.code, ("node2", "fan"), Exit.NOT_MEASURED, quick=True),
    Fault(down, Blocked.code, ("node2", "dimm"), Exit.NOT_MEASURED),
    Fault(busy, Blocked.code, exit_code=Exit.NOT_MEASURED),
    Fault(controller_away, exit_code=Exit.OK),
    Fault(database_away, exit_code=Exit.OK, accounting=True),
    Fault(no_common_folder, Infrastructure.code, (), Exit.NOT_MEASURED),
    Fault(disk_full, Infrastructure.code, (), Exit.NOT_MEASURED),
    Fault(slow_disk, SlowWriter.code, ("node2",), Exit.SLOWER, within=LIMIT),
    Fault(lost_write, WrongAnswer.code, ("file-per-rank", "words")),
    Fault(read_only, KernelDied.code, ("Read-only file system",), Exit.NOT_MEASURED),
    Fault(full_disk, KernelDied.code, ("No space left on device",), Exit.NOT_MEASURED),
    Fault(shared_core, Misplaced.code, ("node7",)),
    Fault(strangers, Misplaced.code, ("2 MPI worlds",), quick=True),
    Fault(stale_kernels, KernelsStale.code, exit_code=Exit.NOT_MEASURED),
]
