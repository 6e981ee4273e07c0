"""Fits of times over message sizes: known curves, with noise."""

import math
import random

import pytest

from bisection.kernels import fits, results

SIZES = [2.0**power for power in range(3, 23)]
# Eager, eager of several packets, rendezvous: latency (s), seconds per byte, to so many bytes.
CURVE = [(1e-6, 0.5e-9, 4096), (3e-6, 0.3e-9, 65536), (8e-6, 0.08e-9, math.inf)]


def seconds(size):
    latency, gap, _ = next(part for part in CURVE if size <= part[2])
    return latency + gap * size


@pytest.mark.parametrize("seed", range(20))
def test_known_segments_are_recovered_within_the_stated_error(seed):
    rng = random.Random(seed)
    times = {s: seconds(s) * math.exp(rng.gauss(0, 0.03)) for s in SIZES}
    fit = fits.segmented(times)
    assert len(fit.segments) == 3
    assert fit.error({s: seconds(s) for s in SIZES}) <= fit.error(times) < 0.12
    assert fit.latency == pytest.approx(seconds(8), rel=0.06)
    assert fit.bandwidth == pytest.approx(1 / 0.08e-9, rel=0.06)


@pytest.mark.parametrize("seed", range(10))
def test_a_straight_line_needs_one_segment(seed):
    rng = random.Random(seed)
    times = {s: (2e-6 + 1e-10 * s) * math.exp(rng.gauss(0, 0.02)) for s in SIZES}
    fit = fits.segmented(times)
    assert len(fit.segments) == 1
    assert fit.bandwidth == pytest.approx(1e10, rel=0.05)


def test_few_sizes_flat_times_and_times_without_latency():
    assert fits.segmented(dict.fromkeys(SIZES[:5], 1e-06)) is None
    assert fits.metrics({}) == {}
    flat = fits.segmented(dict.fromkeys(SIZES, 1e-06))
    assert flat.bandwidth == pytest.approx(SIZES[-1] / 1e-6)
    steady = {s: 1e-9 * s for s in SIZES}
    through = fits.segmented(steady)
    assert (through.error(steady), through.latency) == pytest.approx((0, 8e-9))


def test_metrics_of_a_sweep_have_its_fit():
    entries = [
        {
            "point": {"bytes": int(s)},
            "metrics": {"time": {"value": seconds(s), "unit": "s", "better": "lower"}},
            "samples": {"seconds": [seconds(s)]},
        }
        for s in SIZES
    ]
    metrics = results.metrics(entries)
    assert metrics["fit_latency"]["value"] == pytest.approx(seconds(8))
    assert metrics["fit_bandwidth"]["unit"] == "B/s"
    assert results.unusable(metrics["fit_error"]) is None
    assert metrics["fit_error"]["value"] < 1e-9
