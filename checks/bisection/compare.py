"""`bisection compare BEFORE AFTER`: what is slower, faster, the same, gone or new, and how sure."""

import argparse
import json
import math
import re
import shlex
import sys
from collections import defaultdict
from pathlib import Path
from statistics import median  # of few values much faster than NumPy's

import numpy as np

from bisection import verdict as verdicts
from bisection.comparison import (
    BELOW,
    CONTEXT,
    COUNTED,
    IMPROVED,
    INCONCLUSIVE,
    MACHINE,
    MISSING,
    NEW,
    NOT_MEASURED,
    POINT,
    REGRESSED,
    SESSIONS,
    UNCHANGED,
    VERDICTS,
    Comparison,
    Row,
    Side,
)
from bisection.history import difference
from bisection.nodes import suspects
from bisection.phrases import advice, change, sentence, text
from bisection.selection import HELP, SelectionError, kind_of, select
from bisection.spack import home
from bisection.stats import (
    CONFIDENCE,
    FALSE_DISCOVERIES,
    FEWEST,
    MARGIN,
    NOISE_MARGIN,
    chance,
    controlled,
    judge,
    margins,
    shift,
    spread,
)
from bisection.store import StoreError, opened, unusable
from bisection.upgrade import set_against

SUSPECTS = "suspect"
EXIT = {**dict.fromkeys((*VERDICTS, SUSPECTS), 3), REGRESSED: 1, BELOW: 1}
FAIL_ON = (REGRESSED, MISSING, NOT_MEASURED)
USAGE = 2
GONE = 3  # sessions without a test that had it before
SUSPECT = 4  # standard deviations from what earlier sessions showed
HUGE = 700  # a logarithm whose exponential is still a number


# ---- samples to rows ----


class Measured:
    """The samples of one side: (identity, metric name) -> what was measured of it."""

    def __init__(self, store, sessions):
        self.sessions, self.software = sessions, _software(sessions)
        self.order = {session.id: index for index, session in enumerate(sessions)}
        tests, metrics = store.tests(), store.metrics()
        self.outcomes = defaultdict(list)  # identity -> outcomes
        unmeasured = set()
        for outcome in store.outcomes(sessions):
            self.outcomes[tests[outcome.test].identity].append(outcome)
            if unusable(outcome):
                unmeasured.add((outcome.session, outcome.test, outcome.run))
        self.found = defaultdict(list)  # key -> (session, run, value)
        self.kinds = defaultdict(set)  # key -> (geometry, unit, better, control)
        self.elsewhere = set()  # identities of tests with numbers that are not compared
        for session, test, metric, run, value in store.samples(sessions).tolist():
            about, what = tests[test], metrics[metric]
            usable = value == value and (session, test, run) not in unmeasured
            if usable and what.unit in CONTEXT:
                self.elsewhere.add(about.identity)
            if POINT.sub("", what.name) == f"ratio_{about.method}":  # to itself
                continue
            key = (*about.identity, what.name)
            self.kinds[key].add((about.geometry, what.unit, what.better, about.control))
            if (session, test, run) not in unmeasured or what.unit in COUNTED:
                self.found[key].append((session, run, value))

    def gone(self, identity):
        """In how many of the newest sessions of its kind a test is not, if those are enough to say
        that it is gone; else 0."""
        last = max(self.order[outcome.session] for outcome in self.outcomes[identity])
        same = kind_of(self.sessions[last])
        since = sum(kind_of(session) == same for session in self.sessions[last + 1 :])
        return since if since >= GONE else 0

    def side(self, key):
        """(Side, jobs) of one metric; jobs are session -> list of usable values."""
        jobs = defaultdict(list)
        unit = next(iter(self.kinds[key]))[1] if key in self.kinds else ""
        for session, _, value in self.found.get(key, ()):
            if value == value and (value > 0 or unit in COUNTED):
                jobs[session].append(value)
        outcomes = self.outcomes.get(key[:-1], ())
        values = [median(found) for found in jobs.values()]
        return Side(
            sessions=len(jobs),
            jobs=sum(map(len, jobs.values())),
            median=float(median(values)) if values else None,
            geometry=" | ".join(sorted({kind[0] for kind in self.kinds.get(key, ())})),
            hosts=sorted({host for outcome in outcomes for host in outcome.hosts}),
            software=self.software,
            disturbed=float(np.mean([o.disturbed for o in outcomes])) if outcomes else 0.0,
        ), jobs


def _software(sessions):
    """MPI, compiler and lock of the sessions, where they differ every one."""
    texts = {}
    for session in sessions:
        names = (session.facts.get("MPI"), session.facts.get("compiler"))
        lock = session.facts.get("lock")
        texts[", ".join(filter(None, [*names, lock and f"lock {lock[:8]}"]))] = None
    return " | ".join(filter(None, texts))


def rows_of(before, after, name=None):
    """All rows of the outer join whose test `name` (a pattern) finds, and their samples: (rows,
    [(jobs before, jobs after)])."""
    rows, samples = [], []
    for key in dict.fromkeys([*before.kinds, *after.kinds, *_without_metrics(before, after)]):
        if name and not name.search(" ".join(key[3:7])):
            continue
        kinds = before.kinds.get(key, set()) | after.kinds.get(key, set())
        units = {kind[1] for kind in kinds}
        if units and units <= set(CONTEXT):
            continue
        (left, was), (right, now) = before.side(key), after.side(key)
        kind = min(kinds, default=("", "", "lower", False))
        row = Row(*key, kind[1], kind[2], kind[3], before=left, after=right)
        row.verdict, row.why = _at_once(row, kinds, before, after)
        row.communication = _communication(before, key)
        rows.append(row)
        samples.append((was, now))
    return rows, samples


def _without_metrics(before, after):
    """Tests that have outcomes on a side and no metric to compare on any, nor another number after:
    a row each, so that none vanishes."""
    known = {
        key[:-1]
        for side in (before, after)
        for key, kinds in side.kinds.items()
        if {unit for _, unit, *_ in kinds} - set(CONTEXT)
    }
    known |= after.elsewhere
    return [(*key, "") for side in (before, after) for key in side.outcomes if key not in known]


def _at_once(row, kinds, before, after):
    """(verdict, why) where numbers need not be looked at; ("", "") where they must."""
    here, there = after.outcomes.get(row.identity), before.outcomes.get(row.identity)
    if not here:
        return MISSING, f"in none of the {len(after.sessions)} sessions after"
    if since := after.gone(row.identity):
        return MISSING, f"not in the last {since} sessions after"
    if row.after.median is None:
        causes = [unusable(o) or o.cause for o in here]
        causes = [cause for cause in causes if cause]
        return NOT_MEASURED, causes[-1] if causes else "no number above zero in any session after"
    if not there or row.before.median is None:
        return NEW, "" if not there else "not measured before"
    for index, what in ((1, "unit"), (0, "geometry"), (2, "direction")):
        if len({kind[index] for kind in kinds}) > 1:
            texts = " and ".join(sorted({str(kind[index]) for kind in kinds}))
            return NOT_MEASURED, f"not to be compared: its {what} is {texts}"
    return "", ""


def _communication(before, key):
    """The share of the metric's time that is communication, in the median; None if unknown."""
    name, point = key[-1].partition("_")[::2] if key[-1].startswith("time_") else (key[-1], "")
    if not (name == "time" or key[-1] == "atom_steps"):
        return None
    shares = [f"mpi_share_{point}"] if point else ["mpi_share", "communication_share"]
    for share in shares:
        values = [v for _, _, v in before.found.get((*key[:-1], share), ()) if v == v]
        if values:
            return float(np.median(values))
    return None


# ---- judging ----


def judge_rows(rows, samples):
    """Gives verdicts to the rows that have none yet, all of one table."""
    groups = defaultdict(list)
    for index, row in enumerate(rows):
        if row.verdict:
            continue
        if row.unit in COUNTED:
            _count(row, *samples[index])
            continue
        units, row.scope = _units(*samples[index])
        groups[len(units[0]), len(units[1])].append((index, units))
    open_rows, chances, found, constant = [], [], [], []
    for members in groups.values():
        sign = np.array([1 if rows[i].better == "lower" else -1 for i, _ in members])
        before, after = (np.log([units[side] for _, units in members]) for side in (0, 1))
        costs = [sign[:, None] * side for side in (before, after)]
        estimate, low, high = shift(*costs)
        sigma = spread(*costs)
        chances.append(chance(*costs))
        found.append((estimate, low, high, margins(sigma)))
        open_rows += [rows[i] for i, _ in members]
        constant += np.any([np.ptp(side, axis=1) < 1e-12 for side in costs], axis=0).tolist()
        for (i, _), side_before, side_after in zip(
            members, spread(before), spread(after), strict=True
        ):
            rows[i].before.spread, rows[i].after.spread = float(side_before), float(side_after)
    if not open_rows:
        return
    p = controlled(np.concatenate(chances))
    estimate, low, high, margin = (np.concatenate(part) for part in zip(*found, strict=True))
    names = judge(estimate, low, high, p, margin)
    for i, row in enumerate(open_rows):
        _conclude(row, names[i], (estimate[i], low[i], high[i]), float(p[i]), float(margin[i]))
        if row.verdict == UNCHANGED and constant[i]:
            row.verdict = INCONCLUSIVE
            row.why = "all samples are the same number: nothing to judge by"
        leave_tail(row)


def _count(row, was, now):
    """Counts are the same in every run: told apart without statistics."""
    left, right = ({v for values in jobs.values() for v in values} for jobs in (was, now))
    if len(left) > 1 or len(right) > 1:
        row.verdict, row.why = INCONCLUSIVE, "a count that differs from run to run"
        return
    (old,), (new,) = left, right
    row.scope, row.ratio = MACHINE, new / old if old and new else None
    row.low = row.high = row.ratio
    worse = new > old if row.better == "lower" else new < old
    row.verdict = UNCHANGED if new == old else REGRESSED if worse else IMPROVED
    row.why = "" if new == old else f"{old:.15g} is now {new:.15g}"


def _units(was, now):
    """The samples of both sides, and what a verdict on them is about: sessions, each by the median
    of its jobs; jobs, which vary less than nights do, where both sides have few sessions."""
    sides = [np.array([median(values) for values in jobs.values()]) for jobs in (was, now)]
    if max(map(len, sides)) < FEWEST:
        jobs = [np.array([v for values in side.values() for v in values]) for side in (was, now)]
        if min(map(len, jobs)) >= FEWEST:
            return jobs, SESSIONS
    return sides, MACHINE


def _conclude(row, name, cost, p, margin):
    sign = 1 if row.better == "lower" else -1
    values = [math.exp(min(max(sign * part, -HUGE), HUGE)) for part in cost]
    row.ratio, row.low, row.high = values[0], *sorted(values[1:])
    row.p, row.verdict = p, name
    few = min(row.before.sessions, row.after.sessions)
    if row.scope == MACHINE and few < FEWEST:
        row.scope, row.verdict = "", INCONCLUSIVE
        row.low = row.high = None
        row.why = "one job a side says nothing of the machine"
        if max(row.before.sessions, row.after.sessions) > 1:
            row.why = (
                f"{row.before.sessions} and {row.after.sessions} sessions; {FEWEST} are needed"
            )
        elif max(row.before.jobs, row.after.jobs) > 1:
            row.why = f"{row.before.jobs} and {row.after.jobs} jobs; {FEWEST} are needed"
        _compare_with_past(row, cost[0], margin)
    elif row.verdict == INCONCLUSIVE:
        _, low, high = cost
        if p > FALSE_DISCOVERIES or low <= 0 <= high:
            row.why = "the interval holds both no effect and one that counts"
            if low > 0 or high < 0:
                row.why = "not sure enough among so many metrics"
        else:
            row.why = f"an effect, but under the {math.expm1(margin):.0%} that counts"


def _compare_with_past(row, cost, margin):
    """One night cannot be judged by itself; that it is unlike all before is told."""
    enough = row.before.sessions >= 8 and row.after.sessions >= 1
    if enough and abs(cost) > max(margin, SUSPECT * row.before.spread):
        row.suspect = True
        row.why += f"; but outside of what {row.before.sessions} earlier ones showed"


# ---- the control, and the A/A run ----


def withhold(rows, named=None):
    """Takes back verdicts on times that a drift of the cores alone would explain: as the controls
    of the same launch saw it, or of the partition where the launch has none, or those that the
    pattern `named` names. Returns what the controls did, "" if nothing."""
    moved, watched = {}, set()
    for row in rows:
        if not row.control or row.low is None or row.p is None:
            continue
        place, launch = _place(row), row.identity[:-1]
        if named and named.search(f"{row.test} {row.metric}"):
            launch = (*place, "named")
        watched.add(launch)
        sure = row.p <= FALSE_DISCOVERIES and (row.low > 1 or row.high < 1)
        if sure and _size(row) > MARGIN / 2:
            for where in (place, launch):
                moved[where] = max(moved.get(where, row), row, key=_size)
    for row in rows:
        place, launch = _place(row), row.identity[:-1]
        controls = [moved.get(launch if launch in watched else place)]
        controls = list(filter(None, [*controls, moved.get((*place, "named"))]))
        sure = row.verdict in (REGRESSED, IMPROVED, UNCHANGED)
        if controls and row.absolute and sure and not row.control:
            _withhold(row, max(controls, key=_size))
    return "; ".join(
        f"the cores of {':'.join(place)} are not as they were: {_named(row)} "
        f"({row.test}), which does not communicate, is {change(row)}"
        for place, row in moved.items()
        if len(place) == 2
    )


def _place(row):
    return row.system, row.partition


def _size(row):
    return abs(math.log(row.ratio))


def _named(row):
    return "the clock" if row.metric == "clock" else "the control"


def _withhold(row, control):
    (low, high), (least, most) = row.costs, control.costs
    if row.verdict == UNCHANGED:
        if _size(control) >= math.log1p(MARGIN):
            row.verdict = INCONCLUSIVE
            row.why = f"as before, but the cores alone are not: {_named(control)} {change(control)}"
        return
    beyond = low > most if row.verdict == REGRESSED else high < least
    if not beyond:
        row.verdict = INCONCLUSIVE
        row.why = f"{change(row)}, but so are the cores alone: {_named(control)} {change(control)}"


def leave_tail(row):
    """Takes back a verdict on the slowest percent of samples where it may be others' doing: more
    samples than these were disturbed, or there is one session a side and neighbours come and go."""
    share = max(row.before.disturbed, row.after.disturbed)
    if not row.metric.startswith("time_p99") or row.verdict not in (REGRESSED, IMPROVED):
        return
    if share > 0.01:
        row.why = f"{change(row)}, but other processes took the cores in {share:.0%} of the samples"
    elif row.scope == SESSIONS:
        row.why = f"{change(row)}, but the slowest percent is judged between sessions only"
    else:
        return
    row.verdict = INCONCLUSIVE


def look_below(rows):
    """Takes back verdicts on ratios to another method where it is that one that changed."""
    times = {row.key: row for row in rows if row.absolute and row.low is not None}
    for row in rows:
        if row.unit != "ratio" or row.verdict not in (REGRESSED, IMPROVED):
            continue
        point = POINT.search(row.metric)
        own = times.get((*row.identity, f"time{point[0] if point else ''}"))
        if not own:
            continue
        # Where nights vary more than the ratio changed, the time itself does not tell.
        (low, high), (least, most) = own.costs, row.costs
        apart = high < least if row.verdict == REGRESSED else low > most
        if apart and math.log(own.worse) / math.log(row.worse) < 0.5:
            row.verdict = INCONCLUSIVE
            row.why = (
                f"{change(row)}, by what it is compared with: the time itself is {change(own)}"
            )


def own_noise(store, before, aa, name=None):
    """What an A/A comparison calls changed, and what it was made of: (key -> by how much at most,
    words); words are "" if none could be made."""
    if aa:
        sides, words = (before, aa), "the A/A run"
    elif len(before) >= 2 * FEWEST:
        sides, words = (before[::2], before[1::2]), "the sessions before, odd against even"
    else:
        return {}, ""
    rows, samples = rows_of(*(Measured(store, side) for side in sides), name)
    judge_rows(rows, samples)
    moved = [r for r in rows if r.verdict in (REGRESSED, IMPROVED) and r.costs]
    return {r.key: max(r.costs[1], 1 / r.costs[0]) for r in moved}, words


def _moves_by_itself(row, most):
    """Whether what was changed does no more than what an A/A comparison saw without a change."""
    low, high = row.costs or (1, 1)
    return low <= most if row.verdict == REGRESSED else high >= 1 / most


def count_failures(rows, after):
    """Nothing is unchanged, or better, where jobs failed, or where most could not be used."""
    for row in rows:
        if row.unit in COUNTED or row.verdict not in (UNCHANGED, IMPROVED, INCONCLUSIVE, NEW):
            continue
        outcomes = after.outcomes.get(row.identity, ())
        used = {(s, run) for s, run, value in after.found.get(row.key, ()) if value == value}
        failed = [o for o in outcomes if o.verdict == verdicts.FAIL]
        failed = [o for o in failed if (o.session, o.run) not in used]
        lost = [o for o in outcomes if unusable(o)]
        bad, word = (failed, "failed") if failed else (lost, "could not be used")
        if failed or len(lost) > len(outcomes) / 2:
            row.verdict = NOT_MEASURED
            cause = bad[-1].cause or unusable(bad[-1])
            row.why = f"{len(bad)} of {len(outcomes)} jobs after {word}: {cause}"


# ---- the whole ----


def compare(store, before, after, expected=None, aa=(), control=None, name=None, fail_on=FAIL_ON):
    """The Comparison of two lists of stored sessions."""
    measured = [Measured(store, side) for side in (before, after)]
    rows, samples = rows_of(*measured, name)
    for row in rows:
        row.control = row.control or bool(control and control.search(f"{row.test} {row.metric}"))
    judge_rows(rows, samples)
    noisy, words = own_noise(store, before, aa, name)
    for row in rows:
        changed = row.key in noisy and row.verdict in (REGRESSED, IMPROVED)
        if changed and _moves_by_itself(row, noisy[row.key]):
            row.why = f"{change(row)}, but it moves by itself: {words}"
            row.verdict = INCONCLUSIVE
    drift = withhold(rows, control) if expected is None else ""
    if not drift:
        look_below(rows)
    count_failures(rows, measured[1])
    if expected is not None:
        set_against(rows, expected)
    rows.sort(key=_order)
    unsafe = [drift] if drift else []
    if len(noisy) > FALSE_DISCOVERIES * len(rows):
        unsafe.append(f"{words}: {len(noisy)} metrics differ, though nothing was changed")
    result = Comparison(
        before=[_about(session) for session in before],
        after=[_about(session) for session in after],
        rows=rows,
        again=[_about(session) for session in aa],
        unsafe="; ".join(unsafe),
        changes=changes(before, after),
        suspects=suspects(store, after, rows),
        expected=expected,
        settings={
            "confidence": CONFIDENCE,
            "margin": MARGIN,
            "noise margin": NOISE_MARGIN,
            "false discoveries": FALSE_DISCOVERIES,
            "fewest samples": FEWEST,
        },
    )
    result.rerun = rerun(result)
    result.advice = advice(result, words)
    if noisy:
        result.advice.append(
            f"{len(noisy)} metrics moved by themselves, and are not judged: {words}"
        )
    result.sentence = sentence(result)
    failing = [EXIT[v] for v in fail_on if result.count(v)]
    if BELOW in fail_on and any(row.against == BELOW for row in rows):
        failing.append(EXIT[BELOW])
    if SUSPECTS in fail_on and any(row.suspect for row in rows):
        failing.append(EXIT[SUSPECTS])
    judged = any(row.verdict in (REGRESSED, IMPROVED, UNCHANGED) for row in rows)
    if fail_on and (result.unsafe or not judged):
        failing.append(EXIT[NOT_MEASURED])
    result.exit_code = min(failing, default=0)
    return result


def _order(row):
    size = -_size(row) if row.ratio else 0
    return (VERDICTS.index(row.verdict), not row.suspect, size, row.test, row.metric)


def rerun(result):
    """The command that measures again what got worse or was not measured; "" if nothing was."""
    bad = [row for row in result.rows if row.verdict in FAIL_ON or row.suspect]
    bad = [row for row in bad if row.system and not row.control]  # what was run here
    if not bad:
        return ""
    here = [row for row in bad if (row.system, row.environ) == (bad[0].system, bad[0].environ)]
    names = list(dict.fromkeys(map(_pattern, here)))
    if len(names) > 4:
        names = [f"^({'|'.join(dict.fromkeys(row.check for row in here))})"]
    tags = result.after[-1]["tags"]
    words = ["bisection", "run", "--tier", tags.get("tier", "nightly")]
    words += ["--system", bad[0].system] if bad[0].system != "generic" else []
    words += ["-p", bad[0].environ] if bad[0].environ != "system" else []
    words += [word for name in names for word in ("-n", name)]
    return shlex.join([*words, f"--reruns={FEWEST - 1}"])


def _pattern(row):
    """What selects the row's test, and the others of its launch, for ReFrame."""
    layout = f"layout={row.layout}" if row.layout else ""
    case = f"launch.case={row.case}$" if row.case else ""
    return f"^{row.check}" + "".join(f"%.*{part}" for part in (layout, case) if part)


def _about(session):
    return {"uuid": session.uuid, "start": session.start, "tags": session.tags}


def changes(before, after):
    """What is recorded of the sessions and is not the same on both sides."""
    names = dict.fromkeys(name for side in (before, after) for s in side for name in s.facts)
    found = []
    for name in names:
        old, new = (
            list(dict.fromkeys(s.facts[name] for s in side if s.facts.get(name)))
            for side in (before, after)
        )
        if set(old) != set(new):
            found.append(difference(name, old, new))
    return found


# ---- bisection compare ----


def add_commands(commands):
    command = commands.add_parser(
        "compare",
        help="compare two groups of stored sessions",
        description="Compares stored sessions, a group before and a group after a change. A group "
        f"is: {HELP}; several with commas between. Exit code: 0 nothing that --fail-on names, 1 "
        "something regressed (or is below the expected ratio), 2 usage, 3 something is missing, "
        "was not measured, or whatever else --fail-on names, or no metric could be judged, or the "
        "cores themselves changed.",
    )
    command.add_argument("before", metavar="BEFORE")
    command.add_argument("after", metavar="AFTER")
    add_options(command)
    command.add_argument("--json", metavar="FILE", help="write all of it there")
    command.set_defaults(act=act)


def add_options(command):
    """What `compare` and `report` have in common."""
    command.add_argument(
        "--expected-ratio",
        type=_ratio,
        metavar="R",
        help="an upgrade that should speed up everything R times, by its clock say: each is told "
        "to be above, at or below",
    )
    command.add_argument("--aa", metavar="SESSIONS", help="the same as BEFORE, nothing changed")
    command.add_argument(
        "--control", metavar="REGEX", type=_regex, help="further tests that measure the cores alone"
    )
    command.add_argument("-n", "--name", metavar="REGEX", type=_regex, help="these tests only")
    command.add_argument(
        "--fail-on",
        metavar="VERDICTS",
        type=_verdicts,
        default=FAIL_ON,
        help=f"of {', '.join((*EXIT, 'nothing'))}; default: {','.join(FAIL_ON)}",
    )


def _ratio(text):
    value = float(text)
    if not (math.isfinite(value) and value > 0):
        raise ValueError
    return value


_ratio.__name__ = "ratio above zero"  # argparse names the type in its message


def _regex(text):
    try:
        return re.compile(text)
    except re.error as error:
        raise ValueError from error


_regex.__name__ = "regular expression"


def _verdicts(text):
    names = [word.strip().replace("-", " ") for word in text.split(",") if word.strip()]
    if names == ["nothing"]:
        return ()
    if not names or set(names) - set(EXIT):
        allowed = ", ".join((*EXIT, "nothing"))
        raise argparse.ArgumentTypeError(f"{text!r}: allowed are {allowed}")
    return tuple(names)


def act(options):
    try:
        with opened(home()) as store:
            result, _ = compared(store, options)
    except (SelectionError, StoreError) as error:
        print(f"bisection compare: error: {error}", file=sys.stderr)
        return USAGE
    print("\n".join(text(result)))
    try:
        if options.json:
            Path(options.json).write_text(json.dumps(result.as_dict(), indent=1) + "\n")
    except OSError as error:
        print(f"bisection compare: error: {options.json}: {error.strerror}", file=sys.stderr)
        return USAGE
    return result.exit_code


def compared(store, options):
    """The Comparison that the command line asks for, and the two lists of sessions."""
    before, after = options.before, options.after
    later = [] if after.startswith("earlier") else select(after, store)
    sooner = select(before, store, later)
    later = later or select(after, store, sooner)
    same = select(options.aa, store, sooner) if options.aa else ()
    _apart((before, sooner), (after, later))
    _apart((before, sooner), (options.aa, same))
    _apart((after, later), (options.aa, same))
    result = compare(
        store,
        sooner,
        later,
        expected=options.expected_ratio,
        aa=same,
        control=options.control,
        name=options.name,
        fail_on=options.fail_on,
    )
    return result, (sooner, later)


def _apart(one, other):
    """No session may be on two sides: it would be compared with itself."""
    both = {session.uuid for session in one[1]} & {session.uuid for session in other[1]}
    if both:
        raise SelectionError(f"{one[0]!r} and {other[0]!r} both have session {min(both)}")
