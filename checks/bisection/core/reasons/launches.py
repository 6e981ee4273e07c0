"""Launches, their results and references, tests and a run as a whole."""

import math
import re
import signal
from collections.abc import Callable
from typing import Any

from bisection.core.format import duration, number, short, some, utc
from bisection.core.reasons.kinds import Topic, clause, with_reasons
from bisection.core.verdicts import KernelExit, Verdict

MOST = 8  # hosts that did not answer which are named
# How to cancel a job, by ReFrame's name for the scheduler.
CANCEL = {
    **dict.fromkeys(("pbs", "sge", "torque"), "qdel"),
    **dict.fromkeys(("slurm", "squeue"), "scancel"),
    "flux": "flux cancel",
    "lsf": "bkill",
    "oar": "oardel",
}
# What a scheduler's refusal has that an option of `site new` and a word of the site file mend.
OPTIONS = {
    "account": r"\baccounts?\b|\bprojects?\b|(?<!\S)-A\b",
    "qos": r"\bqos specification|--qos\b",
}


def _on(nodes: str | None) -> str:
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


def _exit(code: int) -> str:
    if code in list(KernelExit):
        return f"exited with {code} ({KernelExit(code).name.lower().replace('_', ' ')})"
    try:
        return f"was killed by {signal.Signals(code - 128).name}"
    except ValueError:
        return f"exited with {code}"


def _place(host: str, rank: int | str | None) -> str:
    return _on(host) + ("" if rank in (None, "") else f", {_ranks(str(rank))}")


def _labelled(label: str) -> Callable[..., str]:
    """The words of a row of the table of causes (core/causes.csv): what it is, where, and behind
    that `last`, the line that says so. `hosts`: where they are several; `next`: what to do."""

    def words(
        cause: str, host: str = "", rank: int | str | None = None, hosts: list = (), next: str = ""
    ) -> str:
        place = _place(some(hosts, MOST) if hosts else host, rank)
        return f"{label}: {cause}{'' if host and host in cause.split() else place}"

    return words


def _seat(rank: int, host: str, thread: int | None) -> str:
    return f"rank {rank} on {host}" + ("" if thread is None else f" thread {thread}")


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) and not value.is_integer() else str(value)


def span(low: float | None, high: float | None) -> str:
    """Words limits.

    Args:
        low: the lower limit, None if it is open.
        high: the upper limit, None if it is open.

    Returns:
        Both, such as 0.61..1.79.
    """
    return "..".join("open" if end is None else number(end) for end in (low, high))


class Launches(Topic):
    """Reasons for which launches and tests do not pass, and remarks of a run on them."""

    # ---- what stopped a launch; the machine failed it, or it was not given to run ----

    def TIMEOUT(job: str = "", limit: float = 0, nodes: str = "") -> str:
        job, limit = f"job {job}" if job else "it", f" of {duration(limit)}" if limit else ""
        return f"TIMEOUT: {job} ran to its time limit{limit}{_on(nodes)}"

    # a job's state, or what a launcher printed
    def NODE_FAIL(
        job: str = "", nodes: str = "", down: list = (), cause: str = "", host: str = "",
        next: str = "",
    ) -> str:  # fmt: skip
        if cause:
            return f"NODE_FAIL: {cause}{_on(host)}"
        nodes = f", it ran on {nodes}" if nodes else ""
        return f"NODE_FAIL: job {job} lost {with_reasons(down) if down else 'a node'}{nodes}"

    def OUT_OF_MEMORY(
        job: str = "", nodes: str = "", cause: str = "", host: str = "",
        rank: int | str | None = None, next: str = "",
    ) -> str:  # fmt: skip
        used = f"job {job} used more memory than it may" if job else cause
        return f"OUT_OF_MEMORY: {used}{_place(host or nodes, rank)}"

    NODE_FAULT = _labelled("NODE_FAULT")
    NETWORK_ERROR = _labelled("NETWORK_ERROR")
    MPI_ERROR = _labelled("MPI_ERROR")
    NOT_STARTED = _labelled("NOT_STARTED")

    def MPI_ABORT(rank: int, exit_code: int, host: str = "") -> str:
        return f"MPI_ABORT: rank {rank}{_on(host)} aborted with code {exit_code}"

    # silent: [[ranks, host]], waiting: [[ranks, hosts, where]], stack: [ranks, routines]
    def HANG(limit: float = 0, silent: list = (), waiting: list = (), stack: list = ()) -> str:
        parts = ["nothing finished" + (f" for {duration(limit)}" if limit else "")]
        parts += [f"no answer from {_ranks(ranks)} on {host}" for ranks, host in silent[:MOST]]
        parts += [f"no answer from {len(silent) - MOST} more hosts"] if len(silent) > MOST else []
        parts += [f"{_ranks(ranks)} on {some(hosts, 3)} {where}" for ranks, hosts, where in waiting]
        if stack:
            ranks, routines = stack
            first = _ranks(re.match("[0-9]+", ranks)[0])
            parts.append(f"stack of {first}: {' < '.join(routines)}")
        return f"HANG: {'; '.join(parts)}"

    def BLOCKED(
        job: str = "",
        waited: float = 0,
        reason: str = "",
        refused: str = "",
        down: list = (),
        deadline: float = 0,
    ) -> str:
        if deadline:
            return f"BLOCKED: not started before the deadline of {duration(deadline)}"
        if refused:
            nodes = f"; down or drained: {with_reasons(down)}" if down else ""
            hint = _option_hint(refused)
            return f"BLOCKED: the scheduler refused the job: {refused}{nodes}{hint}"
        why = f"the scheduler's reason: {reason.replace('_', ' ')}"
        why = "no reason is known" if reason in ("", "None") else why
        waited = f" in {duration(waited)}" if waited else ""
        return f"BLOCKED: job {job} was not started{waited}; {why}"

    def CANCELLED(job: str, state: str, nodes: str = "") -> str:
        return f"CANCELLED: job {job} was {state.lower()}{_on(nodes)}, not by this run"

    # of a launch that succeeds; fact: what its library warns of
    def LIBRARY_WARNS(fact: str, host: str = "", next: str = "") -> str:
        return f"{host or 'a library'}: {fact}"

    # why: a reason; jobs: those left in the scheduler's queue
    def INFRASTRUCTURE(why: dict, scheduler: str = "", jobs: list = ()) -> str:
        left = f"; {Launches.JOBS_LEFT.says(scheduler, jobs)}" if jobs else ""
        return f"INFRASTRUCTURE: {clause(why)}{left}"

    NOT_SHARED = "{host} does not see {path}, which all nodes must share"
    JOB_UNLISTED = "the scheduler did not list job {job}, which is {state}"
    COMMAND_SILENT = "{command} did not answer in time"

    # ---- a launch ----

    NO_KERNEL = "no bisection-* in {folder}"
    LEFT_OUT = "left out of the build: {kernels}"
    NO_CORES = "the site file does not give the cores of {partition}"
    NODES_NEEDED = "needs {needed} nodes, a launch here has {nodes}"
    CORES_NEEDED = "needs {needed} cores, a launch here has {cores}"
    RANKS_NEEDED = "needs {needed} ranks per node, a launch here has {ranks}"
    NOT_SIMULATED = "bisection-{kernel} is not simulated"
    NOT_SCRATCH = "{folder} is scratch of other partitions"
    LAYOUT_IS_TWIN = "layout {layout} is the same as {other} here ({geometry})"
    LAYOUT_TOO_LARGE = "layout {layout} needs {ranks_per_node} cores per node, there are {cores}"
    BASELINE_WRONG = "the baseline {method} gave a wrong answer"
    RANKS_RAN = "{ranks} of {asked} ranks ran"
    HOSTS_RAN = "ranks ran on the hosts {hosts}, not on {asked} hosts"
    MORE_MISPLACED = "{faults} more, on {hosts} hosts in all"
    RANKS_ON_HOST = "{ranks} ranks ran on host {host}, not {asked}"
    THREADS_RAN = "rank {rank} on {host} ran {threads} threads, not {asked}"
    NOT_ENDED = "the job did not run to its end"

    def NO_SPACE(place: str = "", free: float = 0, needed: float = 0, error: str = "") -> str:
        free, needed = f"{free / 1e6:.0f} MB", f"{needed / 1e6:.0f} MB"
        return error or f"no space left on {place} ({free} free, a build takes {needed})"

    REMARKS = "{remarks}"

    def KERNELS_KEPT(built: float) -> str:
        return f"as built {utc(built)}"

    def KERNELS_STALE(kernel: str, checkout: str, built: str = "", accepted: bool = False) -> str:
        option = "accepted by --stale" if accepted else "--stale accepts it"
        sources = f"({built or 'of no known hash'}) than this checkout's ({checkout})"
        return f"{kernel} was built from other sources {sources}; {option}"

    # rank and host: of the first rank that died; complete: its result was written before
    def KERNEL_EXIT(
        kernel: str, exit_code: int, rank: int | None = None, host: str = "",
        complete: bool = False, next: str = "",
    ) -> str:  # fmt: skip
        rank = "" if rank is None else f", rank {rank}"
        built = "; it was built for another processor" if exit_code == 128 + signal.SIGILL else ""
        late = "; its result was complete: MPI had only to end" if complete else ""
        # without an answer it is not the kernel's own word for a wrong one
        ended = "exited with 1" if exit_code == KernelExit.WRONG_ANSWER else _exit(exit_code)
        return f"{kernel} {ended}{rank}{_on(host)}{built}{late}"

    def EXIT_CONTRADICTS(
        kernel: str, exit_code: int, wrong: list, verified: bool | None = None
    ) -> str:
        result = f"its result has verified: {verified}, wrong: {', '.join(wrong) or 'none'}"
        return f"{kernel} {_exit(exit_code)}, but {result}"

    # seats: reasons; fault: of a launch that did not end well
    def MISPLACED(seats: list, fault: dict | None = None, layout: str = "") -> str:
        layout = f" (layout {layout})" if layout else ""
        fault = f"; {clause(fault)}" if fault else ""
        return f"INVALID placement{layout}: {'; '.join(map(clause, seats))}{fault}"

    def CORE_SHARED(rank: int, host: str, cpus: str, other: list, thread: int | None = None) -> str:
        mine, theirs = f"{_seat(rank, host, thread)} (cpus {cpus})", _seat(other[0], host, other[1])
        return f"{mine} shares a core with {theirs} (cpus {other[2]})"

    def CORE_UNBOUND(rank: int, host: str, cpus: str, thread: int | None = None) -> str:
        return f"{_seat(rank, host, thread)} is not bound to one core: it may use cpus {cpus}"

    # ---- a result file ----

    NO_RESULT = "{kernel} wrote no result file"
    RESULT_UNREADABLE = "cannot read {path}: {error}"
    RESULT_FOREIGN = "{path} is not a {schema} file"
    RESULT_VERSION = "{path} has version {version}, and only {last} can be read: rerun"
    RESULT_OTHER = "{path} is of {key} {value}, not {wanted}"
    RESULT_INCOMPLETE = "status is {status}, not 'complete': {kernel} measured {methods} methods"
    METHOD_MISSING = "method {method} is missing from the results"
    METHOD_REFUSED = "{method} did not run: {why}"
    METHOD_INAPPLICABLE = "{why}"
    NO_CHECK = "not verified: no check was made"
    NOT_VERIFIED = "verification did not pass"
    METRICS_MISSING = "metric missing from {method}: {metrics}"
    NOT_A_NUMBER = "is {value}, not a finite number"
    NO_FRACTION = "is {value}, a share is between 0 and 1"
    BELOW_ZERO = "is {value}, below zero"
    NOT_ABOVE_ZERO = "is {value}, not above zero"
    NO_BEST_NPAR = "no choice of NPAR was measured"

    def WRONG_ANSWER(method: str, checks: list, point: str = "") -> str:
        point = f" at {point}" if point else ""
        return f"wrong answer of {method}{point}: {'; '.join(map(clause, checks))}"

    def CHECK_FAILED(name: str, unit: str, tolerance: float, error: float = math.nan) -> str:
        return f"{name}: error {_short(error)} {unit}, tolerance {_short(tolerance)}"

    def NOT_AS_NAMED(
        name: str, least: float, shown: float = math.nan, most: float | None = None
    ) -> str:
        promised = _short(least)
        if most is None:
            promised = f"at least {promised}"
        elif most > least:
            promised = f"{promised} to {_short(most)}"
        return f"not what its name says: {name}: {_short(shown)}, promised {promised}"

    def METRICS_UNUSABLE(method: str, metrics: list) -> str:
        return f"metric of {method}: " + "; ".join(f"{n} {clause(fault)}" for n, fault in metrics)

    # ---- references ----

    STRICT_OFF = "strict_check is off: a slow method would pass"
    REFERENCES_UNREADABLE = "cannot read references in {file}: {error}"
    NO_REFERENCE_FILE = "{partition} claims references of kind {kinds}, and there is no {file}"
    NO_REFERENCE = "no reference on {partition} in {file} for {metrics}"
    METHOD_NOT_JUDGED = (
        "{method} is measured and verified, but not judged: {file} has no reference of it on "
        "{partition} for {metrics}"
    )
    REFERENCE_OF_NO_METRIC = "is no metric of this check"
    REFERENCE_SHAPE = "reference [{reference}] is not [value, lower, upper]"
    REFERENCE_OPEN = "the {part} is open"
    REFERENCE_TEXT = "the {part} {value!r} is text, not a number (YAML wants 9.0e+6, not 9e6)"
    REFERENCE_NOT_FINITE = "the {part} {value} is not a finite number"
    REFERENCE_NOT_ABOVE_ZERO = "the reference {value} is not above zero"
    LOWER_BOUND_RANGE = "the lower bound {value} is not a fraction between -1 and 0"
    UPPER_BOUND_RANGE = "the upper bound {value} is below zero"

    def REFERENCES_UNUSABLE(partition: str, file: str, faults: list) -> str:
        where = f"on {partition} in {file}"
        return "; ".join(
            f"{metric} has a reference {where}, but is no metric of this check"
            if fault["code"] == "REFERENCE_OF_NO_METRIC"
            else f"{metric}: {clause(fault)} {where}"
            for metric, fault in faults
        )

    # ---- a test of a run ----

    UNEXPECTED_PASS = "passes, though the reference says that it is known to fail"
    NOTHING_MEASURED = "it passed without measuring anything"
    UNMEASURED = "not measured"
    FOLLOWS = "{test} did not pass"
    SKIPPED = "skipped: {why}"
    NOT_RUN = "ReFrame's result is {result}"
    RUN_ENDED = "the run ended before it"

    def PREEMPTED(fraction: float, waited: float = 0) -> str:
        text = f"other processes used the cores in {fraction:.0%} of the samples"
        return f"{text}, for {waited:.0%} of their time" if waited > fraction else text

    STOPPED = (
        "the processes ran for {ran:.0%} of the time, and waited for a core for {waited:.0%}; the "
        "samples took {factor:.0f} times what their medians add up to: something stops them"
    )
    STARVED = (
        "the processes ran for {ran:.0%} of the time, and waited for a core for {waited:.0%}: "
        "other processes, or a quota of processor time, had it"
    )

    # metrics: [[name, value, unit, low, high]]
    def UNCONFIRMED(metrics: list, cause: dict) -> str:
        return f"{Launches.OUT_OF_BOUNDS.says(metrics)}: not confirmed, as {clause(cause)}"

    RERUN = "launches whose cores other processes used: {launches}; quiet in the rerun: {quiet}"
    LAYOUT_FASTER = "{layout} is {gain:.0%} faster than one rank per core on {cores} cores"
    UNJUDGED_WRONG_ANSWER = "wrong answer of {method} in {place}, and no selected check judges it"

    # metrics: [[name, value, unit, low, high]]; of the retest: its verdict, rerun: name -> value,
    # nodes: to which it is bound
    def OUT_OF_BOUNDS(
        metrics: list, retest: str = "", rerun: dict | None = None, nodes: list = ()
    ) -> str:
        rerun, parts = rerun or {}, []
        for name, value, unit, low, high in metrics:
            text = f"{name} is {number(value)} {'' if unit == 'ratio' else unit}".rstrip()
            second = f", in the retest {number(rerun[name])}" if name in rerun else ""
            parts.append(f"{text}, allowed is {span(low, high)}{second}")
        parts += ["it did not repeat"] if retest == Verdict.PASS else []
        parts += [f"on {some(nodes, 3)}, and not on others"] if nodes else []
        return "; ".join(parts)

    # of a check, of ReFrame, of a build, of another tool
    def TEXT(text: str = "") -> str:
        return text or "no reason is given"

    def LAUNCH_LATE(seconds: float, claimed: float) -> str:
        times = f"{seconds / claimed:.0f} times"
        return f"took {duration(seconds)}, {times} its estimate of {duration(claimed)}"

    def BEST_MOVED(best: int, was: int, loss: float = 0) -> str:
        cost = f"; that is {loss - 1:.0%} slower" if loss else ""
        return f"the best NPAR is {best}, it was {was}{cost}"

    # ---- a run as a whole ----

    NOT_LOADED = "{kind} does not load: {text}"
    REFRAME_EXIT = "ReFrame exited with {exit_code}, see {log}"
    NO_REPORT = "ReFrame ended without a report"
    NONE_SELECTED = "no check was selected: ReFrame found none for this tier, name and partition"
    NO_TEST = "no check was selected"
    TESTS_ABSENT = "{absent} of {selected} selected test cases did not run"
    NOT_KEPT = "{error}"
    NOT_STORED = "not stored: {error}; remove store.db, and the next command makes it again"
    NODES_TAKEN = "busy nodes: {nodes}; their request is dropped for the jobs {jobs}"
    TESTS_GONE = "tests of the last session are gone: {tests}"

    # before, now: nodes x ranks per node x threads; cores: how those that are granted changed
    def OTHER_RANKS(tests: int, before: str, now: str, cores: dict | None = None) -> str:
        count = f"{tests} {'test' if tests == 1 else 'tests'}"
        why = f"; {clause(cores)}" if cores else ""
        return (
            f"{count} ran as {now}, in earlier sessions as {before}: not compared{why}; "
            "`bisection sessions exclude` of the earlier sessions accepts the change"
        )

    LAUNCHES_PREEMPTED = (
        "other processes used the cores of the first {launches} launches; what they slow down is "
        "not measured. Ctrl-C ends the run; --wait 30m waits for a quiet machine first"
    )

    # ended: it ended the run
    def REFRAME_TEXT(text: str, ended: bool = False) -> str:
        return text

    def JOB_WAITS(job: str, queue: str, reason: str, start: float = 0) -> str:
        start = f"; expected start {utc(start)}" if start else ""
        return f"waiting: job {job} in queue {queue}; Slurm's reason: {reason}{start}"

    def JOBS_LEFT(scheduler: str, jobs: list) -> str:
        cancel = CANCEL.get(scheduler)
        mend = f"; cancel with {cancel} {' '.join(jobs)}" if cancel else ""
        return f"left in the queue: {', '.join(jobs)}{mend}"

    def BUSY(used: float, cores: int, top: list) -> str:
        names = f" ({', '.join(f'{name} {part:.1f}' for name, part in top)})" if top else ""
        return f"other processes use {used:.1f} of {cores} cores{names}"
