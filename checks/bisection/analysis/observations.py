"""Stored samples of two sides as the rows of a table."""

from collections import defaultdict
from statistics import median

import numpy as np

from bisection.analysis.model import Row, Side
from bisection.core import paths
from bisection.core.identity import POINT
from bisection.core.verdicts import CONTEXT, COUNTED, MISSING, NEW, NOT_MEASURED
from bisection.store.database import Store, unusable
from bisection.store.sample_file import StoreError
from bisection.store.selection import SelectionError, kind_of, select

GONE = 3  # sessions without a test that had it before


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


def gone(report, home):
    """A trouble if tests of the last session of this kind are in this one no more."""
    if report is None:
        return []
    try:
        with Store(paths.store_db(home)) as store:
            now = select(report["session_info"]["uuid"], store)
            last = select("earlier:1", store, now)
            before, after = (set(Measured(store, side).outcomes) for side in (last, now))
    except (StoreError, SelectionError):
        return []
    missing = sorted(" ".join(filter(None, key[3:])) for key in before - after)
    if not missing:
        return []
    more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
    return [f"{len(missing)} tests of the last session are gone: {', '.join(missing[:3])}{more}"]
