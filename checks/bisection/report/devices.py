"""Buffers in memory of the host, staged and of devices, side by side (bisection.rfm.buffers)."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from bisection.core.format import amount, short, some, times
from bisection.core.grouping import grouped
from bisection.core.thresholds import LIMITS
from bisection.core.verdicts import Verdict
from bisection.kernels.layouts import BUFFERS, ON_DEVICES
from bisection.report.text_tables import POINTS, TextTable, listing
from bisection.runs.run_verdict import RunVerdict

TIME = re.compile(r"time(_\d+[KM]?i?B)?")
TIMES = {"congestion": re.compile("quiet()")}  # the time of a step is that of its windows
LEAD = (
    "The same ranks with buffers in memory of the host; in a GPU's, with copies to and from the "
    "host (staged); in a GPU's, which MPI is given (device). Above 1, device is faster than staged."
)


class Trio(NamedTuple):
    """A time of one test, by the memory that its buffers lie in (s)."""

    test: str
    point: str  # size of a sweep; "" of others
    seconds: Mapping[str, float]

    @property
    def ratio(self) -> float | None:
        """The speed of device over that of staged; None where one of them is not known."""
        staged, device = (self.seconds.get(name) for name in ("staged", "device"))
        return staged / device if staged and device else None


def trios(run: RunVerdict | None) -> list[Trio]:
    """The times of tests that ran on devices, in the order of the run; none of disturbed tests."""
    times_of: dict[tuple[str, str], dict[str, float]] = {}
    cases = [case for case in run.judged if case.layout in ON_DEVICES] if run else []
    places = {case.place for case in cases}
    for case in cases:
        name, _, buffers = case.check.rpartition("_")
        if buffers not in BUFFERS:  # a test of devices alone
            continue
        if run is None or run.outcome(case) not in (Verdict.PASS, Verdict.FAIL):
            continue
        words = (name, case.case, case.method, case.place if len(places) > 1 else "")
        test = " ".join(filter(None, words))
        for metric in case.metrics:
            if (match := TIMES.get(name, TIME).fullmatch(metric.name)) and metric.value > 0:
                point = (match[1] or "").removeprefix("_")
                times_of.setdefault((test, point), {})[buffers] = metric.value
    return [Trio(*key, seconds) for key, seconds in times_of.items()]


def table(rows: Sequence[Trio]) -> TextTable:
    """The smallest, the middle and the largest size of each test."""
    shown: list[Trio] = []
    for group in grouped(rows, lambda row: row.test).values():
        last = len(group) - 1
        shown += [group[at] for at in dict.fromkeys((0, last // 2, last))]
    seconds = (
        (buffers, "num", lambda row, at=buffers: amount(row.seconds.get(at), "s"))
        for buffers in BUFFERS
    )
    columns = (
        ("test", "text", lambda row: short(row.test, 120)),
        ("size", "num", lambda row: row.point),
        *seconds,
        ("device over staged", "num", lambda row: times(row.ratio)),
    )
    return listing(shown, columns, POINTS, "tests")


def slower(rows: Iterable[Trio]) -> list[str]:
    """A line for each test whose device memory is slower than staged copies, by more than a change
    that matters."""
    below = [row for row in rows if row.ratio and row.ratio < 1 / (1 + LIMITS.margin)]
    lines = []
    for test, group in grouped(below, lambda row: row.test).items():
        points = [row.point for row in group if row.point]
        worst = times(min(row.ratio or 1.0 for row in group))
        where = f"{test}, {some(points, 4)}" if points else test
        lines.append(
            f"{where}: messages from device memory have {worst} times the speed of staged copies, "
            "below 1: MPI's path for device addresses is not what runs"
        )
    return lines
