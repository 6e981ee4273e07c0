"""Stored nights for other programs: rows, arrays and a pandas DataFrame.

    from bisection import nights
    table = nights.load("2026-11-01..", name="^transpose")

`rows` yields a record per metric and session, and keeps few sessions in memory. `load` has all as
one array. `sessions` are named as for `bisection compare`; excluded ones are read only if they are
named by identifiers. checks/docs/numbers.md has examples.
"""

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bisection.core import paths
from bisection.core.format import finite, utc
from bisection.core.grouping import grouped
from bisection.core.identity import IDENTITY, MetricId
from bisection.store import nights
from bisection.store.database import Outcome, Session
from bisection.store.marks import results_of
from bisection.store.sample_file import SPOOLED, verdict_in
from bisection.store.selection import select
from bisection.store.sync import opened

if TYPE_CHECKING:
    import pandas

AT_ONCE = 16  # sessions that are in memory together

Limits = tuple[float | None, float | None]


@dataclass
class NightRow(MetricId):
    """A metric of a test in one session."""

    geometry: str  # [nodes x] ranks per node x threads per rank
    value: float | None  # the median of its jobs; null: none could be used
    lower: float | None  # limits of passing values in that session; null: none, or not known
    upper: float | None
    session: str  # its identifier
    date: str  # when it began, UTC, YYYY-MM-DDTHH:MM:SSZ
    disturbed: float  # fraction of samples in which other processes took a core, the mean job
    tags: Mapping[str, str]  # of the session
    hosts: Sequence[str]  # that its jobs ran on


@dataclass
class Table:
    """Metrics in sessions. `values` is an array [metrics, sessions], in the unit of each metric,
    NaN where it was not measured; `geometry` has the ranks and threads of each metric."""

    values: np.ndarray
    metrics: list[MetricId]
    geometry: list[str]
    sessions: list[Session]
    columns: tuple[str, ...] = field(default=(*IDENTITY, "metric", "unit", "geometry"), repr=False)

    @property
    def times(self) -> np.ndarray:
        """When each session began, Unix time, [sessions]."""
        return np.array([session.start for session in self.sessions])

    def frame(self) -> "pandas.DataFrame":
        """The table as a DataFrame: a row per session, by its start; a column per metric, with
        `columns` as levels. ImportError: pandas is not installed."""
        import pandas

        keys = [
            (*metric.key, metric.unit, geometry)
            for metric, geometry in zip(self.metrics, self.geometry, strict=True)
        ]
        columns = pandas.MultiIndex.from_tuples(keys, names=self.columns)
        index = pandas.to_datetime(self.times, unit="s", utc=True).rename("date")
        return pandas.DataFrame(self.values.T, index=index, columns=columns)


def load(
    sessions: str = "..", name: str | re.Pattern[str] = "", home: Path | str | None = None
) -> Table:
    """All metrics of these sessions, oldest first, as one array.

    Args:
        sessions: as for `bisection compare`: "latest", a day, DAY..DAY, TAG=VALUE, several with
            commas between.
        name: a regular expression: only tests whose names it matches.
        home: the folder with the store; by default $BISECTION_HOME, else .bisection.

    Raises:
        BisectionError: there is no such session, or the store cannot be read; one line says why.
    """
    with opened(home or paths.home()) as store:
        chosen = select(sessions, store)
        series = _series(nights.Nights(store, chosen), name)
    values = [each.medians(len(chosen), zero=True) for each in series]
    return Table(
        values=np.array(values).reshape(len(series), len(chosen)),
        metrics=[MetricId(**_identity(each)) for each in series],
        geometry=[each.test.geometry for each in series],
        sessions=[*chosen],
    )


def rows(
    sessions: str = "..", name: str | re.Pattern[str] = "", home: Path | str | None = None
) -> Iterator[NightRow]:
    """Yields a row per metric and session, oldest first; arguments and errors as of `load`."""
    home = Path(home or paths.home())
    with opened(home) as store:
        chosen = select(sessions, store)
        folders = results_of(home, [session.uuid for session in chosen])
        for first in range(0, len(chosen), AT_ONCE):
            some = chosen[first : first + AT_ONCE]
            table = nights.Nights(store, some)
            yield from _rows(table, _series(table, name), [folders.get(s.uuid) for s in some])


def _series(table: nights.Nights, name: str | re.Pattern[str]) -> list[nights.Series]:
    return [each for each in table.series if re.search(name, " ".join(each.test.identity[3:]))]


def _identity(series: nights.Series) -> dict[str, Any]:
    metric = series.metric
    names = {"metric": metric.name, "unit": metric.unit, "better": metric.better}
    return {**series.test.by_name, **names}


def _rows(
    table: nights.Nights, series: Sequence[nights.Series], folders: Sequence[Path | None]
) -> Iterator[NightRow]:
    """The rows of a few sessions, whose results are in these folders."""
    count = len(table.sessions)
    values = [each.medians(count, zero=True).tolist() for each in series]
    there = [set(each.jobs["at"].tolist()) for each in series]
    tests = [int(each.jobs["test"][0]) for each in series]
    identities = [{**_identity(each), "geometry": each.test.geometry} for each in series]
    jobs = grouped(table.launches, lambda outcome: (outcome.session, outcome.test))
    about = {key: _of_jobs(outcomes) for key, outcomes in jobs.items()}
    for at, (session, folder) in enumerate(zip(table.sessions, folders, strict=True)):
        limits, date = _limits(folder), utc(session.start, True)[:19].replace(" ", "T") + "Z"
        for number, each in enumerate(series):
            if at in there[number]:
                value = values[number][at]
                lower, upper = limits.get((*each.test.identity, each.metric.name), (None, None))
                disturbed, hosts = about.get((session.id, tests[number]), (0.0, []))
                yield NightRow(
                    **identities[number],
                    value=value if finite(value) else None,
                    lower=lower,
                    upper=upper,
                    session=session.uuid,
                    date=date,
                    disturbed=disturbed,
                    tags=session.tags,
                    hosts=hosts,
                )


def _of_jobs(jobs: Sequence[Outcome]) -> tuple[float, list[str]]:
    """How disturbed the jobs of a test were in a session, and their hosts."""
    hosts = {job.hosts for job in jobs}
    return sum(job.disturbed for job in jobs) / len(jobs), sorted(set().union(*hosts))


def _limits(folder: Path | None) -> dict[tuple[str, ...], Limits]:
    """The limits of each metric by the verdict of a run; none of one that is not kept here."""
    limits: dict[tuple[str, ...], Limits] = {}
    # Of a run that was stopped, or of another version, they are not known.
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
        kept = verdict_in(folder / SPOOLED) if folder else None
        for case in kept["cases"] if kept else ():
            test = [case[name] for name in ("environ", "check", "case", "layout", "method")]
            for metric in case["metrics"]:
                if metric["asserted"]:
                    key = (*case["partition"].split(":"), *test, metric["name"])
                    limits[key] = metric["low"], metric["high"]
    return limits
