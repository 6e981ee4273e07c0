"""Reasons for which launches and tests do not pass, and remarks of a run on them."""

import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from bisection.core.format import duration, number, plural, short, some, utc
from bisection.core.reasons.base import Reason, with_reasons
from bisection.core.verdicts import KernelExit, Verdict

MOST = 8  # hosts that did not answer which are named
# What a scheduler's refusal has that an option of `site new` and a word of the site file mend.
OPTIONS = {
    "account": r"\baccounts?\b|\bprojects?\b|(?<!\S)-A\b",
    "qos": r"\bqos specification|--qos\b",
}

# Name, value, unit, lower and upper limit of a metric; None: open.
Bounds = tuple[str, float, str, float | None, float | None]


def _on(nodes: str) -> str:
    return f" on {nodes}" if nodes else ""


def _option_hint(refused: str) -> str:
    words = [name for name, pattern in OPTIONS.items() if re.search(pattern, refused, re.I)]
    if not words:
        return ""
    options = " ".join(f"--{word} {word[0].upper()}" for word in words)
    keys = " and ".join(f"{word}=..." for word in words)
    return f" ({keys} in the site file, or `site new {options}`)"


def _ranks(ranks: str) -> str:
    return f"{'rank' if ranks.isdecimal() else 'ranks'} {short(ranks, 80)}"


def exited(code: int | None) -> str:
    """How a kernel ended, by its exit code as a shell has it."""
    if code is None:
        return "did not end"
    if code in list(KernelExit):
        return f"exited with {code} ({KernelExit(code).name.lower().replace('_', ' ')})"
    try:
        return f"was killed by {signal.Signals(code - 128).name}"
    except ValueError:
        return f"exited with {code}"


def _place(host: str, rank: int | str | None) -> str:
    return _on(host) + ("" if rank in (None, "") else f", {_ranks(str(rank))}")


def span(low: float | None, high: float | None) -> str:
    """Limits, such as 0.61..1.79; None is open."""
    return "..".join("open" if end is None else number(end) for end in (low, high))


# ---- what stopped a launch; the machine failed it, or it was not given to run ----


@dataclass(frozen=True, kw_only=True)
class LaunchFault(Reason):
    """What stopped a launch; the hosts that it names, as far as they are known."""

    host: str = ""  # by the words of a launcher, of a library
    nodes: str = ""  # of the job, as its scheduler lists them
    next: str = ""  # what to do

    @property
    def accused(self) -> set[str]:
        """The hosts that it accuses."""
        return {self.host} - {""}


@dataclass(frozen=True, kw_only=True)
class JobFault(LaunchFault):
    """What ended a job, in its scheduler's words or in those that a launcher printed."""

    job: str = ""


@dataclass(frozen=True, kw_only=True)
class Timeout(JobFault):
    code = "TIMEOUT"
    limit: float = 0.0

    def words(self) -> str:
        job = f"job {self.job}" if self.job else "it"
        limit = f" of {duration(self.limit)}" if self.limit else ""
        return f"TIMEOUT: {job} ran to its time limit{limit}{_on(self.nodes)}"


@dataclass(frozen=True, kw_only=True)
class NodeFail(JobFault):
    code = "NODE_FAIL"
    down: tuple[tuple[str, str], ...] = ()  # (node, reason)
    cause: str = ""

    def words(self) -> str:
        if self.cause:
            return f"NODE_FAIL: {self.cause}{_on(self.host)}"
        nodes = f", it ran on {self.nodes}" if self.nodes else ""
        lost = with_reasons(self.down) if self.down else "a node"
        return f"NODE_FAIL: job {self.job} lost {lost}{nodes}"


@dataclass(frozen=True, kw_only=True)
class OutOfMemory(JobFault):
    code = "OUT_OF_MEMORY"
    cause: str = ""
    rank: int | str | None = None

    def words(self) -> str:
        used = f"job {self.job} used more memory than it may" if self.job else self.cause
        return f"OUT_OF_MEMORY: {used}{_place(self.host or self.nodes, self.rank)}"


@dataclass(frozen=True, kw_only=True)
class Cancelled(JobFault):
    code = "CANCELLED"
    state: str

    def words(self) -> str:
        state = f"{self.state.lower()}{_on(self.nodes)}"
        return f"CANCELLED: job {self.job} was {state}, not by this run"


@dataclass(frozen=True, kw_only=True)
class PrintedFault(LaunchFault):
    """A row of the table of causes (core/causes.csv): what it is, where, and behind that
    `line`, which says so."""

    cause: str
    rank: int | str | None = None
    hosts: tuple[str, ...] = ()  # where they are several

    @property
    def accused(self) -> set[str]:
        return {self.host, *self.hosts} - {""}

    def words(self) -> str:
        place = _place(some(self.hosts, MOST) if self.hosts else self.host, self.rank)
        place = "" if self.host and self.host in self.cause.split() else place
        return f"{self.code}: {self.cause}{place}"


class NodeFault(PrintedFault):
    code = "NODE_FAULT"


class NetworkError(PrintedFault):
    code = "NETWORK_ERROR"


class MpiError(PrintedFault):
    code = "MPI_ERROR"


class NotStarted(PrintedFault):
    code = "NOT_STARTED"


@dataclass(frozen=True, kw_only=True)
class NoWorld(LaunchFault):
    code = "NO_WORLD"
    launcher: str = ""
    limit: float = 0.0
    layout: str = ""

    def words(self) -> str:
        layout = f" (layout {self.layout})" if self.layout else ""
        limit = f" within {duration(self.limit)}" if self.limit else ""
        return f"{self.launcher or 'the launcher'} started no MPI world{limit}{layout}"


@dataclass(frozen=True, kw_only=True)
class Worlds(Reason):
    code = "WORLDS"
    worlds: int
    size: int  # ranks of each
    asked: int  # ranks
    launcher: str = ""
    layout: str = ""

    def words(self) -> str:
        layout = f" (layout {self.layout})" if self.layout else ""
        there = f"{plural(self.worlds, 'MPI world')} of {plural(self.size, 'rank')}"
        who = self.launcher or "the launcher"
        return f"{who} started {there} instead of one of {self.asked}{layout}"


@dataclass(frozen=True, kw_only=True)
class MpiAbort(LaunchFault):
    code = "MPI_ABORT"
    rank: int | str | None
    exit_code: int | None

    def words(self) -> str:
        who = f"rank {self.rank}{_on(self.host)}"
        return f"MPI_ABORT: {who} aborted with code {self.exit_code}"


@dataclass(frozen=True, kw_only=True)
class Hang(LaunchFault):
    code = "HANG"
    limit: float = 0.0
    silent: tuple[tuple[str, str], ...] = ()  # (ranks, host)
    waiting: tuple[tuple[str, tuple[str, ...], str], ...] = ()  # (ranks, hosts, where)
    stack: tuple[str, tuple[str, ...]] | None = None  # (ranks, routines)

    @property
    def accused(self) -> set[str]:
        return {host for _, host in self.silent}

    def words(self) -> str:
        parts = ["nothing finished" + (f" for {duration(self.limit)}" if self.limit else "")]
        parts += [f"no answer from {_ranks(ranks)} on {host}" for ranks, host in self.silent[:MOST]]
        if len(self.silent) > MOST:
            parts.append(f"no answer from {len(self.silent) - MOST} more hosts")
        for ranks, hosts, where in self.waiting:
            parts.append(f"{_ranks(ranks)} on {some(hosts, 3)} {where}")
        if self.stack:
            ranks, routines = self.stack
            first = _ranks(re.sub("[^0-9].*", "", ranks))
            parts.append(f"stack of {first}: {' < '.join(routines)}")
        return f"HANG: {'; '.join(parts)}"


@dataclass(frozen=True, kw_only=True)
class Blocked(LaunchFault):
    code = "BLOCKED"
    job: str = ""
    waited: float = 0.0
    reason: str = ""
    refused: str = ""
    down: tuple[tuple[str, str], ...] = ()  # (node, reason)
    deadline: float = 0.0

    def words(self) -> str:
        if self.deadline:
            return f"BLOCKED: not started before the deadline of {duration(self.deadline)}"
        if self.refused:
            nodes = f"; down or drained: {with_reasons(self.down)}" if self.down else ""
            hint = _option_hint(self.refused)
            return f"BLOCKED: the scheduler refused the job: {self.refused}{nodes}{hint}"
        why = f"the scheduler's reason: {self.reason.replace('_', ' ')}"
        why = "no reason is known" if self.reason in ("", "None") else why
        waited = f" in {duration(self.waited)}" if self.waited else ""
        return f"BLOCKED: job {self.job} was not started{waited}; {why}"


@dataclass(frozen=True, kw_only=True)
class Infrastructure(LaunchFault):
    code = "INFRASTRUCTURE"
    why: str
    cancel: str = ""  # the scheduler's command for jobs
    jobs: tuple[str, ...] = ()  # left in its queue

    def words(self) -> str:
        left = f"; {jobs_left(self.jobs, self.cancel)}" if self.jobs else ""
        return f"INFRASTRUCTURE: {self.why}{left}"


def not_shared(host: str, path: str) -> str:
    """That a host does not see a file, for Infrastructure."""
    return f"{host or 'a node'} does not see {path}, which all nodes must share"


def jobs_left(jobs: Sequence[str], cancel: str) -> str:
    """Jobs that are left in a queue, and the command that cancels them; "": not known."""
    mend = f"; cancel with {cancel} {' '.join(jobs)}" if cancel else ""
    return f"left in the queue: {', '.join(jobs)}{mend}"


class NotEnded(LaunchFault):
    code = "NOT_ENDED"

    def words(self) -> str:
        return "the job did not run to its end"


@dataclass(frozen=True, kw_only=True)
class NoSpace(LaunchFault):
    code = "NO_SPACE"
    place: str = ""
    free: float = 0.0
    needed: float = 0.0
    error: str = ""

    def words(self) -> str:
        lack = f"{self.free / 1e6:.0f} MB free, a build takes {self.needed / 1e6:.0f} MB"
        return self.error or f"no space left on {self.place} ({lack})"


# ---- a launch ----


@dataclass(frozen=True)
class LeftOut(Reason):
    code = "LEFT_OUT"
    kernels: tuple[str, ...]

    def words(self) -> str:
        return f"left out of the build: {some(self.kernels)}"


@dataclass(frozen=True)
class Remarks(Reason):
    code = "REMARKS"
    remarks: tuple[Reason, ...]

    def words(self) -> str:
        return "; ".join(map(str, self.remarks))


@dataclass(frozen=True, kw_only=True)
class KernelsKept(Reason):
    code = "KERNELS_KEPT"
    built: float  # Unix time

    def words(self) -> str:
        return f"as built {utc(self.built)}"


@dataclass(frozen=True, kw_only=True)
class KernelsStale(Reason):
    code = "KERNELS_STALE"
    kernel: str
    checkout: str
    built: str = ""
    accepted: bool = False

    def words(self) -> str:
        option = "accepted by --stale" if self.accepted else "--stale accepts it"
        hashes = f"({self.built or 'of no known hash'}) than this checkout's ({self.checkout})"
        return f"{self.kernel} was built from other sources {hashes}; {option}"


@dataclass(frozen=True, kw_only=True)
class KernelDied(LaunchFault):
    code = "KERNEL_EXIT"
    kernel: str
    exit_code: int
    rank: int | None = None  # and `host`: of the first rank that died
    complete: bool = False  # its result was written before

    def words(self) -> str:
        rank = "" if self.rank is None else f", rank {self.rank}"
        other = self.exit_code == 128 + signal.SIGILL
        built = "; it was built for another processor" if other else ""
        late = "; its result was complete: MPI had only to end" if self.complete else ""
        # without an answer it is not the kernel's own word for a wrong one
        wrong = self.exit_code == KernelExit.WRONG_ANSWER
        ended = "exited with 1" if wrong else exited(self.exit_code)
        return f"{self.kernel} {ended}{rank}{_on(self.host)}{built}{late}"


@dataclass(frozen=True, kw_only=True)
class Misplaced(LaunchFault):
    code = "MISPLACED"
    seats: tuple[Reason, ...]
    fault: Reason | None = None  # of a launch that did not end well
    layout: str = ""

    @property
    def accused(self) -> set[str]:
        return {seat.host for seat in self.seats if isinstance(seat, SeatFault)}

    def words(self) -> str:
        layout = f" (layout {self.layout})" if self.layout else ""
        fault = f"; {self.fault}" if self.fault else ""
        return f"INVALID placement{layout}: {'; '.join(map(str, self.seats))}{fault}"


@dataclass(frozen=True, kw_only=True)
class SeatFault(Reason):
    """Ranks of a host are not where they should be."""

    code = "SEAT_FAULT"
    host: str
    text: str = ""

    def words(self) -> str:
        return self.text


class CoreShared(SeatFault):
    code = "CORE_SHARED"


class CoreUnbound(SeatFault):
    code = "CORE_UNBOUND"


# ---- a test of a run ----


@dataclass(frozen=True, kw_only=True)
class WrongAnswer(Reason):
    code = "WRONG_ANSWER"
    method: str
    checks: tuple[str, ...]
    point: str = ""

    def words(self) -> str:
        point = f" at {self.point}" if self.point else ""
        return f"wrong answer of {self.method}{point}: {'; '.join(self.checks)}"


@dataclass(frozen=True)
class TestFailed(Reason):
    """A test does not run, as another one did not pass."""

    __test__: ClassVar = False  # of pytest's
    code = "FOLLOWS"
    test: str

    def words(self) -> str:
        return f"{self.test} did not pass"


@dataclass(frozen=True, kw_only=True)
class Disturbed(Reason):
    code = "DISTURBED"
    fraction: float
    waited: float = 0.0

    def words(self) -> str:
        text = f"other processes used the cores in {self.fraction:.0%} of the samples"
        more = f", for {self.waited:.0%} of their time" if self.waited > self.fraction else ""
        return text + more


@dataclass(frozen=True, kw_only=True)
class Stopped(Reason):
    code = "STOPPED"
    ran: float
    waited: float
    factor: float

    def words(self) -> str:
        took = f"samples took {self.factor:.0f}x the usual total (CPU-time limit?)"
        ran = f"they ran {self.ran:.0%} of the time, waited for a core {self.waited:.0%}"
        return f"processes were suspended: {ran}, {took}"


@dataclass(frozen=True, kw_only=True)
class Starved(Reason):
    code = "STARVED"
    ran: float
    waited: float

    def words(self) -> str:
        ran = f"the processes ran {self.ran:.0%} of the time"
        return (
            f"{ran} and waited {self.waited:.0%} for a core: other processes or a CPU quota took it"
        )


@dataclass(frozen=True, kw_only=True)
class OutOfBounds(Reason):
    code = "OUT_OF_BOUNDS"
    metrics: tuple[Bounds, ...]
    retest: str = ""  # its verdict
    rerun: tuple[tuple[str, float], ...] = ()  # (name, value) in the retest
    nodes: tuple[str, ...] = ()  # to which it is bound
    skew: float = 0.0  # of the ranks' starts, of a step; 0: small
    last: str = ""  # the rank for which the others wait

    def words(self) -> str:
        rerun, parts = dict(self.rerun), []
        for name, value, unit, low, high in self.metrics:
            text = f"{name} is {number(value)} {'' if unit == 'ratio' else unit}".rstrip()
            second = f", in the retest {number(rerun[name])}" if name in rerun else ""
            parts.append(f"{text}, allowed is {span(low, high)}{second}")
        parts += ["it did not repeat"] if self.retest == Verdict.PASS else []
        parts += [f"on {some(self.nodes, 3)}, and not on others"] if self.nodes else []
        parts += [f"starts of ranks were {self.skew:.0%} of a step apart"] if self.skew else []
        parts += [self.last] if self.last else []
        return "; ".join(parts)


@dataclass(frozen=True, kw_only=True)
class Unconfirmed(Reason):
    code = "UNCONFIRMED"
    metrics: tuple[Bounds, ...]
    cause: Reason

    def words(self) -> str:
        return f"{OutOfBounds(metrics=self.metrics)}: not confirmed, as {self.cause}"


# ---- a run as a whole ----


@dataclass(frozen=True, kw_only=True)
class ReframeText(Reason):
    code = "REFRAME_TEXT"
    text: str
    ended: bool = False  # it ended the run

    def words(self) -> str:
        return self.text
