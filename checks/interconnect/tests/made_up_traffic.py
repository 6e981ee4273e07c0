"""Results of the kernel congestion, as a network of known impact would give them."""

import numpy as np

from bisection.kernels.results import VERSION


def launch(
    mean=1.0, p99=None, again=1.0, load=0.9, cycles=10, noise=0.02, seed=1, alone=True, taken=0
):
    """A result of the kernel: alltoallv under incast takes `mean` and `p99` times as long; of 10
    samples, other processes had the cores in `taken`."""
    rng = np.random.default_rng(seed)
    windows = []
    for cycle in range(cycles):
        quiet = 100e-6 * rng.lognormal(0, 0.3)  # each deal of nodes has its own level
        slower = {"quiet": (1, 1), "again": (again, again), "incast": (mean, p99 or mean)}
        for window, (factor, tail) in slower.items():
            seconds = {"mean": quiet * factor * rng.lognormal(0, noise)}
            seconds["p99"] = 2 * quiet * tail * rng.lognormal(0, noise)
            loaded = {"load": load * 10e9 if window == "incast" else None}
            named = {"cycle": cycle, "victim": "alltoallv", "window": window}
            windows.append({**named, **seconds, **loaded})
        if alone:
            named = {"cycle": cycle, "victim": "alone", "window": "incast"}
            windows.append({**named, "mean": None, "p99": None, "load": 10e9})
    return {
        "schema": "bisection-result",
        "version": VERSION,
        "kernel": "congestion",
        "case": "apart",
        "status": "complete",
        "results": [{"samples": {"disturbed": [1] * taken + [0] * (10 - taken)}}],
        "details": {"congestion": {"place": "apart", "window": 0.1, "windows": windows}},
    }
