"""Results of comparisons with earlier sessions."""

from collections.abc import Mapping, Sequence
from typing import Any

from bisection.core.format import amount, duration, finite, number, plural, some, utc
from bisection.core.format import change as shift
from bisection.core.reasons.kinds import Topic

NAMED = 4  # checks that are named


def nights(first: float, at: float, last: float) -> str:
    first, day, last = (utc(time)[:10] for time in (first, at, last))
    return day if first == last else f"{day} ({first} to {last})"


def what_changed(checks: Mapping[str, Mapping[str, Any]]) -> str:
    """The metrics of each check that changed, and by how much. `checks`: check -> changed, of: how
    many metrics; most: the one that changed most; sizes: the least, the median and the largest new
    cost over old. A drift has neither."""
    texts = []
    for name, part in [*checks.items()][:NAMED]:
        count, of, sizes = part["changed"], part["of"], part.get("sizes")
        who = f"{'all' if count == of > 1 else f'{count} of'} {plural(of, 'metric')} of {name}"
        who = part["most"] if sizes and count == 1 else who
        texts.append(f"{who} by {_sizes(*sizes)}" if sizes else who)
    if rest := [part["changed"] for part in checks.values()][NAMED:]:
        texts.append(f"{plural(sum(rest), 'metric')} of {plural(len(rest), 'more check')}")
    return "; ".join(texts)


def _sizes(low: float, middle: float, high: float) -> str:
    """The median of changes of cost, with the least and the largest."""
    factors = (low, middle, high)
    low, middle, high = (f"{x:.3g}" if high >= 2 else f"{abs(x - 1):.0%}" for x in factors)
    text = middle if "%" in middle else f"a factor of {middle}"
    return text + (f" ({low} to {high})" if low != high else "")


def fact(change: Mapping[str, str]) -> str:
    return f"{change['what']}: {change['before']} -> {change['after']}"


def changed_then(
    changes: Sequence[Mapping[str, Any]], candidates: Sequence[Mapping[str, Any]]
) -> str:
    """Returns what of the environment changed with an event, or may have, with its odds."""
    if changes:
        return f"changed then: {'; '.join(map(fact, changes))}"
    if candidates:
        return "perhaps " + " or ".join(f"{fact(c)} ({c['odds']:.0%})" for c in candidates)
    return "nothing recorded changed then"


NOT_RETESTED = {
    "failed": "not retested: the run failed",
    "off": "not retested (--retest 0)",
    "unmeasured": "the retest did not measure it",
    "budget": "not retested: a launch takes {longest}, the budget is {budget} (--retest)",
}


def not_retested(why: str, seconds: float, budget: float) -> str:
    """Why outliers were not retested: `why` and `budget` of their reason, `seconds` of the longest
    launch."""
    return NOT_RETESTED[why].format(longest=duration(seconds), budget=duration(budget))


def longer(jobs: int, ratio: float | None = None, on: str = "it", **_: Any) -> str:
    """How much longer jobs on a slow node took, or on several that are not told apart."""
    more = f"{ratio - 1:.0%} longer" if finite(ratio) else "longer"
    return f"{plural(jobs, 'job')} on {on} took {more} than the others"


def _sides(v: Mapping[str, Any]) -> str:
    words = (v["check"], v["case"], v["layout"], v["method"], v["metric"])
    before, after = (amount(v.get(side), v["unit"]) for side in ("before", "after"))
    return f"{' '.join(filter(None, words))}: {before} -> {after}"


def _control(control: Mapping[str, Any]) -> str:
    return "the clock" if control["metric"] == "clock" else "the control"


class Performance(Topic):
    """Slower and faster metrics, and limitations of a comparison."""

    # ---- a run beside earlier sessions; of one metric: a test's identity, metric, unit, before,
    # after, factor, sessions ----

    # rerun: in the retest; nodes: to which it is bound
    def SLOWER(
        factor: float, sessions: int, rerun: float | None = None, nodes: list = (), **v: Any
    ) -> str:
        rerun = f", {amount(rerun, v['unit'])} in the retest" if rerun else ""
        nodes = f", on {some(nodes, 3)} and not on others" if nodes else ""
        earlier = plural(sessions, "earlier session")
        return f"{_sides(v)}{rerun}; {number(factor)} times slower than in all of {earlier}{nodes}"

    # why: failed, off, budget or unmeasured; seconds: of its launch
    OUTLIER = SLOWER

    def FASTER(metrics: int, **v: Any) -> str:
        metrics = plural(metrics, "metric")
        return f"{metrics} faster than in all earlier sessions, such as {_sides(v)}"

    def BASELINES_MOVED(metrics: int, **v: Any) -> str:
        ratios = plural(metrics, "ratio")
        return f"{ratios} changed because the baseline did, such as {_sides(v)}"

    # control: a launch
    RETEST_SLOWER = (
        "the control {control} was {factor:.2f}x slower during the retest; retest times are "
        "divided by {factor:.2f}"
    )
    RETEST_NOT_ENDED = "the retest did not end"
    RETEST_FAILED = "in the retest, {test}: {cause}"

    def DID_NOT_REPEAT(launches: list, metrics: int, factor: float) -> str:
        metrics = f"{plural(metrics, 'metric')}, up to {number(factor)} times slower"
        who = f"retested {some(launches, 3)}: {metrics} than in all earlier sessions"
        return f"{who}, did not repeat"

    # repeats: usable ones, of all launches; seconds: that they took; metrics: that may have got
    # worse; slower: whether the machine was meanwhile; alarms: how many metrics are one now;
    # still: those that still may be, each with name and errors: standard errors before and after
    def REPEATED(
        launches: int,
        repeats: int,
        seconds: float,
        metrics: int,
        alarms: int,
        still: list,
        slower: bool,
    ) -> str:
        text = f"{plural(metrics, 'metric')} may have got worse lately; "
        text += f"{plural(repeats, 'repeat')} of {plural(launches, 'launch', 'launches')}, "
        text += f"in {duration(seconds)}: "
        if slower or not repeats:
            why = "the machine was slower meanwhile; the history does not use them"
            return text + (why if repeats else "nothing was measured")
        text += f"{plural(alarms, 'alarm')}, "
        text += f"{metrics - alarms - len(still)} as usual, {len(still)} open"
        names = ("{name} {errors[0]:.1f} -> {errors[1]:.1f}".format(**each) for each in still)
        return text + (f" (standard errors: {some([*names], 3)})" if still else "")

    # at: Unix time; first, last: when it may have begun; where: system:partition; worse: how many;
    # checks: of what_changed; changes, candidates: of changed_then; and three commands
    def WORSE_SINCE(session: str, first: float, at: float, last: float, **v: Any) -> str:
        since = f"{nights(first, at, last)} on {v['where']}, session {session[:8]}"
        who, causes = what_changed(v["checks"]), changed_then(v["changes"], v["candidates"])
        return f"worse since {since}: {who}; {causes}"

    # where: system:partition; always: they ran together
    def SLOW_NODE(
        nodes: list, jobs: int, ratio: float | None = None, where: str = "", always: bool = True
    ) -> str:
        where = f" ({where})" if where else ""
        if not nodes[1:]:
            return f"node {nodes[0]}{where}: {longer(jobs, ratio)}"
        apart = "always ran together" if always else "ran together too often to tell"
        who = f"one of {some(nodes, 16)}{where}, which {apart}"
        return f"{who}: {longer(jobs, ratio, 'them')}"

    def CHANGED(what: str, before: str, after: str, since: float) -> str:
        return f"{what}: {before} -> {after}"

    # ---- a metric of a comparison ----

    ABSENT = "in none of the sessions after ({sessions})"
    VANISHED = "not in the last {sessions} sessions after"
    NO_NUMBER = "no number above zero in any session after"
    NOT_BEFORE = "not measured before"
    CONSTANT = "all samples are the same number: nothing to judge by"
    COUNT_VARIES = "a count that differs from run to run"
    COUNT_CHANGED = "{before:.15g} is now {after:.15g}"
    ONE_JOB = "one job per side does not represent the machine"
    FEW_JOBS = "{before} and {after} jobs; {needed} are needed"
    FEW_SESSIONS = "{before} and {after} sessions; {needed} are needed"
    NIGHTS_UNKNOWN = "not surely beyond the {margin:.0%} by which so few nights may differ"
    # gap: a ratio; before, after: fractions of nights in the slower one
    TWO_STATES = (
        "two states, 1.0 and {gap:.2f}: in the slower one {before:.0%} of nights before, "
        "{after:.0%} after"
    )
    INTERVAL_WIDE = "interval includes 0 and the threshold: inconclusive"
    OTHERS_MOVE = "no larger than metrics of the table change by themselves"
    NOT_SIGNIFICANT = "not significant among so many metrics"
    UNDER_MARGIN = "a change, but under the {margin:.0%} that counts"
    TAIL_PREEMPTED = "but other processes took the cores in {fraction:.0%} of the samples"
    TAIL_OF_ONE_SESSION = "but the slowest percent is judged between sessions only"
    MOVES_BY_ITSELF = "but it moves by itself: the A/A run"
    # what: unit, geometry, direction or work
    UNLIKE = "not to be compared, by its {what}: {values}"
    JOBS_FAILED = "{count} of {of} jobs after failed: {cause}"
    JOBS_UNUSABLE = "{count} of {of} jobs after could not be used: {cause}"

    # kernel: all, if there is none; controls: moved or still
    def SHARED(
        place: str, change: dict, metrics: int, of: int, kernel: str = "", controls: str = ""
    ) -> str:
        count = f"all {of}" if metrics == of else f"{metrics} of {of}"
        ends = {"moved": ", and so are the cores alone", "still": "; the cores alone are as before"}
        who = f"{count} metrics{f' of {kernel}' if kernel else ''} on {place}"
        return f"{who} are together {shift(change)}{ends.get(controls, '')}"

    def CORES_MOVED_ONLY(control: dict) -> str:
        return f"unchanged, but the CPU-only control shifted: {_control(control)} {shift(control)}"

    def CORES_MOVED_TOO(control: dict) -> str:
        return f"but the CPU-only control shifted too: {_control(control)} {shift(control)}"

    # time: the change of the time itself
    def BASELINE_MOVED(time: dict) -> str:
        return f"by what it is compared with: the time itself is {shift(time)}"

    # ---- a comparison as a whole ----

    AA_DIFFERS = "the A/A run: {metrics} metrics differ, though nothing was changed"
    SESSIONS_ONLY = (
        "too few sessions: these verdicts ignore night-to-night variation. For the machine, "
        "compare {needed} sessions per side or more"
    )
    SIDES_SWAPPED = "AFTER is older than BEFORE"
    NO_AA = (
        "no A/A comparison: run the same again with nothing changed, and name it by --aa, to see "
        "what the machine does by itself"
    )
    NO_CONTROL = (
        "no control: nothing on both sides measures the cores alone, so a slower clock cannot be "
        "told from a slower network (--control names one)"
    )
    # rho: correlation of nights; nights: per side; worth: independent ones
    NIGHTS_ALIKE = (
        "nights are not independent: each resembles the one before (correlation {rho:.1f}), "
        "{nights} nights count as {worth:.0f}"
    )
    STATES_SEEN = "{metrics} metrics have two states, for example {test}: {states}"
    EXCLUDED = "excluded sessions left out: {sessions}"
    OF_OTHER_KINDS = "sessions of another tier or selection, or tagged, left out: {sessions}"
    AHEAD = "sessions of the future left out: {sessions}; the clock was ahead"
    SAME_NIGHT = "sessions with the same values, of which the first counts: {sessions}"
    AA_LEFT_OUT = "{metrics} metrics moved by themselves, and are not judged: the A/A run"

    # hosts: with the slowest clocks
    def CORES_DRIFTED(place: str, control: dict, hosts: list = ()) -> str:
        by = f"({control['test']}), which does not communicate, is {shift(control)}"
        slowest = f"; the slowest is {some(hosts, 3)}" if hosts else ""
        return f"CPU speed of {place} changed: {_control(control)} {by}{slowest}"

    def NO_MACHINE_VERDICT(before: int, after: int, needed: int) -> str:
        lacks = f"no verdict on the machine, which needs {needed} per side"
        option = f"bisection run --reruns={needed - 1} gives one on two sessions"
        return f"{before} against {after} sessions give {lacks}; {option}"

    # change: of unit or geometry
    def HISTORY_ENDS(at: float, metrics: int, example: str, change: str = "") -> str:
        which = f"{example}{' and others' if metrics > 1 else ''}{f': {change}' if change else ''}"
        return f"{plural(metrics, 'metric')} not measured since {utc(at)[:10]}, {which}"

    # nights: per side; needed: nights for the finer effect
    def POWER(nights: list, effect: float, finer: float, needed: int | None = None) -> str:
        sides = f"with {nights[0]} and {nights[1]} nights"
        more = f"; {needed} nights per side see {finer:.0%}" if needed else ""
        return f"{sides}, a change of one metric is seen from {effect:.0%} on{more}"

    # ---- whether a network explains a speed-up ----

    FRACTION_UNKNOWN = "no communication fraction is known"
    NOT_THE_NETWORK = "not by the network: only {fraction:.1%} of the time was communication"
    NETWORK_FASTER = "fits a network {factor:.3g} times as fast, with {fraction:.0%} communication"
    NETWORK_SLOWER = "fits a network {factor:.3g} times slower, with {fraction:.0%} communication"
    NOT_THE_NETWORK_ALONE = (
        "not by the network alone: with {fraction:.0%} communication no network gives more than "
        "{most:.2f}"
    )
