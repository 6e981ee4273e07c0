"""A ladder of real faults of this host: what a run must report of each, after quiet nights.

The first line of a fault's docstring is its description. Nights are runs of a small launch, on the
cores of this host. A second history has the same nights, every second of them in a slower state of
the host: their times are longer by a factor. Each fault gets a copy of a history.
"""

import contextlib
import os
import re
import shutil
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bisection.core import paths
from bisection.core.verdicts import Exit
from bisection.store import sync
from bisection.store.sample_file import SPOOLED, read_samples
from workshop.testbed.faults import Named
from workshop.testbed.hosts import TestbedError, enter_group
from workshop.testbed.scene import shim
from workshop.testbed.site import installed

QUIET = 6  # nights before a fault
MOST = 10  # nights that are begun for them, where neighbours disturb some
SLOWER_STATE = 1.25  # times of every second night of the second history
STATES = {"one": 1.0, "two": SLOWER_STATE}  # history -> factor
FIRST_LINE = (
    r"\b(PASS|FAIL|NOT MEASURED|SLOWER THAN BEFORE): .*?, in [0-9.]+ (ms|s|min)( [0-9]+ s)?"
)
LIMIT = 600.0  # s, for one run


class Withheld(TestbedError):
    """This host cannot have the fault."""


@dataclass(frozen=True)
class Nights:
    """What runs every night."""

    launch: str  # name of the tests, as ReFrame has it
    patience: str  # --retest: half of it waits for a quiet host


TRANSPOSE = Nights("^transpose%.*layout=mpi%launch.case=cnt40$", "40s")
MESH = Nights("^halo%.*layout=mpi%launch.case=pchan-24$", "2m")  # most of its time is computed
# Through TCP a message takes ten times as long. A transpose takes 20 us longer, which a host that
# turns faster by itself may hide.
PATTERNS = Nights("^network%.*layout=mpi%launch.case=sweep$", "2m")


@dataclass
class Tonight:
    """How a run differs from a quiet one."""

    variables: dict[str, str] = field(default_factory=dict)  # of the environment
    arguments: tuple[str, ...] = ()  # of `bisection run`
    begin: Callable[[], object] | None = None  # is called in the run's process before it begins
    kernels: Path | None = None  # in place of the usual ones


@dataclass
class Night:
    """A run that has ended."""

    exit_code: int
    text: str  # what it printed, on one line

    @property
    def first(self) -> str:
        """The first line of the verdict."""
        match = re.search(FIRST_LINE, self.text)
        return match[0] if match else ""

    @property
    def disturbed(self) -> bool:
        """True if times were lost to other processes, or the time for the retest was."""
        lost = r"times (of \d+ )?were disturbed|\d+ disturbed|outliers? not confirmed"
        return bool(re.search(lost, self.text))


@dataclass(frozen=True)
class Rung(Named):
    """A fault of this host, and what a run must report."""

    make: "Callable[[Host], AbstractContextManager[Tonight]]"
    codes: tuple[Exit, ...]  # any of these
    says: tuple[str, ...]  # all of these, as patterns of the text
    nights: Nights = TRANSPOSE
    quick: tuple[str, ...] = ()  # histories that `make testbed` makes it after


class Host:
    """This host, with kernels and histories of quiet nights below a folder."""

    def __init__(self, folder: Path) -> None:
        """TestbedError: there are no kernels."""
        self.folder = folder
        kernels = installed(paths.home() / "build", folder / "usual")
        if kernels is None:
            raise TestbedError(
                f"no kernels in {paths.home() / 'build'}: `make kernels` builds them"
            )
        self.usual = kernels
        self.rested: dict[Nights, str] = {}  # "" where quiet nights have run, or why not

    def home(self, nights: Nights, state: str) -> Path:
        """The folder of a history, where runs keep their results."""
        return self.folder / f"{state}-{re.findall('[a-z]+', nights.launch)[0]}"

    def copy(self, nights: Nights, state: str, name: str) -> Path:
        """A copy of a history, with the name of a fault."""
        own = self.folder / f"{state}-{name}"
        shutil.rmtree(own, ignore_errors=True)
        return shutil.copytree(self.home(nights, state), own, symlinks=True)

    def run(self, nights: Nights, home: Path, tonight: Tonight | None = None) -> Night:
        """One night. TestbedError: it does not end in time."""
        tonight = tonight or Tonight()
        # One path for all kernels: runs of other arguments are not of the same kind.
        link = self.folder / "kernels"
        link.unlink(missing_ok=True)
        link.symlink_to(tonight.kernels or self.usual)
        line = [sys.executable, "-m", "bisection", "run", "--tier", "quick", "--retest"]
        line += [nights.patience, "-n", nights.launch, "-S", f"Build.kernels={link}"]
        line += tonight.arguments
        own = {
            "BISECTION_HOME": str(home),
            "PYTHONPATH": str(paths.ROOT / "checks"),
        }
        try:
            done = subprocess.run(
                line, env={**os.environ, **own, **tonight.variables}, preexec_fn=tonight.begin,
                stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise TestbedError(f"the run did not end in {LIMIT:.0f} s") from None
        return Night(done.returncode, " ".join((done.stdout + done.stderr).split()))

    def rest(self, nights: Nights, say: Callable[[str], None]) -> None:
        """Runs the quiet nights, once. Withheld: this host is loud; TestbedError: a night fails."""
        if nights not in self.rested:
            self.rested[nights] = self._rest(nights, say)
        if self.rested[nights]:
            raise Withheld(self.rested[nights])

    def _rest(self, nights: Nights, say: Callable[[str], None]) -> str:
        quiet = 0
        for number in range(1, MOST + 1):
            night = self.run(nights, self.home(nights, "one"))
            quiet += night.exit_code == Exit.OK
            say(f"night {number}: {night.first}")
            if night.exit_code == Exit.FAILED:
                raise TestbedError(f"a quiet night failed: {night.text}")
            if quiet == QUIET:
                self._in_two_states(nights)
                return ""
        return f"{quiet} of {MOST} nights were quiet, {QUIET} are needed"

    def _in_two_states(self, nights: Nights) -> None:
        """Makes the second history of the first: every second night is slower."""
        spooled = sorted(self.home(nights, "one").glob(f"results/2*/{SPOOLED}"))
        contents = [next(read_samples(path)) for path in spooled]
        with sync.opened(self.home(nights, "two")) as store:
            for number, (session, cases) in enumerate(contents):
                factor = STATES["two"] if number % 2 else 1.0
                line = {**session, "session": str(uuid.uuid4())}
                store.add([(line, [_slower(case, factor) for case in cases])])


def _slower(case: dict[str, Any], factor: float) -> dict[str, Any]:
    """A test, or a control, whose times are longer; ratios, shares and rates stay."""
    metrics = {
        name: [value * factor if unit == "s" else value, unit, better]
        for name, (value, unit, better) in case["metrics"].items()
    }
    return {**case, "metrics": metrics}


# ---- faults ----


@contextlib.contextmanager
def tcp(host: Host) -> Iterator[Tonight]:
    """Messages go through TCP."""
    yield Tonight({"OMPI_MCA_btl": "tcp,self"})


@contextlib.contextmanager
def eager_limit(host: Host) -> Iterator[Tonight]:
    """Messages from 256 B on wait for their receiver."""
    yield Tonight({"OMPI_MCA_btl_vader_eager_limit": "256"})


def _quota(percent: int) -> Callable[[Host], AbstractContextManager[Tonight]]:
    @contextlib.contextmanager
    def quota(host: Host) -> Iterator[Tonight]:
        cores = len(os.sched_getaffinity(0))
        with _group(percent * cores / 100) as group:
            yield Tonight(begin=lambda: enter_group(group))

    quota.__name__ = f"quota_{percent}"
    quota.__doc__ = f"A control group grants {percent}% of each core."
    return quota


@contextlib.contextmanager
def _group(cores: float) -> Iterator[Path]:
    """A control group with so much processor time. Withheld: it cannot be made."""
    root = next(
        (Path(f) for f in ("/sys/fs/cgroup/cpu", "/sys/fs/cgroup") if Path(f).is_dir()), None
    )
    group = root / f"bisection-ladder-{os.getpid()}" if root else None
    try:
        if group is None:
            raise OSError("no control groups are mounted")
        group.mkdir()
        period = 100000  # us
        if (group / "cpu.max").exists():
            (group / "cpu.max").write_text(f"{cores * period:.0f} {period}")
        else:
            (group / "cpu.cfs_period_us").write_text(str(period))
            (group / "cpu.cfs_quota_us").write_text(f"{cores * period:.0f}")
    except OSError as error:
        with contextlib.suppress(OSError):
            if group:
                group.rmdir()
        raise Withheld(f"no control group with a quota: {error}") from None
    try:
        yield group
    finally:
        with contextlib.suppress(OSError):
            group.rmdir()


@contextlib.contextmanager
def busy_loop(host: Host) -> Iterator[Tonight]:
    """A program computes on one core."""
    with _beside("yes"):
        yield Tonight()


@contextlib.contextmanager
def memory_traffic(host: Host) -> Iterator[Tonight]:
    """A program writes memory without end."""
    with _beside("dd", "if=/dev/zero", "of=/dev/null", "bs=64M"):
        yield Tonight()


@contextlib.contextmanager
def _beside(*words: str) -> Iterator[None]:
    core = {min(os.sched_getaffinity(0))}
    if not shutil.which(words[0]):
        raise Withheld(f"there is no {words[0]}")
    process = subprocess.Popen(
        words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        preexec_fn=lambda: os.sched_setaffinity(0, core),
    )  # fmt: skip
    try:
        yield
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def affinity(host: Host) -> Iterator[Tonight]:
    """The run may use one core only."""
    core = {min(os.sched_getaffinity(0))}
    yield Tonight(begin=lambda: os.sched_setaffinity(0, core))


BIND = """
#define _GNU_SOURCE
#include <sched.h>
#include <string.h>
#include <errno.h>
__attribute__((constructor)) static void bind(void)
{
    cpu_set_t set;
    if (strncmp(program_invocation_short_name, "bisection-", 10)) return;
    CPU_ZERO(&set);
    CPU_SET(CORE, &set);
    sched_setaffinity(0, sizeof set, &set);
}
"""


@contextlib.contextmanager
def shared_core(host: Host) -> Iterator[Tonight]:
    """All ranks are bound to one core."""
    core = str(min(os.sched_getaffinity(0)))
    library = shim(BIND.replace("CORE", core), host.folder)
    yield Tonight(arguments=("-S", f"TransposeLaunch.env_vars=LD_PRELOAD:{library}"))


@contextlib.contextmanager
def unoptimised(host: Host) -> Iterator[Tonight]:
    """The kernels are built without optimisation."""
    build, into = host.folder / "unoptimised-build", host.folder / "unoptimised"
    options = ["-DCMAKE_BUILD_TYPE=Debug", "-DBX_TESTS=OFF"]
    lines = [
        ["cmake", "-S", str(paths.ROOT / "src"), "-B", str(build), *options],
        ["cmake", "--build", str(build), "--parallel", "2", "--target", "bisection-halo"],
    ]
    for line in lines if not build.exists() else ():
        done = subprocess.run(line, capture_output=True, text=True)
        if done.returncode:
            raise TestbedError(f"{' '.join(line)}: {done.stderr.strip()[-300:]}")
    yield Tonight(kernels=installed(build, into))


@contextlib.contextmanager
def half_clock(host: Host) -> Iterator[Tonight]:
    """The cores run at half of their frequency."""
    limits = sorted(Path("/sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_max_freq"))
    before = {path: path.read_text() for path in limits}
    if not before:
        raise Withheld("the frequency of the cores cannot be set (no cpufreq)")
    try:
        try:
            for path, text in before.items():
                path.write_text(str(int(text) // 2))
        except OSError as error:
            raise Withheld(f"the frequency of the cores cannot be set: {error}") from None
        yield Tonight()
    finally:  # also of those that were set before one could not be
        for path, text in before.items():
            with contextlib.suppress(OSError):
                path.write_text(text)


SLOWER, LOST = (Exit.SLOWER,), (Exit.NOT_MEASURED,)
NETWORK = ("alltoallv|pingpong",)
BUSY = (Exit.OK, Exit.NOT_MEASURED)  # few samples may be disturbed
LADDER = [
    Rung(tcp, SLOWER, ("MPI environment: .*btl=tcp,self", *NETWORK), PATTERNS, ("one",)),
    Rung(eager_limit, SLOWER, ("MPI environment: .*eager_limit=256", *NETWORK), PATTERNS),
    Rung(_quota(12), LOST, ("cores: .* 1 of [0-9]+: CPU quota",)),
    Rung(_quota(25), LOST, ("cores: .* 1 of [0-9]+: CPU quota",)),
    Rung(_quota(50), LOST, ("cores: .* 1 of [0-9]+: CPU quota",), quick=("two",)),
    Rung(busy_loop, BUSY, ("other processes use .* cores .*yes",)),
    Rung(memory_traffic, BUSY, ("other processes use .* cores .*dd",)),
    Rung(affinity, LOST, ("cores: .* 1 of [0-9]+: affinity",), quick=("one",)),
    Rung(shared_core, (Exit.FAILED,), ("INVALID placement", "shares a core")),
    Rung(unoptimised, SLOWER, ("flags: .*-O3.* -> ",), MESH),
    Rung(half_clock, SLOWER, ("clock: ",)),
]


@dataclass
class Outcome:
    """A fault after one history, and what of the wanted report is missing."""

    fault: Rung
    state: str
    night: Night | None = None
    withheld: str = ""  # why it was not made, or says nothing
    wrong: list[str] = field(default_factory=list)  # empty: all as wanted


def tried(fault: Rung, host: Host, state: str, say: Callable[[str], None] = print) -> Outcome:
    """Makes one fault after quiet nights, and judges what the run reports."""
    outcome = Outcome(fault, state)
    try:
        host.rest(fault.nights, say)
        home = host.copy(fault.nights, state, fault.name)
        with fault.make(host) as tonight:
            outcome.night = host.run(fault.nights, home, tonight)
        judge(outcome, outcome.night)
    except Withheld as error:
        outcome.withheld = str(error)
    except TestbedError as error:
        outcome.wrong.append(str(error))
    return outcome


def judge(outcome: Outcome, night: Night) -> None:
    """Says what of the wanted report is not there. A night that neighbours disturbed says nothing
    of a fault that would be slower; but it is no pass."""
    fault = outcome.fault
    if "Traceback (most recent call last)" in night.text:
        outcome.wrong.append("a traceback")
    if (
        night.exit_code == Exit.NOT_MEASURED
        and Exit.NOT_MEASURED not in fault.codes
        and night.disturbed
    ):
        outcome.withheld = "other processes disturbed the night"
        return
    if night.exit_code not in fault.codes:
        wanted = " or ".join(f"{code:d}" for code in fault.codes)
        outcome.wrong.append(f"exit {night.exit_code}, not {wanted}")
    missing = [pattern for pattern in fault.says if not re.search(pattern, night.text)]
    outcome.wrong += [f"not said: {pattern}" for pattern in missing]
