"""Made-up sessions, with known noise."""

import math
from dataclasses import replace

import numpy as np
from results_made import changed

from bisection.store.database import Store
from bisection.store.sample_file import SCHEMA, VERSION

DAY = 86400.0
EPOCH = 1_780_272_000.0  # 2026-06-01, a midnight


def noise(rng, shape, sigma, outliers=0.05):
    """Factors: log-normal, some slower by 1.1 to 2 times."""
    hit = rng.random(shape) < outliers
    return np.exp(rng.normal(0, sigma, shape)) * np.where(hit, rng.uniform(1.1, 2, shape), 1)


def session(number, **more):
    line = {
        "schema": SCHEMA,
        "version": VERSION,
        "session": f"{number:08x}-made-up",
        "start": EPOCH + number * DAY,
        "tags": {"tier": "nightly", "system": "lab", "environ": "system"},
        "facts": {"MPI": "Open MPI 4.1.4"},
    }
    return {**line, **more}


def case(method="p2p", metrics=None, **more):
    """A test case; `metrics` is name -> value in seconds, or -> [value, unit, better]."""
    line = {
        "check": "transpose",
        "case": "cnt40",
        "layout": "mpi",
        "method": method,
        "system": "lab",
        "partition": "cpu",
        "environ": "system",
        "geometry": "2x1",
        "hosts": ["n1"],
        "metrics": {
            name: value if isinstance(value, list) else [value, "s", "lower"]
            for name, value in (metrics or {}).items()
        },
    }
    return {**line, **more}


def sessions(first, nights, **more):
    """Sessions from number `first` on, each with its list of test cases."""
    return [(session(first + night, **more), cases) for night, cases in enumerate(nights)]


def nights(values, first=0, **more):
    """Sessions, each with one job of every method: `values` is method -> times, one a session."""
    jobs = zip(*values.values(), strict=True)
    cases = ([case(name, {"time": t}) for name, t in zip(values, job, strict=True)] for job in jobs)
    return sessions(first, cases, **more)


def tables(values, first=0, **more):
    """Sessions, each with one job of the methods m0, m1, ... of every check: `values` is check ->
    times, [methods, sessions]; `more` are fields of the test cases."""
    columns = (
        [case(f"m{number}", {"time": t}, check=check, **more) for t in times]
        for check, methods in values.items()
        for number, times in enumerate(methods)
    )
    return sessions(first, map(list, zip(*columns, strict=True)))


def series(values, first=0, name="time", unit="s", better="lower", **more):
    """Sessions of one test with one metric, a value each; `more` are fields of the test case."""
    metrics = ({name: [value, unit, better]} for value in values)
    return sessions(first, ([case(metrics=each, **more)] for each in metrics))


def store(path, *contents):
    """A store of these (session, cases)."""
    filled = Store(path)
    for content in contents:
        filled.add(content)
    return filled


def row(result, method="p2p", metric="time"):
    (only,) = [r for r in result.rows if (r.method, r.metric) == (method, metric)]
    return only


def times(rng, ratio=1.0, count=20, sigma=0.03):
    return 1e-3 * ratio * noise(rng, count, sigma)


def jobs(rng, count, per_session, between, within, ratio=1.0, first=0, **more):
    """Sessions of several jobs each, with noise between sessions and within."""

    def night():
        level = 1e-3 * ratio * math.exp(rng.normal(0, between))
        values = level * np.exp(rng.normal(0, within, per_session))
        return [case(metrics={"time": value}, run=run) for run, value in enumerate(values)]

    return sessions(first, (night() for _ in range(count)), **more)


def with_case(run, index, **fields):
    """The run with other fields of one test."""
    cases = [*run.cases]
    cases[index] = changed(cases[index], **fields)
    return replace(run, cases=cases)
