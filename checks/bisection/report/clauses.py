"""The only place where a reason becomes English: of each code its clause."""

import re
import signal
import string
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from bisection.core.format import duration, lasting, number, plural, some, utc
from bisection.core.reasons import Code, Reason
from bisection.core.verdicts import Verdict
from bisection.kernels.results import KernelExit
from bisection.report.congestion_clauses import CONGESTION
from bisection.report.defects import DEFECTS
from bisection.report.explain_clauses import EXPLAIN
from bisection.report.finding_clauses import FINDINGS
from bisection.report.network_clauses import NETWORK
from bisection.report.node_clauses import NODES
from bisection.report.pairs_clauses import PAIRS
from bisection.report.ratios import change
from bisection.report.site_clauses import SITE, option_hint
from bisection.report.site_new_clauses import NEW
from bisection.report.slower_clauses import SLOWER

Values = Mapping[str, Any]

# How to cancel a job, by ReFrame's name for the scheduler.
CANCEL = {
    "flux": "flux cancel",
    "lsf": "bkill",
    "oar": "oardel",
    "pbs": "qdel",
    "sge": "qdel",
    "slurm": "scancel",
    "squeue": "scancel",
    "torque": "qdel",
}


# ---- reasons ----


def clause(reason: Reason | None) -> str:
    """Words a reason.

    Args:
        reason: the reason, or None.

    Returns:
        One clause; "" for None. The code itself where the values are of another version.
    """
    if reason is None:
        return ""
    values = defaultdict(str, reason.values)
    template = CLAUSES[reason.code]
    if reason.code in FAULTS and values["text"]:  # of an earlier version
        template = "{text}"
    try:
        text = template(values) if callable(template) else _fill(template, values)
    except (TypeError, ValueError, LookupError, AttributeError):  # values of another version
        text = ""
    text = text if text.strip() else str(reason)
    if reason.code in FAULTS:
        text = f"{reason.code}: {text}"
    if build := reason["build"]:
        text += f": {build}"
    return text


def _fill(template: str, values: Values) -> str:
    """Puts values into a template of `Words`."""
    return Words().vformat(template, (), values)


class Words(string.Formatter):
    """The language of the templates below: that of str.format with two additions.

    `{name!x}` converts a value that exists by CONVERSIONS. `{name:?TEXT|OTHER}` gives TEXT, with
    the value for its asterisk, where there is a value, and OTHER or nothing where there is none.
    """

    def convert_field(self, value: Any, conversion: str | None) -> Any:
        """Converts a value by CONVERSIONS; text that is empty stays so."""
        if conversion in CONVERSIONS:
            return "" if value in ("", None) else CONVERSIONS[conversion](value)
        return super().convert_field(value, conversion)

    def format_field(self, value: Any, format_spec: str) -> str:
        """Formats a value; after a question mark the text that depends on it."""
        if not format_spec.startswith("?"):
            return super().format_field(value, format_spec)
        text, _, other = format_spec[1:].partition("|")
        return other if value in ("", None) else text.replace("*", str(value))


def _nested(value: Any) -> str:
    return clause(Reason.read(value))


def _each(template: str, joint: str = ", ") -> Callable[[Iterable[Any]], str]:
    """A conversion of a list: every item, a mapping or a row of values, by a template."""

    def convert(items: Iterable[Any]) -> str:
        return joint.join(
            template.format(**item) if isinstance(item, Mapping) else template.format(*item)
            for item in items
        )

    return convert


# Of `Words`: how a value becomes text.
CONVERSIONS: dict[str, Callable[[Any], str]] = {
    "l": lasting,  # a time limit, s
    "n": _nested,  # a reason
    "N": lambda reasons: "; ".join(map(_nested, reasons)),
    "f": lambda faults: "; ".join(f"{name} {_nested(fault)}" for name, fault in faults),
    "t": utc,
    "w": str.lower,
    "R": lambda ranks: plural(ranks, "rank"),
    "j": lambda items: ", ".join(map(str, items)),
    "J": lambda jobs: plural(len(jobs), "job"),
    "m": lambda items: some(items, 3),
    "a": lambda items: " and ".join(map(str, items)),
    "p": lambda pairs: some((f"{name} ({text})" for name, text in pairs), 4) if pairs else "",
    "P": _each("{}: {}", "; "),
    "h": lambda hosts: f"{len(hosts)} hosts ({', '.join(hosts)})",
    "x": lambda code: _exit(code),  # an exit code of a kernel
    "d": lambda row: change(row),
    "c": lambda control: "the clock" if control["metric"] == "clock" else "the control",
}


def _no_space(v: Values) -> str:
    if v["error"]:
        return v["error"]
    free, needed = (f"{v[name] / 1e6:.0f} MB" for name in ("free", "needed"))
    return f"no space left on {v['place']} ({free} free, a build takes {needed})"


def _blocked(v: Values) -> str:
    if v["deadline"]:
        return _fill("not started before the deadline of {deadline!l}", v)
    if v["refused"]:
        text = "the scheduler refused the job: {refused}{down!p:?; down or drained: *}"
        return _fill(text, v) + option_hint(v["refused"])
    reason = (v["reason"] or "None").replace("_", " ")
    why = "no reason is known" if reason == "None" else f"the scheduler's reason: {reason}"
    return _fill("job {job} was not started{waited!l:? in *}; ", v) + why


def _infrastructure(v: Values) -> str:
    if v["unseen"]:
        text = f"{v['host']} does not see {v['unseen']}, which all nodes must share"
    elif v["said"]:
        text = v["said"]
    elif v["state"]:
        job = v["job"] or v["jobs"][0]
        text = f"the scheduler did not list job {job}, which is {v['state']}"
    else:
        text = _fill("{command:?* did not answer in time|no cause is known}", v)
    return f"{text}; {_jobs_left(v)}" if v["jobs"] else text


def _jobs_left(v: Values) -> str:
    jobs, cancel = v["jobs"], CANCEL.get(v["scheduler"])
    mend = f"; cancel with {cancel} {' '.join(jobs)}" if cancel else ""
    return f"left in the queue: {', '.join(jobs)}{mend}"


def _shared(v: Values) -> str:
    count = f"all {v['of']}" if v["metrics"] == v["of"] else f"{v['metrics']} of {v['of']}"
    kernel = f" of {v['kernel']}" if v["kernel"] else ""
    cores = {"moved": ", and so are the cores alone", "still": "; the cores alone are as before"}
    who = f"{count} metrics{kernel} on {v['place']}"
    return f"{who} are together {change(v['change'])}{cores.get(v['controls'], '')}"


def _power(v: Values) -> str:
    before, after = v["nights"]
    text = f"with {before} and {after} nights, a change of one metric is seen from "
    text += f"{v['effect']:.0%} on"
    more = f"{v['needed']} nights per side see {v['finer']:.0%}" if v["needed"] else ""
    return "; ".join(filter(None, (text, more)))


MEANINGS = {
    KernelExit.VERIFIED: "verified",
    KernelExit.WRONG_ANSWER: "wrong answer",
    KernelExit.USAGE: "usage",
    KernelExit.RESOURCES: "it cannot run here",
    KernelExit.HANG: "hang",
}


def _exit(code: int) -> str:
    """What an exit code of a kernel means."""
    if code in MEANINGS:
        return f"exited with {code} ({MEANINGS[code]})"
    try:
        return f"was killed by {signal.Signals(code - 128).name}"
    except ValueError:
        return f"exited with {code}"


def _kernel_exit(v: Values) -> str:
    built = "; it was built for another processor" if v["exit_code"] == 128 + signal.SIGILL else ""
    late = "; its result was complete: MPI had only to end" if v["complete"] else ""
    text = "{kernel} {exit_code!x}{rank:?, rank *}{host:? on *}" + built + late + "{last:?: *}"
    return _fill(text, v)


SEAT = "rank {rank} on {host}{thread:? thread *}"


def _core_shared(v: Values) -> str:
    rank, thread, cpus = v["other"]
    other = _fill(SEAT, {"rank": rank, "host": v["host"], "thread": thread})
    return _fill(SEAT + " (cpus {cpus}) shares a core with ", v) + f"{other} (cpus {cpus})"


def _check_failed(v: Values) -> str:
    error, tolerance = (
        f"{x:.4g}" if isinstance(x, float) and not x.is_integer() else str(x)
        for x in (v["error"], v["tolerance"])
    )
    return f"{v['name']}: error {error} {v['unit']}, tolerance {tolerance}"


def _counts_contradict(v: Values) -> str:
    together = "each of {0} ranks sends {1:.6g} {4} a step, each of {2} {3:.6g}"
    alone = "{0} ranks send {1:.6g} {4} a step, {2} send {3:.6g}"
    return "; ".join((together if each else alone).format(*counts) for *counts, each in v["counts"])


def _references_unusable(v: Values) -> str:
    where = f"on {v['partition']} in {v['file']}"
    return "; ".join(
        f"{metric} has a reference {where}, but is no metric of this check"
        if fault["code"] == Code.REFERENCE_OF_NO_METRIC
        else f"{metric}: {_nested(fault)} {where}"
        for metric, fault in v["faults"]
    )


def span(low: float | None, high: float | None) -> str:
    """Words bounds.

    Args:
        low: the lower bound, None if it is open.
        high: the upper bound, None if it is open.

    Returns:
        Both, such as 0.61..1.79.
    """
    return "..".join("open" if end is None else number(end) for end in (low, high))


def _out_of_bounds(v: Values) -> str:
    preempted, again = v.get("retest") == "preempted", v.get("again", {})
    parts = []
    for name, value, unit, low, high in v["metrics"]:
        text = f"{name} is {number(value)} {'' if unit == 'ratio' else unit}".rstrip()
        second = f", in the retest {number(again[name])}" if name in again and not preempted else ""
        parts.append(f"{text}, allowed is {span(low, high)}{second}")
    ends = ["other processes had the cores of the retest"] if preempted else []
    ends += ["it did not repeat"] if v.get("retest") == Verdict.PASS else []
    ends += [f"on {some(v['nodes'], 3)}, and not on others"] if v.get("nodes") else []
    return "; ".join([*parts, *ends])


def _best_moved(v: Values) -> str:
    cost = f"; that is {v['loss'] - 1:.0%} slower" if v["loss"] else ""
    return f"the best NPAR is {v['best']}, it was {v['was']}{cost}"


def _hang(v: Values) -> str:
    parts = [_fill("nothing finished{limit!l:? for *}{hosts!j:? on *}", v)]
    parts += [f"no answer from {_ranks(ranks)} on {host}" for ranks, host in v["silent"]]
    parts += [
        f"{_ranks(ranks)} on {some(hosts, 3)} {where}" for ranks, hosts, where in v["waiting"]
    ]
    parts += [f"{ranks}: {where}" for ranks, where in v["places"]]  # of an earlier version
    if v["stack"]:
        ranks, routines = v["stack"]
        parts.append(f"stack of {_ranks(re.match('[0-9]+', ranks)[0])}: {' < '.join(routines)}")
    return "; ".join(parts)


def _ranks(ranks: str) -> str:
    return f"{'rank' if ranks.isdecimal() else 'ranks'} {ranks}"


FAULTS = {
    Code.TIMEOUT: "{job:?job *|it} ran to its time limit{limit!l:? of *}{nodes:? on *}",
    Code.NODE_FAIL: "job {job} lost {down!p:?*|a node}{nodes:?, it ran on *}",
    Code.OUT_OF_MEMORY: "job {job} used more memory than it may{nodes:? on *}",
    Code.MPI_ABORT: "rank {rank}{host:? on *} aborted with code {exit_code}{last:?: *}",
    Code.HANG: _hang,
    Code.BLOCKED: _blocked,
    Code.CANCELLED: "job {job} was {state!w}{nodes:? on *}, not by this run",
    Code.INFRASTRUCTURE: _infrastructure,
}
# Of each code its clause: a template of `Words`, or a function of the values.
CLAUSES: dict[Code, str | Callable[[Values], str]] = {
    **FAULTS,
    **DEFECTS,
    **SITE,
    **NEW,
    Code.METRIC_REFERENCE: "{metric}: {fault!n}",
    # a launch
    Code.NO_KERNEL: "no bisection-* in {folder}",
    Code.NO_SPACE: _no_space,
    Code.NO_CORES: "the site file does not give the cores of {partition}",
    Code.NOT_SIMULATED: "bisection-{kernel} is not simulated",
    Code.LAYOUT_IS_TWIN: "layout {layout} is {other} here: {geometry}",
    Code.LAYOUT_TOO_LARGE: "layout {layout} needs {ranks_per_node} cores per node, "
    "there are {cores}",
    Code.NOT_ENDED: "the job did not run to its end{last:?: *}",
    Code.KERNEL_EXIT: _kernel_exit,
    Code.EXIT_CONTRADICTS: "{kernel} {exit_code!x}, but its result has verified: {verified}, "
    "wrong: {wrong!j:?*|none}",
    Code.KERNELS_KEPT: "as built {built!t}",
    Code.KERNELS_STALE: "{kernel} was built from other sources ({built:?*|of no known hash}) than "
    "this checkout's ({checkout}){accepted:?; accepted by --stale|; --stale accepts it}",
    Code.BASELINE_WRONG: "the baseline {method} gave a wrong answer",
    Code.MISPLACED: "INVALID placement{layout:? (layout *)}: {seats!N}{fault!n:?; *}",
    Code.RANKS_RAN: "{ranks!R} ran, not {asked}",
    Code.HOSTS_RAN: "ranks ran on {hosts!h}, not on {asked}",
    Code.RANKS_ON_HOST: "{ranks} ranks ran on host {host}, not {asked}",
    Code.THREADS_RAN: "rank {rank} on {host} ran {threads} threads, not {asked}",
    Code.CORE_SHARED: _core_shared,
    Code.CORE_UNBOUND: SEAT + " is not bound to one core: it may use cpus {cpus}",
    # a result file
    Code.NO_RESULT: "{kernel} wrote no result file",
    Code.RESULT_UNREADABLE: "cannot read {path}: {error}",
    Code.RESULT_FOREIGN: "{path} is not a {schema} file",
    Code.RESULT_VERSION: "{path} has version {version}, and only {last} can be read: measure again",
    Code.RESULT_OTHER: "{path} is of {key} {value}, not {wanted}",
    Code.RESULT_INCOMPLETE: "status is {status}, not 'complete': {kernel} stopped early, with "
    "samples of {methods} methods",
    Code.METHOD_MISSING: "method {method} is missing from the results",
    Code.METHOD_REFUSED: "{method} did not run: {why}",
    Code.METHOD_INAPPLICABLE: "{why}",
    Code.WRONG_ANSWER: "wrong answer of {method}{point:? at *}: {checks!N}",
    Code.CHECK_FAILED: _check_failed,
    Code.NO_CHECK: "not verified: no check was made",
    Code.NOT_VERIFIED: "verification did not pass",
    Code.METRICS_MISSING: "metric missing from {method}: {metrics!j}",
    Code.METRICS_UNUSABLE: "metric of {method}: {metrics!f}",
    Code.NOT_A_NUMBER: "is {value}, not a number",
    Code.NOT_FINITE: "is {value}, not finite",
    Code.NO_FRACTION: "is {value}, a share is between 0 and 1",
    Code.BELOW_ZERO: "is {value}, below zero",
    Code.NOT_ABOVE_ZERO: "is {value}, not above zero",
    Code.NO_BEST_NPAR: "no choice of NPAR was measured",
    Code.COUNTS_CONTRADICT: _counts_contradict,
    # references
    Code.STRICT_OFF: "strict_check is off: a slow method would pass",
    Code.REFERENCES_UNREADABLE: "cannot read references in {file}: {error}",
    Code.REFERENCES_UNUSABLE: _references_unusable,
    Code.NO_REFERENCE_FILE: "partition {partition} claims references of kind {kinds!j}, and there "
    "is no {file}",
    Code.NO_REFERENCE: "no reference on {partition} in {file} for {metrics!j}",
    Code.METHOD_NOT_JUDGED: "{method} is measured and verified, but not judged: {file} has no "
    "reference of it on {partition} for {metrics!j}",
    Code.REFERENCE_OF_NO_METRIC: "is no metric of this check",
    Code.REFERENCE_SHAPE: "reference [{reference!j}] is not [value, lower, upper]",
    Code.REFERENCE_OPEN: "the {part} is open",
    Code.REFERENCE_TEXT: "the {part} {value!r} is text, not a number (YAML wants 9.0e+6, not 9e6)",
    Code.REFERENCE_NOT_FINITE: "the {part} {value} is not a finite number",
    Code.REFERENCE_NOT_ABOVE_ZERO: "the reference {value} is not above zero",
    Code.LOWER_BOUND_RANGE: "the lower bound {value} is not a fraction between -1 and 0",
    Code.UPPER_BOUND_RANGE: "the upper bound {value} is below zero",
    # a test of a run
    Code.OUT_OF_BOUNDS: _out_of_bounds,
    Code.UNEXPECTED_PASS: "passes, though the reference says that it is known to fail",
    Code.NOTHING_MEASURED: "it passed without measuring anything",
    Code.UNMEASURED: "not measured",
    Code.FOLLOWS: "{test} did not pass",
    Code.SKIPPED: "skipped: {why:?*|no reason is known}",
    Code.NOT_RUN: "ReFrame's result is {result:?*|none}",
    Code.RUN_ENDED: "the run ended before it",
    Code.TEXT: "{text:?*|no reason is given}",
    **NODES,
    **CONGESTION,
    **NETWORK,
    Code.PREEMPTED: "other processes had the cores in {fraction:.0%} of the samples",
    Code.STOPPED: "the processes ran for {ran:.0%} of the time, and the samples took {factor:.0f} "
    "times what their medians add up to: something stops them, as a limit of their processor time",
    Code.MEASURED_AGAIN: lambda v: (
        f"other processes had the cores of {plural(v['launches'], 'launch', 'launches')}; measured "
        f"again, {v['quiet'] or 'none'} undisturbed"
    ),
    Code.LAUNCH_LATE: lambda v: (
        f"took {duration(v['seconds'])}, {v['seconds'] / v['claimed']:.0f} times its estimate of "
        f"{duration(v['claimed'])}"
    ),
    Code.LAYOUT_FASTER: "{layout} is {gain:.0%} faster than one rank per core on {cores} cores",
    Code.BEST_MOVED: _best_moved,
    Code.UNJUDGED_WRONG_ANSWER: "wrong answer of {method} in {place}, and no selected check "
    "judges it",
    # a run as a whole
    Code.NOT_LOADED: "{kind} does not load: {text}",
    Code.REFRAME_TEXT: "{text}",
    Code.REFRAME_EXIT: "ReFrame exited with {exit_code}, see {log}",
    Code.NOT_RECORDED: "the results were not stored in ReFrame's database (storage: enable)",
    Code.NO_REPORT: "ReFrame ended without a report",
    Code.NONE_SELECTED: "no check was selected: ReFrame found none for this tier, name and "
    "partition",
    Code.NO_TEST: "no check was selected",
    Code.TESTS_ABSENT: "{absent} of {selected} selected test cases did not run",
    Code.JOB_WAITS: "waiting: job {job} in queue {queue}; Slurm's reason: {reason}"
    "{start!t:?; expected start *}",
    Code.NODES_TAKEN: "not waiting for {nodes!m}: Slurm chooses the nodes of {jobs!J}",
    Code.JOBS_LEFT: _jobs_left,
    Code.TESTS_GONE: lambda v: (
        f"{len(v['tests'])} tests of the last session are gone: {some(v['tests'], 3)}"
    ),
    Code.WAS_DAMAGED: "{path} was damaged ({fault}) and {now:?is now *}{error}",
    Code.NOT_KEPT: "{error}",
    Code.NOT_STORED: "not stored: {error}; `bisection import` stores it later",
    # a run beside earlier sessions
    **PAIRS,
    **SLOWER,
    **EXPLAIN,
    **FINDINGS,
    Code.RETEST_FAILED: lambda v: f"in the retest, {v['test']}: {_nested(v['cause'])}",
    # a metric of a comparison
    Code.ABSENT: "in none of the sessions after ({sessions})",
    Code.VANISHED: "not in the last {sessions} sessions after",
    Code.NO_NUMBER: "no number above zero in any session after",
    Code.NOT_BEFORE: "not measured before",
    Code.UNLIKE: "not to be compared: its {what} is {values!a}",
    Code.CONSTANT: "all samples are the same number: nothing to judge by",
    Code.COUNT_VARIES: "a count that differs from run to run",
    Code.COUNT_CHANGED: "{before:.15g} is now {after:.15g}",
    Code.ONE_JOB: "one job per side does not represent the machine",
    Code.FEW_JOBS: "{before} and {after} jobs; {needed} are needed",
    Code.FEW_SESSIONS: "{before} and {after} sessions; {needed} are needed",
    Code.NIGHTS_UNKNOWN: "not surely beyond the {margin:.0%} by which so few nights may differ",
    Code.SHARED: _shared,
    Code.TWO_STATES: "two states, 1.0 and {gap:.2f}: in the slower one {before:.0%} of nights "
    "before, {after:.0%} after",
    Code.INTERVAL_WIDE: "the confidence interval contains both no change and one that counts",
    Code.NOT_SIGNIFICANT: "not significant among so many metrics",
    Code.UNDER_MARGIN: "a change, but under the {margin:.0%} that counts",
    Code.CORES_MOVED_ONLY: "as before, but the cores alone are not: {control!c} {control!d}",
    Code.CORES_MOVED_TOO: "but so are the cores alone: {control!c} {control!d}",
    Code.TAIL_PREEMPTED: "but other processes took the cores in {fraction:.0%} of the samples",
    Code.TAIL_OF_ONE_SESSION: "but the slowest percent is judged between sessions only",
    Code.BASELINE_MOVED: "by what it is compared with: the time itself is {own!d}",
    Code.MOVES_BY_ITSELF: "but it moves by itself: the A/A run",
    Code.JOBS_FAILED: "{count} of {of} jobs after failed: {cause!n}",
    Code.JOBS_UNUSABLE: "{count} of {of} jobs after could not be used: {cause!n}",
    # a comparison as a whole
    Code.CORES_DRIFTED: "the cores of {place} are not as they were: {control!c} ({control[test]}), "
    "which does not communicate, is {control!d}{hosts!m:?; the slowest is *}",
    Code.AA_DIFFERS: "the A/A run: {metrics} metrics differ, though nothing was changed",
    Code.SESSIONS_ONLY: "too few sessions: these verdicts ignore night-to-night variation. For "
    "the machine, compare {needed} sessions per side or more",
    Code.NO_MACHINE_VERDICT: lambda v: (
        f"{v['before']} against {v['after']} sessions give no verdict on the machine, which needs "
        f"{v['needed']} per side; bisection run --reruns={v['needed'] - 1} gives one on two "
        "sessions"
    ),
    Code.SIDES_SWAPPED: "AFTER is older than BEFORE",
    Code.NO_AA: "no A/A comparison: run the same again with nothing changed, and name it by --aa, "
    "to see what the machine does by itself",
    Code.NO_CONTROL: "no control: nothing on both sides measures the cores alone, so a slower "
    "clock cannot be told from a slower network (--control names one)",
    Code.TIERS_DIFFER: "the sides are of other tiers ({before!j}; {after!j}), with other tests",
    Code.REPEAT_SUSPECTS: "{metrics} metrics are unlike all earlier sessions: repeat them",
    Code.EXCLUDED: lambda v: (
        f"{plural(len(v['sessions']), 'excluded session')} left out: {some(v['sessions'], 4)}"
    ),
    Code.OF_OTHER_KINDS: lambda v: (
        f"{plural(len(v['sessions']), 'session')} of another tier or selection, or tagged, "
        f"left out: {some(v['sessions'], 4)}"
    ),
    Code.SAME_NIGHT: lambda v: (
        f"session {v['sessions'][1]} has the values of {v['sessions'][0]}, and does not count"
    ),
    Code.AHEAD: lambda v: (
        f"{plural(len(v['sessions']), 'session')} left out, of the future: "
        f"{some(v['sessions'], 4)}; the clock was ahead"
    ),
    Code.HISTORY_ENDS: lambda v: (
        f"{plural(v['metrics'], 'metric')} not measured since {utc(v['at'])[:10]}, "
        f"{v['example']}{' and others' if v['metrics'] > 1 else ''}"
        + (f": {v['change']}" if v["change"] else "")
    ),
    Code.NIGHTS_ALIKE: "nights are not independent: each resembles the one before (correlation "
    "{rho:.1f}), {nights} nights count as {worth:.0f}",
    Code.STATES_SEEN: "{metrics} metrics have two states, for example {test}: {states!n}",
    Code.POWER: _power,
    Code.AA_LEFT_OUT: "{metrics} metrics moved by themselves, and are not judged: the A/A run",
    Code.FRACTION_UNKNOWN: "no communication fraction is known",
    Code.NOT_THE_NETWORK: "not by the network: only {fraction:.1%} of the time was communication",
    Code.NOT_THE_NETWORK_ALONE: lambda v: (
        f"not by the network alone: with {v['fraction']:.0%} communication no network gives more "
        f"than {float(v['most']):.2f}"
    ),
    Code.NETWORK_FASTER: "fits a network {factor:.3g} times as fast, with {fraction:.0%} "
    "communication",
    Code.NETWORK_SLOWER: "fits a network {factor:.3g} times slower, with {fraction:.0%} "
    "communication",
}
# Reasons that continue a sentence that begins with the change itself.
AFTER_CHANGE = (
    *(Code.CORES_MOVED_TOO, Code.TAIL_PREEMPTED, Code.TAIL_OF_ONE_SESSION, Code.BASELINE_MOVED),
    Code.MOVES_BY_ITSELF,
)
