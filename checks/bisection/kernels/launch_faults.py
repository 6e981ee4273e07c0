"""Finds the cause of a launch without an answer: from the words of schedulers, launchers, MPI
libraries and the kernels' watchdog. core/causes.csv has those of all but the watchdog.

An exit code alone does not distinguish an abort from a crash, nor the rank that died from those
that the launcher then ended. A job that Slurm ended leaves no other trace.
"""

import json
import os
import re
import signal
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from bisection import schedulers
from bisection.core import paths
from bisection.core.causes import CAUSES, NOT_MEASURED, Cause
from bisection.core.commands import telling
from bisection.core.format import short, some
from bisection.core.grouping import grouped
from bisection.core.reasons import KINDS
from bisection.core.reasons.base import Reason
from bisection.core.reasons.launches import (
    Hang,
    Infrastructure,
    KernelDied,
    Misplaced,
    MpiAbort,
    NoSpace,
    NotEnded,
    NotStarted,
    OutOfMemory,
    Timeout,
    Worlds,
    not_shared,
)
from bisection.core.reasons.machines import LibraryWarns
from bisection.core.thresholds import LIMITS
from bisection.core.topology import TopologyError, expanded
from bisection.core.verdicts import KernelExit
from bisection.kernels import layouts, results

REFUSALS = (KernelExit.USAGE, KernelExit.RESOURCES)
NO_SPACE = re.compile(r"no space left on device|disk quota exceeded", re.I)


@dataclass(frozen=True)
class Ended:
    """Output and exit of a launch."""

    kernel: str = ""
    folder: str = ""  # of its result.json, if it has written one
    exit_code: int | None = None  # of the launcher; None if the job did not come so far
    errors: str = ""  # the job's error output
    output: str = ""  # its standard output
    hosts: Sequence[str] = ()  # of the job, as far as they are known
    nodes: int = 0  # how many it has
    cpus: int | None = None  # that a launch on this host may use; None on others

    @property
    def result(self) -> Path:
        return Path(self.folder, "result.json")

    @property
    def has_begun(self) -> bool:
        return self.result.exists()

    @property
    def is_answered(self) -> bool:
        try:
            return bool(results.load(self.result, self.kernel))
        except results.ResultError:
            return False


def places_of(folder: str) -> list[layouts.Place]:
    """The nodes by the result in a launch's folder, also of one that did not end; empty if they
    are not known."""
    try:
        return layouts.places(json.loads(Path(folder, "result.json").read_text())["layout"])
    except (OSError, ValueError, LookupError, TypeError):
        return []


def of_launch(job: Any, ended: Ended) -> tuple[int | None, Reason | None]:
    """The kernel's exit code and the cause, of a job that ReFrame takes for finished.

    Returns:
        The exit code of the first rank that ended badly, as that of the launcher may be of a rank
        which it then ended; None if the job did not come so far. And the cause, None if the kernel
        ended with an answer.
    """
    printed = Printed(ended, job.launcher.registered_name)
    death = printed.first_death
    if death and ended.exit_code:
        ended = replace(ended, exit_code=death.exit_code)
    exit_code = ended.exit_code
    fault = of_hang(ended) or of_job(job, ended)
    if fault and not isinstance(fault, Timeout | OutOfMemory):
        return exit_code, fault
    # A launcher, too, ends with 1: it is a wrong answer only where the kernel says so.
    if exit_code in (KernelExit.VERIFIED, KernelExit.WRONG_ANSWER) and ended.is_answered:
        return exit_code, fault
    own = last_line(ended.errors, ended.kernel)
    refused = exit_code in REFUSALS and own.startswith(f"bisection-{ended.kernel}:")
    cause = of_worlds(ended.errors) or printed.cause(late=bool(fault), refused=refused)
    if isinstance(fault, OutOfMemory):  # the scheduler knows no node
        if isinstance(cause, OutOfMemory):
            return exit_code, replace(cause, job=fault.job, nodes=fault.nodes)
        return exit_code, fault
    crashed = death is not None and death.exit_code in CRASHES
    if cause or (fault and not crashed):
        return exit_code, cause or fault
    if exit_code == KernelExit.VERIFIED:
        return exit_code, None
    named = death if exit_code not in REFUSALS else None  # these are of all ranks
    first = named or Death(exit_code or 0, None, "")
    began = ended.has_begun or exit_code in REFUSALS
    if exit_code is not None and not began and exit_code - 128 not in SIGNALS.values():
        words = f"the launch ended with exit code {exit_code} before the kernel began"
        line = short(telling(f"{ended.errors}\n{ended.output}"), LINE)
        return exit_code, NotStarted(
            cause=words, host=first.host, rank=first.rank, line=line, next=printed.hint
        )
    line = last_line(ended.errors, ended.kernel, any_line=not death)
    if exit_code is None and not crashed:
        return None, NotEnded(line=line)
    return exit_code, KernelDied(
        kernel=ended.kernel,
        exit_code=first.exit_code,
        host=first.host,
        rank=first.rank,
        complete=crashed and ended.is_answered,  # only MPI had not ended
        line=line,
        next=printed.hint,
    )


def notes_of(ended: Ended, hosts: Sequence[str]) -> Iterator[LibraryWarns]:
    """Yields what libraries warned of in a launch that succeeded on these hosts."""
    printed = Printed(ended, "")
    for row, match in printed.rows:
        if row.notes:
            facts = printed.facts(row, match)
            # Of several hosts the words name none: no host is accused.
            host = _as_in(hosts, facts["host"]) or (hosts[0] if len(hosts) == 1 else "")
            known = {"fact": facts["cause"], "next": facts["next"], "line": facts["line"]}
            yield LibraryWarns(host=host, **known)


def of_full_disk(folder: Path | str, output: Iterable[str]) -> NoSpace | None:
    """The reason if a build in this folder, which printed these lines, failed for want of space,
    else None. CMake then reports libraries that it does not find, and leaves room again."""
    free, needed = paths.free_space(folder), LIMITS.build_space * 1e6
    if free is not None and free < needed:
        above = Path(folder).resolve()
        place = next(str(path) for path in (above, *above.parents) if path.is_mount())
        return NoSpace(place=place, free=free, needed=needed)
    error = paths.unwritable(folder) if free is not None else ""
    error = error or next(filter(NO_SPACE.search, output), "").strip()
    return NoSpace(error=error) if error else None


def of_job(job: Any, ended: Ended) -> Reason | None:
    """The reason if the scheduler stopped a job that ReFrame takes for finished, else None."""
    scheduler = schedulers.of(job.scheduler.registered_name)

    def cause() -> str:
        rows = (row for row, _ in Printed(ended, scheduler.name).rows)
        rows = (row for row in rows if row.about in ("memory", "a job"))
        return next(((row.about == "a job" and row.cause) or row.kind for row in rows), "")

    return scheduler.cause(job, ended.exit_code is not None, cause)


# ---- the kernels' watchdog ----

# src/common/watchdog.c: a line per host, below it a line for its ranks that are in one place, and
# below that a line for each routine in which the first of them is. A launcher mixes lines of hosts.
HANG = r"bisection-\S+: nothing finished for (\S+) s on host (\S+); its ranks:"
PLACE = r"  ranks? ([\d,-]+) on (\S+): (.+)"
ROUTINE = r"    (\w+) \(bisection-\S+\)"  # of the kernel, not of the libraries that it waits in
SILENT = "no answer"
ROUTINES = 8  # of a stack


def of_hang(ended: Ended) -> Hang | None:
    """The reason if the kernel's watchdog ended a launch that did not advance, else None.

    Not every launcher hands on the kernel's own code where it had to kill a rank. The result has
    the ranks of hosts that gave no report.
    """
    limit, ranks = None, ""
    places: dict[str, list[tuple[str, str]]] = {}  # where -> [(ranks, host)]
    stacks: dict[str, list[str]] = {}  # ranks -> routines
    for line in ended.errors.splitlines():
        if match := re.fullmatch(HANG, line):
            limit = limit or float(match[1])
        elif match := re.fullmatch(PLACE, line):
            ranks, host, where = match.groups()
            places.setdefault(where, []).append((ranks, host))
        elif (match := re.fullmatch(ROUTINE, line)) and ranks:
            stacks.setdefault(ranks, []).append(match[1])
    wrong = ended.exit_code == KernelExit.WRONG_ANSWER and ended.is_answered
    ended_well = wrong or ended.exit_code == KernelExit.VERIFIED
    if ended_well or (limit is None and ended.exit_code != KernelExit.HANG):
        return None
    if limit is None:
        return Hang()
    reported = {host for listed in places.values() for _, host in listed}
    others = (place for place in places_of(ended.folder) if place.host not in reported)
    unheard = grouped(others, lambda place: place.host)
    silent = [pair for where in places if where.startswith(SILENT) for pair in places[where]]
    silent += [(",".join(part.text for part in parts), host) for host, parts in unheard.items()]
    waiting = [
        (",".join(ranks for ranks, _ in listed), tuple(host for _, host in listed), where)
        for where, listed in places.items()
        if not where.startswith(SILENT)
    ]
    stack = next(((ranks, tuple(names[:ROUTINES])) for ranks, names in stacks.items()), None)
    return Hang(limit=limit, silent=tuple(silent), waiting=tuple(waiting), stack=stack)


# ---- the program's own last line ----

# Remarks of launchers and MPI libraries.
REMARKS = re.compile(
    r"^-{60,}\n(?s:.*?)^-{60,}$|^.*ORTE_ERROR_LOG.*$"  # Open MPI
    r"|^\[\S+:\d+\] (?:\*\*\* |Signal|Failing|\[ ?\d+\]|\d+ more|Set MCA).*$"  # it too
    r"|^\[\S+:\d+ *:\d+:\d+\] Caught signal.*$|^ *\d+ +\S+\(.*\) \[0x.*$|^==.*$"  # UCX's
    r"|^(?:srun|salloc|slurmstepd\S*): .*$|^cpu-bind=.*$"
    r"|^\[(?:proxy:\S+|mpiexec@\S+)\] .*$",  # MPICH
    re.M,
)


def last_line(errors: str, kernel: str = "", *, any_line: bool = False) -> str:
    """The last line that a program printed on standard error, a kernel's own before those of
    libraries; "" if there is none. `any_line`: a launcher's line will do then."""
    lines = [line.strip() for line in REMARKS.sub("", errors).splitlines() if line.strip(" -*")]
    named = [line for line in lines if kernel and line.startswith(f"bisection-{kernel}:")]
    every = [line.strip() for line in errors.splitlines() if any_line and line.strip(" -*=")]
    return next((group[-1] for group in (named, lines, every) if group), "")


# ---- the table of causes ----

# What launchers put before each line, if told to: mpirun --tag-output, srun --label.
TAG = re.compile(r"^(?:\[\d+,\d+\]<std\w+>: ?| *\d+: )", re.M)
MOST = 1 << 18  # letters that are searched at each end of an output
LINE = 200  # letters of a line that are quoted
KERNELS = "bisection"  # the program of rows that kernels print
SIGNALS = {signal.strsignal(number): int(number) for number in signal.Signals}
CORE_DUMPED = 0x80  # in a wait status
# A library ends its rank by SIGABRT after it has said why; mpirun and people by the others.
ABORTED, KILLED, TERMINATED = 128 + signal.SIGABRT, 128 + signal.SIGKILL, 128 + signal.SIGTERM
# Exit codes of a program that crashed, beside ABORTED; others are of one that somebody ended.
OUTRIGHT = {128 + n for n in (signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV)}
CRASHES = OUTRIGHT | {ABORTED}


@dataclass(frozen=True)
class Death:
    """The end of a rank, other than with exit code 0."""

    exit_code: int  # as a shell has it: 128 and the number of a signal
    rank: int | None
    host: str


class Printed:
    """What a launch printed, by the rows of the table; `launcher` is ReFrame's name of it."""

    def __init__(self, ended: Ended, launcher: str) -> None:
        self.ended = ended
        texts = (ended.errors, ended.output)
        ends = (t if len(t) <= 2 * MOST else f"{t[:MOST]}\n{t[-MOST:]}" for t in texts)
        self.text = TAG.sub("", "\n".join(ends))
        # An mpirun may start its daemons by srun, whose lines are then about those.
        rows = [row for row in CAUSES if launcher.startswith(row.launcher)]
        matches = ((row, row.words.search(self.text)) for row in rows)
        self.rows = [(row, match) for row, match in matches if match]
        self.deaths = [*self._deaths()]

    @property
    def first_death(self) -> Death | None:
        """The first rank that died, of which a launcher then ended the others; None if none is
        named. A rank that dumps its core is heard of late."""
        deaths = [death for death in self.deaths if death.exit_code != TERMINATED]
        return min(deaths, key=lambda d: d.exit_code not in OUTRIGHT, default=None)

    @property
    def hint(self) -> str:
        """What to do if Open MPI 4 lost what it had to say, as its error log shows: it does so in
        one of five launches (4.1.4). "" if it did not."""
        lost = re.search(r"ORTE_ERROR_LOG: .* in file \S*show_help\.c", self.text)
        return "rerun it: Open MPI lost its own message" if lost else ""

    def cause(self, late: bool = False, refused: bool = False) -> Reason | None:
        """The reason by the first row that counts, else None. `late`: it ran to its time limit, so
        that what may be a warning alone is none. `refused`: the kernel did, so that its words alone
        count."""
        died = self.first_death and self.first_death.exit_code
        alone = {death.exit_code for death in self.deaths} <= {KILLED, TERMINATED}
        outright = died in OUTRIGHT or (died == KILLED and alone)
        for row, match in self.rows:
            if row.kind == KernelDied.code and outright:
                return None
            counts = row.ends and row.about != "a job" and row.kind != KernelDied.code
            counts = counts and not (late and row.notes)
            counts = counts and (row.program == KERNELS or not refused)
            if counts and self._counts(row) and (reason := self._reason(row, match)):
                return reason
        return None

    def facts(self, row: Cause, match: re.Match[str]) -> dict[str, Any]:
        """What a row says, by the words that match it: `path` and fields of its reason."""
        groups = {name: text for name, text in match.groupdict().items() if text}
        ranks = groups.get("rank", "")
        rank = int(ranks) if ranks.isdecimal() else ranks or None
        host = _as_in(self.ended.hosts, groups.get("host") or self._host_of(rank))
        hosts = self._hosts(row) if row.nodes else []
        if hosts:
            host = hosts[0] if len(hosts) == 1 else ""
        place = host or (some(hosts, 3) if hosts else "the node")
        named = {"folder": "/dev/shm", **groups, "host": place, "allowed": ""}
        if "function" in named:  # as programs call it
            named["function"] = re.sub("^(?:internal_|PMPI_)", "MPI_", named["function"])
        if self.ended.cpus:
            named["allowed"] = f", {self.ended.cpus} CPUs are granted"
        known = defaultdict(lambda: "?", named)
        line = groups.get("says") or self._line_of(match)
        return {
            "cause": row.cause.format_map(known),
            "host": host,
            "hosts": tuple(hosts) if len(hosts) > 1 else (),
            "rank": rank,
            "exit_code": int(groups["code"]) if "code" in groups else None,
            "next": row.next.format_map(known),
            "line": short(" ".join(line.split()), LINE),
            "path": groups.get("path", ""),
        }

    def _reason(self, row: Cause, match: re.Match[str]) -> Reason | None:
        facts, kind = self.facts(row, match), KINDS[row.kind]
        host, path = facts["host"], facts["path"]
        if path and os.access(os.path.join(self.ended.folder, path), os.X_OK):
            return Infrastructure(why=not_shared(host, path))
        if kind is MpiAbort:
            if facts["exit_code"] in REFUSALS:
                return None  # by which a kernel refuses a launch
            facts["line"] = last_line(self.ended.errors.partition(match[0])[0])
        return kind(**{part.name: facts[part.name] for part in fields(kind) if part.name in facts})

    def _counts(self, row: Cause) -> bool:
        """True if a row, whose words are there, is about this launch."""
        if row.verdict.startswith(NOT_MEASURED) and self.ended.has_begun:
            return False  # it did not keep the launch from starting
        codes = {self.ended.exit_code, *(death.exit_code for death in self.deaths)}
        if row.exit and None not in codes and int(row.exit) not in codes:
            return False
        return not row.nodes or 0 < len(self._hosts(row)) < self.ended.nodes

    def _hosts(self, row: Cause) -> list[str]:
        """The hosts that a row's words name, and those of ranks that died with its exit code."""
        names = [match.groupdict().get("host") for match in row.words.finditer(self.text)]
        if row.exit:
            names += [d.host for d in self.deaths if d.exit_code == int(row.exit)]
        hosts = (host for name in filter(None, names) for host in _listed(name))
        return list(dict.fromkeys(map(_short_name, hosts)))

    def _host_of(self, rank: int | str | None) -> str:
        """The host of a rank, where it can be known; else ""."""
        hosts = []
        if isinstance(rank, int):
            hosts.append(layouts.host_of(places_of(self.ended.folder), rank))
            hosts += [death.host for death in self.deaths if death.rank == rank]
        hosts += self.ended.hosts if len(self.ended.hosts) == 1 else []
        return next(filter(None, hosts), "")

    def _line_of(self, match: re.Match[str]) -> str:
        begin = self.text.rfind("\n", 0, match.start()) + 1
        line = self.text[begin:].partition("\n")[0]
        return re.sub(r"^\[\S+:\d+\] ", "", line)  # Open MPI's host and process

    def _deaths(self) -> Iterator[Death]:
        """The deaths that the launcher names, in its order."""
        for row, _ in self.rows:
            if row.kind == KernelDied.code:
                for match in row.words.finditer(self.text):
                    groups = defaultdict(str, {n: t for n, t in match.groupdict().items() if t})
                    code = self._exit_code(groups)
                    rank = int(groups["rank"]) if groups["rank"].isdecimal() else None
                    if "status" in groups:  # hydra does not say which rank
                        here = (p for p in places_of(self.ended.folder) if p.host == groups["host"])
                        ranks = [rank for place in here for rank in place.ranks]
                        rank = ranks[0] if len(ranks) == 1 else None
                    if code:
                        yield Death(code, rank, groups["host"])

    def _exit_code(self, groups: dict[str, str]) -> int:
        """As a shell has it; 0 for an end that is no rank's."""
        if "signal" in groups:
            return 128 + int(groups["signal"])
        if "name" in groups:
            number = SIGNALS.get(groups["name"])
            return 128 + number if number else 0
        if "status" not in groups:
            return int(groups["code"] or 0)
        # MPICH prints a wait status for an exit code where a signal ended the rank.
        status = int(groups["status"])
        number = status & ~CORE_DUMPED
        named = re.search(rf"\(signal {number}\)|Caught signal {number}\b", self.text)
        killed = named or status > max(KernelExit)
        return 128 + number if killed and number in SIGNALS.values() else status


def _listed(names: str) -> list[str]:
    """The hosts of a list of Slurm's; what is no such list is a name."""
    try:
        return expanded(names)
    except TopologyError:
        return [names]


def _short_name(host: str) -> str:
    return host.partition(".")[0]


def _as_in(hosts: Sequence[str], host: str) -> str:
    """A host by the name that it has among others, with its domain or without."""
    return next((name for name in hosts if host and _short_name(name) == _short_name(host)), host)


# ---- worlds ----

# The kernels, where `--expect-ranks` is not the size of MPI_COMM_WORLD: a line for each world.
WORLD = r"^bisection-\S+: --expect-ranks (\d+): this MPI world has (\d+)\b"


def of_worlds(errors: str) -> Misplaced | None:
    """The reason if the launcher and the MPI library did not make one world of all ranks, else
    None."""
    worlds = re.findall(WORLD, errors, re.M)
    if not worlds:
        return None
    asked, ranks = map(int, worlds[0])
    if len(worlds) > 1:
        return Misplaced(seats=(Worlds(worlds=len(worlds), size=ranks, asked=asked),))
    return Misplaced(seats=(layouts.ranks_ran(ranks, asked),))
