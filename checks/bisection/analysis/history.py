"""`bisection history`: where the level of a metric changed over the stored sessions, and with what.

Change points are found by ruptures (PELT on the mean), on logarithms from which single nights that
stand out were taken, in units of the noise from night to night.
"""

import itertools
import math
import warnings
from collections import Counter, defaultdict

import numpy as np

from bisection.analysis.model import ChangePoint, Series, differences
from bisection.analysis.statistics import MARGIN
from bisection.core.format import plural, utc
from bisection.core.verdicts import CONTEXT, COUNTED, IMPROVED, REGRESSED

LEAST = 4  # sessions on a level
RECENT = 14  # sessions since a change that is still told first
PENALTY = 6  # times the logarithm of the number of sessions
WINDOW = 5  # sessions on either side that an outlier is told from


def despiked(logs):
    """The series with values far from the median of their neighbours set to it (Hampel)."""
    padded = np.pad(logs, WINDOW, mode="reflect") if len(logs) > WINDOW else None
    if padded is None:
        return logs
    around = np.lib.stride_tricks.sliding_window_view(padded, 2 * WINDOW + 1)
    middle = np.median(around, axis=1)
    noise = 1.4826 * np.median(np.abs(around - middle[:, None]), axis=1)
    return np.where(np.abs(logs - middle) > 3 * noise + 1e-12, middle, logs)


def change_points(values):
    """Indices at which a new level begins, of positive values in order of time."""
    import ruptures

    logs = np.log(values)
    if len(logs) < 2 * LEAST:
        return []
    clean = despiked(logs)
    steps = np.diff(logs)
    noise = 1.4826 * np.median(np.abs(steps - np.median(steps))) / math.sqrt(2)
    if noise == 0:
        noise = max(np.std(clean), 1e-12)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search = ruptures.KernelCPD(kernel="linear", min_size=LEAST).fit(clean / noise)
        found = search.predict(pen=PENALTY * math.log(len(logs)))[:-1]
    return _refined(logs, _that_count(clean, found))


def _refined(logs, found):
    """Change points moved by up to a few sessions to where both levels fit best by the sum of
    distances, which outliers near the step do not pull."""
    ends = [0, *found, len(logs)]
    for index in range(1, len(ends) - 1):
        left, middle, right = ends[index - 1 : index + 2]
        sides = np.median(logs[left:middle]), np.median(logs[middle:right])
        nearer = np.abs(logs - sides[0]) - np.abs(logs - sides[1])
        places = range(max(left + 2, middle - 2), min(right - 1, middle + 3))
        ends[index] = max(places, key=lambda i: nearer[i:right].sum() - nearer[left:i].sum())
    return ends[1:-1]


def _that_count(logs, found):
    """Change points without those between levels nearer than the margin, nearest first."""
    found = list(found)
    while found:
        ends = [0, *found, len(logs)]
        levels = [np.median(logs[a:b]) for a, b in itertools.pairwise(ends)]
        sizes = [abs(b - a) for a, b in itertools.pairwise(levels)]
        least = int(np.argmin(sizes))
        if sizes[least] >= math.log1p(MARGIN):
            break
        del found[least]
    return found


def histories(store, sessions, name=None, left_out=(*CONTEXT, *COUNTED)):
    """Every metric's history in these sessions, as [(Test, Metric, indices of sessions, values)],
    a session by the median of its jobs; not of metrics with the units `left_out`."""
    tests, metrics = store.tests(), store.metrics()
    order = {session.id: index for index, session in enumerate(sessions)}
    whole = len(sessions) == store.count()
    rows = store.samples(None if whole else sessions)
    rows = rows[np.isin(rows["session"], list(order))]  # another run may have stored one meanwhile
    wanted = [
        number
        for number, test in tests.items()
        if not test.pair and (not name or name.search(" ".join(test.identity[3:])))
    ]
    context = [n for n, metric in metrics.items() if metric.unit in left_out]
    keep = (rows["value"] > 0) & np.isin(rows["test"], wanted) & ~np.isin(rows["metric"], context)
    unmeasured = store.unmeasured()
    if unmeasured:
        runs = np.array(sorted(unmeasured))
        keep &= ~np.isin(
            _run_numbers(rows["session"], rows["test"], rows["run"]), _run_numbers(*runs.T)
        )
    rows = rows[keep]
    if not len(rows):
        return []
    place = np.zeros(max(order) + 1, int)
    place[list(order)] = list(order.values())
    when_run = place[rows["session"]]
    rows = rows[by := np.lexsort((when_run, rows["metric"], rows["test"]))]
    when_run = when_run[by]
    turns = np.flatnonzero(np.diff(rows["test"]) | np.diff(rows["metric"])) + 1
    found = []
    for part, indices in zip(np.split(rows, turns), np.split(when_run, turns), strict=True):
        about, what = tests[int(part["test"][0])], metrics[int(part["metric"][0])]
        found.append((about, what, *_by_session(indices, part["value"])))
    return found


def _run_numbers(session, test, run):
    """One number for each job."""
    return (session.astype(np.int64) << 42) + (test.astype(np.int64) << 20) + run


def _by_session(indices, values):
    starts = np.flatnonzero(np.diff(indices, prepend=-1))
    if len(starts) == len(indices):
        return indices, values.copy()
    return indices[starts], np.array([np.median(v) for v in np.split(values, starts[1:])])


def changes_of(found, sessions):
    """The ChangePoints of histories, and the Series to draw: those that changed, all of them."""
    points, series = [], []
    measured = defaultdict(lambda: np.zeros(len(sessions), bool))  # where -> in which sessions
    for test, metric, indices, values in found:
        measured[test.system, test.partition][indices] = True
        at = change_points(values)
        if at:
            series.append(series_of(test, metric, indices, values, sessions, at))
            ends = [0, *at, len(values)]
            for left, middle, right in zip(ends, ends[1:], ends[2:], strict=False):
                points.append(_point(test, metric, indices, values, sessions, left, middle, right))
    for place, when_measured in measured.items():
        here = [sessions[i] for i in np.flatnonzero(when_measured)]
        _agree([p for p in points if (p.system, p.partition) == place], here)
    return points, series


def series_of(test, metric, indices, values, sessions, at=()):
    return Series(
        *test.identity,
        *metric,
        times=[sessions[i].start for i in indices],
        values=values.tolist(),
        points=list(at),
    )


def _point(test, metric, indices, values, sessions, left, middle, right):
    ratio = float(np.median(values[middle:right]) / np.median(values[left:middle]))
    worse = (ratio > 1) == (metric.better == "lower")
    first = sessions[indices[middle]]
    return ChangePoint(
        *test.identity,
        *metric,
        session=first.uuid,
        at=first.start,
        ratio=ratio,
        before=middle - left,
        after=right - middle,
        verdict=REGRESSED if worse else IMPROVED,
        changes=[],
    )


def _agree(points, sessions):
    """Metrics of a partition that change together did so in one of its sessions: of those within
    two of it, most say which. What differs there from the one before is told with each."""
    order = {session.uuid: index for index, session in enumerate(sessions)}
    votes = Counter(order[point.session] for point in points)
    for point in points:
        here = order[point.session]
        near = [i for i in range(here - 2, here + 3) if i in votes]
        best = max(near, key=lambda i: (votes[i], -abs(i - here)))
        point.session, point.at = sessions[best].uuid, sessions[best].start
        point.changes = differences(sessions[best - 1], sessions[best]) if best else []


def recent(points):
    """A line for each session since when metrics are worse, if that is not long ago."""
    found = [p for p in points if p.verdict == REGRESSED and p.after <= RECENT]
    sessions = {}
    for point in sorted(found, key=lambda p: p.at):
        sessions.setdefault((point.session, point.at), []).append(point)
    return [
        f"worse since {utc(at)}, session {uuid[:8]}: {plural(len(members), 'metric')}, by "
        f"x{float(np.median([max(p.ratio, 1 / p.ratio) for p in members])):.3g} in the median"
        for (uuid, at), members in sessions.items()
    ]
