"""Made-up sessions, with known noise, for tests and for `bisection bench store`."""

import math

import numpy as np

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


def nights(values, first=0, **more):
    """Sessions, each with one job of every method: `values` is method -> times, one a session."""
    count = len(next(iter(values.values())))
    return [
        (
            session(first + night, **more),
            [case(method, {"time": float(times[night])}) for method, times in values.items()],
        )
        for night in range(count)
    ]


def store(path, *contents):
    """A store of these (session, cases)."""
    made = Store(path)
    for content in contents:
        made.add(content)
    return made


def row(result, method="p2p", metric="time"):
    found = [r for r in result.rows if (r.method, r.metric) == (method, metric)]
    assert len(found) == 1, [r.key for r in result.rows]
    return found[0]


def times(rng, ratio=1.0, count=20, sigma=0.03):
    return 1e-3 * ratio * noise(rng, count, sigma)


def jobs(rng, count, per_session, between, within, ratio=1.0, first=0):
    """Sessions of several jobs each, with noise between sessions and within."""
    made = []
    for i in range(count):
        level = 1e-3 * ratio * math.exp(rng.normal(0, between))
        values = level * np.exp(rng.normal(0, within, per_session))
        cases = [case(metrics={"time": float(v)}, run=j) for j, v in enumerate(values)]
        made.append((session(first + i), cases))
    return made
