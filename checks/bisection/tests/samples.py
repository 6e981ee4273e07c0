"""Made-up sessions, with known noise, for tests and for `make bench-compare`."""

import numpy as np

from bisection.samples import SCHEMA, VERSION
from bisection.store import Store

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
