"""The only place where a reason becomes English: of each code its clause."""

import math
import signal
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from bisection.analysis.model import Row
from bisection.core.format import lasting, number, plural, some
from bisection.core.reasons import Code, Reason
from bisection.kernels.results import KernelExit
from bisection.report.defects import DEFECTS

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
    """A reason in one clause; "" for None."""
    if reason is None:
        return ""
    values = defaultdict(str, reason.values)
    template = CLAUSES[reason.code]
    if reason.code in FAULTS and values["text"]:  # of an earlier version
        template = "{text}"
    try:
        text = template(values) if callable(template) else template.format_map(values)
    except (TypeError, ValueError, LookupError, AttributeError):  # values of another version
        text = ""
    text = text or str(reason)
    if reason.code in FAULTS:
        text = f"{reason.code}: {text}"
    if build := reason["build"]:
        text += f": {build}"
    if preempted := reason["preempted"]:
        text += f" (but other processes had the cores in {preempted:.0%} of the samples)"
    return text


def _nested(value: Any) -> str:
    return clause(Reason.read(value))


def _all(values: Iterable[Any]) -> str:
    return "; ".join(map(_nested, values))


def _on(v: Values) -> str:
    return f" on {v['nodes']}" if v["nodes"] else ""


def _last(v: Values) -> str:
    return f": {v['last']}" if v["last"] else ""


def _timeout(v: Values) -> str:
    subject = f"job {v['job']}" if v["job"] else "it"
    limit = f" of {lasting(v['limit'])}" if v["limit"] else ""
    return f"{subject} ran to its time limit{limit}{_on(v)}"


def _node_fail(v: Values) -> str:
    down = ", ".join(f"{name} ({why})" for name, why in v["down"] or ())
    ran = f", it ran{_on(v)}" if v["nodes"] else ""
    return f"job {v['job']} lost {down or 'a node'}{ran}"


def _mpi_abort(v: Values) -> str:
    where = f" on {v['host']}" if v["host"] else ""
    return f"rank {v['rank']}{where} aborted with code {v['exit_code']}{_last(v)}"


def _stalled(v: Values) -> str:
    limit = f" for {lasting(v['limit'])}" if v["limit"] else ""
    hosts = f" on {', '.join(v['hosts'])}" if v["hosts"] else ""
    places = "; ".join(f"{ranks}: {where}" for ranks, where in v["places"] or ())
    return f"nothing finished{limit}{hosts}" + (f"; {places}" if places else "")


def _blocked(v: Values) -> str:
    if v["refused"]:
        return f"the scheduler refused the job: {v['refused']}"
    waited = f" in {lasting(v['waited'])}" if v["waited"] != "" else ""
    reason = (v["reason"] or "None").replace("_", " ")
    why = "no reason is known" if reason == "None" else f"the scheduler's reason: {reason}"
    return f"job {v['job']} was not started{waited}; {why}"


def _infrastructure(v: Values) -> str:
    if v["said"]:
        text = v["said"]
    elif v["state"]:
        text = f"the scheduler did not list job {v['jobs'][0]}, which is {v['state']}"
    elif v["command"]:
        text = f"{v['command']} did not answer in time"
    else:
        text = "no cause is known"
    return f"{text}; {_jobs_left(v)}" if v["jobs"] else text


def _jobs_left(v: Values) -> str:
    jobs, cancel = v["jobs"], CANCEL.get(v["scheduler"])
    mend = f"; cancel with {cancel} {' '.join(jobs)}" if cancel else ""
    return f"left in the queue: {', '.join(jobs)}{mend}"


def _exit(code: int) -> str:
    meanings = {
        KernelExit.VERIFIED: "verified",
        KernelExit.WRONG_ANSWER: "wrong answer",
        KernelExit.USAGE: "usage",
        KernelExit.RESOURCES: "not enough resources",
        KernelExit.STALLED: "stalled",
    }
    if code in meanings:
        return f"exited with {code} ({meanings[code]})"
    try:
        return f"was killed by {signal.Signals(code - 128).name} (exit {code})"
    except ValueError:
        return f"exited with {code}"


def _exit_contradicts(v: Values) -> str:
    wrong = ", ".join(v["wrong"]) or "none"
    text = f"{v['kernel']} {_exit(v['exit_code'])}, but its result has verified: {v['verified']}"
    return f"{text}, wrong: {wrong}"


def _seat(rank: int, host: str, thread: int | None) -> str:
    return f"rank {rank} on {host}" + ("" if thread in (None, "") else f" thread {thread}")


def _core_shared(v: Values) -> str:
    rank, thread, cpus = v["other"]
    mine = f"{_seat(v['rank'], v['host'], v['thread'])} (cpus {v['cpus']})"
    return f"{mine} shares a core with {_seat(rank, v['host'], thread)} (cpus {cpus})"


def _core_unbound(v: Values) -> str:
    seat = _seat(v["rank"], v["host"], v["thread"])
    return f"{seat} is not bound to one core: it may use cpus {v['cpus']}"


def _check_failed(v: Values) -> str:
    error, tolerance = (
        f"{x:.4g}" if isinstance(x, float) and not x.is_integer() else str(x)
        for x in (v["error"], v["tolerance"])
    )
    return f"{v['name']}: error {error} {v['unit']}, tolerance {tolerance}"


def _wrong_answer(v: Values) -> str:
    at = f" at {v['point']}" if v["point"] else ""
    return f"wrong answer of {v['method']}{at}: {_all(v['checks'])}"


def _counts_contradict(v: Values) -> str:
    texts = []
    for few, sent, many, other, unit, each in v["counts"]:
        if each:
            texts.append(
                f"each of {few} ranks sends {sent:.6g} {unit} a step, each of {many} {other:.6g}"
            )
        else:
            texts.append(f"{few} ranks send {sent:.6g} {unit} a step, {many} send {other:.6g}")
    return "; ".join(texts)


def _references_unusable(v: Values) -> str:
    where = f"on {v['partition']} in {v['file']}"
    texts = []
    for metric, fault in v["faults"]:
        if fault["code"] == Code.REFERENCE_OF_NO_METRIC:
            texts.append(f"{metric} has a reference {where}, but is no metric of this check")
        else:
            texts.append(f"{metric}: {_nested(fault)} {where}")
    return "; ".join(texts)


def span(low: float | None, high: float | None) -> str:
    """Bounds as text: 0.61..1.79."""
    return "..".join("open" if end is None else number(end) for end in (low, high))


def _out_of_bounds(v: Values) -> str:
    return "; ".join(
        f"{name} is {number(value)}{'' if unit == 'ratio' else f' {unit}'}, allowed is "
        f"{span(low, high)}"
        for name, value, unit, low, high in v["metrics"]
    )


def _best_moved(v: Values) -> str:
    cost = f"; that is {v['loss'] - 1:.0%} slower" if v["loss"] else ""
    return f"the best NPAR is {v['best']}, it was {v['was']}{cost}"


def _was_damaged(v: Values) -> str:
    now = f"is now {v['now']}" if v["now"] else v["error"]
    return f"{v['path']} was damaged ({v['fault']}) and {now}"


def _tests_gone(v: Values) -> str:
    tests = v["tests"]
    return f"{len(tests)} tests of the last session are gone: {some(tests, 3)}"


def _control(v: Values) -> str:
    control = v["control"]
    name = "the clock" if control["metric"] == "clock" else "the control"
    return f"{name} {change(control)}"


def _cores_drifted(v: Values) -> str:
    control = v["control"]
    name = "the clock" if control["metric"] == "clock" else "the control"
    return (
        f"the cores of {v['place']} are not as they were: {name} ({control['test']}), which does "
        f"not communicate, is {change(control)}"
    )


def _by(v: Values) -> str:
    return "the A/A run" if v["by"] == "aa" else "the sessions before, odd against even"


FAULTS = {
    Code.TIMEOUT: _timeout,
    Code.NODE_FAIL: _node_fail,
    Code.OUT_OF_MEMORY: lambda v: f"job {v['job']} used more memory than it may{_on(v)}",
    Code.MPI_ABORT: _mpi_abort,
    Code.STALLED: _stalled,
    Code.BLOCKED: _blocked,
    Code.CANCELLED: lambda v: f"job {v['job']} was {v['state'].lower()}{_on(v)}, not by this run",
    Code.INFRASTRUCTURE: _infrastructure,
}
# Of each code its clause: a format of its values, or a function of them.
CLAUSES: dict[Code, str | Callable[[Values], str]] = {
    **FAULTS,
    **DEFECTS,
    Code.METRIC_REFERENCE: lambda v: f"{v['metric']}: {_nested(v['fault'])}",
    # a launch
    Code.NO_KERNEL: "no bisection-* in {folder}",
    Code.NO_CORES: "the site file does not give the cores of {partition}",
    Code.LAYOUT_IS_TWIN: "layout {layout} is {other} here: {geometry}",
    Code.LAYOUT_TOO_LARGE: "layout {layout} needs {ranks_per_node} cores per node, "
    "there are {cores}",
    Code.NOT_ENDED: lambda v: f"the job did not run to its end{_last(v)}",
    Code.KERNEL_EXIT: lambda v: f"{v['kernel']} {_exit(v['exit_code'])}{_last(v)}",
    Code.EXIT_CONTRADICTS: _exit_contradicts,
    Code.BASELINE_WRONG: "the baseline {method} gave a wrong answer",
    Code.MISPLACED: lambda v: f"INVALID placement: {_all(v['seats'])}",
    Code.RANKS_RAN: "{ranks} ranks ran, not {asked}",
    Code.HOSTS_RAN: lambda v: (
        f"ranks ran on {len(v['hosts'])} hosts ({', '.join(v['hosts'])}), not on {v['asked']}"
    ),
    Code.RANKS_ON_HOST: "{ranks} ranks ran on host {host}, not {asked}",
    Code.THREADS_RAN: "rank {rank} on {host} ran {threads} threads, not {asked}",
    Code.CORE_SHARED: _core_shared,
    Code.CORE_UNBOUND: _core_unbound,
    # a result file
    Code.NO_RESULT: "{kernel} wrote no result file",
    Code.RESULT_UNREADABLE: "cannot read {path}: {error}",
    Code.RESULT_FOREIGN: "{path} is not a {schema} file",
    Code.RESULT_VERSION: "{path} has version {version}; 1 to {last} can be read",
    Code.RESULT_OTHER: "{path} is of {key} {value}, not {wanted}",
    Code.RESULT_INCOMPLETE: "status is {status}, not 'complete': {kernel} stopped early, with "
    "samples of {methods} methods",
    Code.METHOD_MISSING: "method {method} is missing from the results",
    Code.METHOD_REFUSED: "{method} did not run: {why}",
    Code.METHOD_INAPPLICABLE: "{why}",
    Code.WRONG_ANSWER: _wrong_answer,
    Code.CHECK_FAILED: _check_failed,
    Code.NO_CHECK: "not verified: no check was made",
    Code.NOT_VERIFIED: "verification did not pass",
    Code.METRICS_MISSING: lambda v: f"metric missing from {v['method']}: {', '.join(v['metrics'])}",
    Code.METRICS_UNUSABLE: lambda v: (
        f"metric of {v['method']}: "
        + "; ".join(f"{name} {_nested(fault)}" for name, fault in v["metrics"])
    ),
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
    Code.NO_REFERENCE_FILE: lambda v: (
        f"partition {v['partition']} claims references of kind {', '.join(v['kinds'])}, and there "
        f"is no {v['file']}"
    ),
    Code.NO_REFERENCE: lambda v: (
        f"no reference on {v['partition']} in {v['file']} for {', '.join(v['metrics'])}"
    ),
    Code.METHOD_NOT_JUDGED: lambda v: (
        f"{v['method']} is measured and verified, but not judged: {v['file']} has no reference of "
        f"it on {v['partition']} for {', '.join(v['metrics'])}"
    ),
    Code.REFERENCE_OF_NO_METRIC: "is no metric of this check",
    Code.REFERENCE_SHAPE: lambda v: (
        f"reference [{', '.join(v['reference'])}] is not [value, lower, upper]"
    ),
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
    Code.SKIPPED: lambda v: f"skipped: {v['why'] or 'no reason is known'}",
    Code.NOT_RUN: lambda v: f"ReFrame's result is {v['result'] or 'none'}",
    Code.RUN_ENDED: "the run ended before it",
    Code.TEXT: lambda v: v["text"] or "no reason is given",
    Code.PREEMPTED: "other processes had the cores in {fraction:.0%} of the samples",
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
    Code.JOBS_LEFT: _jobs_left,
    Code.TESTS_GONE: _tests_gone,
    Code.WAS_DAMAGED: _was_damaged,
    Code.NOT_KEPT: "{error}",
    Code.NOT_STORED: "not stored: {error}; `bisection import` stores it later",
    # a metric of a comparison
    Code.ABSENT: "in none of the {sessions} sessions after",
    Code.VANISHED: "not in the last {sessions} sessions after",
    Code.NO_NUMBER: "no number above zero in any session after",
    Code.NOT_BEFORE: "not measured before",
    Code.UNLIKE: lambda v: f"not to be compared: its {v['what']} is {' and '.join(v['values'])}",
    Code.CONSTANT: "all samples are the same number: nothing to judge by",
    Code.COUNT_VARIES: "a count that differs from run to run",
    Code.COUNT_CHANGED: "{before:.15g} is now {after:.15g}",
    Code.ONE_JOB: "one job per side does not represent the machine",
    Code.FEW_JOBS: "{before} and {after} jobs; {needed} are needed",
    Code.FEW_SESSIONS: "{before} and {after} sessions; {needed} are needed",
    Code.INTERVAL_WIDE: "the confidence interval contains both no change and one that counts",
    Code.NOT_SIGNIFICANT: "not significant among so many metrics",
    Code.UNDER_MARGIN: "a change, but under the {margin:.0%} that counts",
    Code.CORES_MOVED_ONLY: lambda v: f"as before, but the cores alone are not: {_control(v)}",
    Code.CORES_MOVED_TOO: lambda v: f"but so are the cores alone: {_control(v)}",
    Code.TAIL_PREEMPTED: "but other processes took the cores in {fraction:.0%} of the samples",
    Code.TAIL_OF_ONE_SESSION: "but the slowest percent is judged between sessions only",
    Code.BASELINE_MOVED: lambda v: (
        f"by what it is compared with: the time itself is {change(v['own'])}"
    ),
    Code.MOVES_BY_ITSELF: lambda v: f"but it moves by itself: {_by(v)}",
    Code.JOBS_FAILED: lambda v: (
        f"{v['count']} of {v['of']} jobs after failed: {_nested(v['cause'])}"
    ),
    Code.JOBS_UNUSABLE: lambda v: (
        f"{v['count']} of {v['of']} jobs after could not be used: {_nested(v['cause'])}"
    ),
    # a comparison as a whole
    Code.CORES_DRIFTED: _cores_drifted,
    Code.AA_DIFFERS: lambda v: (
        f"{_by(v)}: {v['metrics']} metrics differ, though nothing was changed"
    ),
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
    Code.TIERS_DIFFER: lambda v: (
        f"the sides are of other tiers ({', '.join(v['before'])}; {', '.join(v['after'])}), with "
        "other tests"
    ),
    Code.REPEAT_SUSPECTS: "{metrics} metrics are unlike all earlier sessions: repeat them",
    Code.EXCLUDED: lambda v: (
        f"{plural(len(v['sessions']), 'excluded session')} left out: {some(v['sessions'], 4)}"
    ),
    Code.AA_LEFT_OUT: lambda v: (
        f"{v['metrics']} metrics moved by themselves, and are not judged: {_by(v)}"
    ),
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


# ---- changes ----


def change(row: Row | Mapping[str, Any]) -> str:
    """A ratio with its confidence interval: 14% [11%, 17%] slower; 3.1 [2.9, 3.3] times as fast.

    Args:
        row: a row, or the `change` of one.
    """
    if not isinstance(row, Row):
        row = _row_of(row)
    if row.ratio is None:
        return ""
    bounds = (row.low, row.high) if row.low is not None and math.isfinite(row.high) else ()
    if not row.absolute and row.unit != "GHz":
        return amount((row.ratio, *bounds), "more", "less", "times as much")
    if row.slowdown < 1:
        values = row.speedup if bounds else row.speedup[:1]
        return amount(values, "faster", "slower", "times as fast")
    values = (row.slowdown, *(row.slowdown_interval if bounds else ()))
    return amount(values, "slower", "faster", "times slower")


def _row_of(values: Mapping[str, Any]) -> Row:
    numbers = {
        n: None if values.get(n) is None else float(values[n]) for n in ("ratio", "low", "high")
    }
    names = (values["metric"], values["unit"], values["better"])
    return Row(*[""] * 7, *names, False, None, None, **numbers)


def amount(values: Sequence[float], more: str, less: str, times: str) -> str:
    """Ratios, the first above or below one, in words."""
    if values[0] >= 2:
        texts = [f"{value:.3g}" for value in values]
        word = times
    else:
        word = more if values[0] >= 1 else less
        sign = 1 if values[0] >= 1 else -1
        values = values if sign > 0 else (values[0], *values[:0:-1])
        texts = [_percent(sign * (value - 1)) for value in values]
    return f"{texts[0]} [{', '.join(texts[1:])}] {word}" if texts[1:] else f"{texts[0]} {word}"


def _percent(part: float) -> str:
    return f"{part:.1%}" if abs(part) < 0.0995 else f"{part:.0%}"
