"""Where the level of a metric changed over the stored sessions.

Change points are found by ruptures (PELT on the mean; Killick et al. 2012), on logarithms without
single nights that stand out, in units of the noise from night to night.
"""

import itertools
import math
import re
import warnings
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence

import numpy as np
import ruptures

from bisection.analysis.model import ChangePoint, Series, changes
from bisection.analysis.statistics import normal_mad
from bisection.core.identity import CONTEXT, COUNTED
from bisection.core.thresholds import LIMITS
from bisection.core.verdicts import Verdict
from bisection.store.database import Metric, Session, Store, StoredTest, works_of

# A metric's history: the test, the metric, indices of sessions, values.
History = tuple[StoredTest, Metric, np.ndarray, np.ndarray]


# ---- one series ----


def hampel_filter(logs: np.ndarray) -> np.ndarray:
    """A series [sessions] with the values far from the median of their neighbours set to it."""
    window = LIMITS.outlier_window
    if len(logs) <= window:
        return logs
    padded = np.pad(logs, window, mode="reflect")
    around = np.lib.stride_tricks.sliding_window_view(padded, 2 * window + 1)
    middle = np.median(around, axis=1)
    noise = normal_mad(around)
    far = np.abs(logs - middle) > LIMITS.outlier_sigma * noise + 1e-12
    return np.where(far, middle, logs)


def change_points(values: np.ndarray) -> list[int]:
    """Indices at which a new level begins.

    Args:
        values: positive, [sessions], in order of time.
    """
    logs = np.log(values)
    if len(logs) < 2 * LIMITS.level:
        return []
    clean = hampel_filter(logs)
    noise = normal_mad(np.diff(logs)) / math.sqrt(2)
    if noise == 0:
        noise = max(np.std(clean), 1e-12)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search = ruptures.KernelCPD(kernel="linear", min_size=LIMITS.level).fit(clean / noise)
        starts = search.predict(pen=LIMITS.penalty * math.log(len(logs)))[:-1]
    return refine_steps(logs, merge_small_steps(clean, starts))


def refine_steps(logs: np.ndarray, starts: Sequence[int]) -> list[int]:
    """Change points moved by up to a few sessions to where both levels fit best by the sum of
    distances, which outliers near the step do not pull."""
    ends = [0, *starts, len(logs)]
    for index in range(1, len(ends) - 1):
        left, middle, right = ends[index - 1 : index + 2]
        sides = np.median(logs[left:middle]), np.median(logs[middle:right])
        nearer = np.abs(logs - sides[0]) - np.abs(logs - sides[1])
        places = range(max(left + 2, middle - 2), min(right - 1, middle + 3))
        ends[index] = max(places, key=lambda i: nearer[i:right].sum() - nearer[left:i].sum())
    return ends[1:-1]


def merge_small_steps(logs: np.ndarray, starts: Sequence[int]) -> list[int]:
    """Change points without those between levels nearer than the margin, nearest first."""
    starts = list(starts)
    while starts:
        ends = [0, *starts, len(logs)]
        levels = [np.median(logs[a:b]) for a, b in itertools.pairwise(ends)]
        sizes = [abs(b - a) for a, b in itertools.pairwise(levels)]
        least = int(np.argmin(sizes))
        if sizes[least] >= math.log1p(LIMITS.margin):
            break
        del starts[least]
    return starts


# ---- over the store ----


def histories(
    store: Store,
    sessions: Sequence[Session],
    name: re.Pattern[str] | None = None,
    left_out: Collection[str] = (*CONTEXT, *COUNTED),
) -> list[History]:
    """Every metric's history, a session by the median of its jobs, since the test computes what it
    does in the newest session.

    Args:
        store: where the sessions are stored.
        sessions: in order of time.
        name: a pattern; only tests in which it is found.
        left_out: units of metrics that are left out.

    Returns:
        A history per test and metric that has positive values, without unusable jobs; indices are
        of `sessions`, values in the metric's unit.

    Raises:
        StoreError: the store cannot be read.
    """
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
            _job_numbers(rows["session"], rows["test"], rows["run"]), _job_numbers(*runs.T)
        )
    for place, works in works_of(sessions).items():
        last = list(works.values())[-1]
        if other := [session for session, work in works.items() if work != last]:
            of_case = [n for n, test in tests.items() if (test.check, test.case) == place]
            keep &= ~(np.isin(rows["test"], of_case) & np.isin(rows["session"], other))
    rows = rows[keep]
    if not len(rows):
        return []
    place = np.zeros(max(order) + 1, int)
    place[list(order)] = list(order.values())
    when = place[rows["session"]]
    rows = rows[by := np.lexsort((when, rows["metric"], rows["test"]))]
    when = when[by]
    turns = np.flatnonzero(np.diff(rows["test"]) | np.diff(rows["metric"])) + 1
    return [
        (
            *(tests[int(part["test"][0])], metrics[int(part["metric"][0])]),
            *_by_session(indices, part["value"]),
        )
        for part, indices in zip(np.split(rows, turns), np.split(when, turns), strict=True)
    ]


def _job_numbers(session: np.ndarray, test: np.ndarray, run: np.ndarray) -> np.ndarray:
    """One number for each job."""
    return (session.astype(np.int64) << 42) + (test.astype(np.int64) << 20) + run


def _by_session(indices: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    starts = np.flatnonzero(np.diff(indices, prepend=-1))
    if len(starts) == len(indices):
        return indices, values.copy()
    return indices[starts], np.array([np.median(v) for v in np.split(values, starts[1:])])


def changes_of(
    measured: Sequence[History], sessions: Sequence[Session]
) -> tuple[list[ChangePoint], list[Series]]:
    """The change points of histories, and the series that have one.

    Args:
        measured: histories of these sessions.
        sessions: in order of time.

    Returns:
        The change points, and the histories with change points as series to draw.
    """
    points, series = [], []
    active = defaultdict(lambda: np.zeros(len(sessions), bool))  # partition -> in which sessions
    for test, metric, indices, values in measured:
        active[test.system, test.partition][indices] = True
        if at := change_points(values):
            series.append(series_of(test, metric, indices, values, sessions, at))
            ends = [0, *at, len(values)]
            for left, middle, right in zip(ends, ends[1:], ends[2:], strict=False):
                points.append(_point(test, metric, indices, values, sessions, left, middle, right))
    for place, when in active.items():
        here = [sessions[i] for i in np.flatnonzero(when)]
        align_steps([p for p in points if (p.system, p.partition) == place], here)
    return points, series


def series_of(
    test: StoredTest,
    metric: Metric,
    indices: np.ndarray,
    values: np.ndarray,
    sessions: Sequence[Session],
    at: Sequence[int] = (),
) -> Series:
    """A history as a series to draw, with new levels at the indices `at`."""
    times = [sessions[i].start for i in indices]
    return Series(*test.identity, *metric, times=times, values=values.tolist(), points=list(at))


def _point(
    test: StoredTest,
    metric: Metric,
    indices: np.ndarray,
    values: np.ndarray,
    sessions: Sequence[Session],
    left: int,
    middle: int,
    right: int,
) -> ChangePoint:
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
        verdict=Verdict.REGRESSED if worse else Verdict.IMPROVED,
    )


def align_steps(points: Sequence[ChangePoint], sessions: Sequence[Session]) -> None:
    """Puts change points of one partition that are within two sessions of each other on the session
    that most of them have, and adds what differs there from the session before."""
    order = {session.uuid: index for index, session in enumerate(sessions)}
    votes = Counter(order[point.session] for point in points)
    for point in points:
        here = order[point.session]
        near = [i for i in range(here - 2, here + 3) if i in votes]
        best = max(near, key=lambda i: (votes[i], -abs(i - here)))
        point.session, point.at = sessions[best].uuid, sessions[best].start
        point.changes = changes(sessions[best - 1 : best], sessions[best : best + 1])


def recent(points: Sequence[ChangePoint]) -> list[ChangePoint]:
    """The change points for the worse that are not long ago, the oldest first."""
    since = [p for p in points if p.verdict == Verdict.REGRESSED and p.after <= LIMITS.recent]
    return sorted(since, key=lambda p: p.at)
