"""Latency and bandwidth from times over message sizes: a line per range of sizes.

MPI libraries change their protocol with the size of a message, so one line (Hockney 1994:
T = latency + bytes * gap) is up to 43% off. Up to three segments are fitted to the relative errors,
so that all sizes count alike. Only the standard library: checks use it too.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

SEGMENTS = 3
FEWEST = 2 * SEGMENTS  # sizes; with fewer there is no fit
SHORTEST = 2  # sizes of a segment
# Sum of squared relative errors that another segment must save: as of four sizes 5% off.
PENALTY = 0.01


@dataclass(frozen=True)
class Segment:
    """T(bytes) = latency + bytes * gap, for messages of at most `last` bytes."""

    last: float  # bytes
    latency: float  # s
    gap: float  # s per byte


@dataclass(frozen=True)
class SegmentedFit:
    """Segments by size."""

    sizes: tuple[float, ...]  # bytes, in rising order
    segments: tuple[Segment, ...]

    def seconds(self, size: float) -> float:
        """The time of a message of `size` bytes; the last segment goes on for ever."""
        segment = next((s for s in self.segments if size <= s.last), self.segments[-1])
        return segment.latency + segment.gap * size

    def error(self, times: Mapping[float, float]) -> float:
        """The largest relative error of these times, as fitted."""
        return max(abs(self.seconds(size) / time - 1) for size, time in times.items())

    @property
    def latency(self) -> float:
        """The time of the shortest message, s."""
        return self.seconds(self.sizes[0])

    @property
    def bandwidth(self) -> float:
        """Bytes per second of ever longer messages; of the longest one, where a fit has no gap."""
        gap = self.segments[-1].gap
        return 1 / gap if gap > 0 else self.sizes[-1] / self.seconds(self.sizes[-1])


def segmented(times: Mapping[float, float]) -> SegmentedFit | None:
    """The best fit of at most SEGMENTS segments, of all ways to share the sizes out.

    Args:
        times: bytes -> seconds, both positive.

    Returns:
        The fit; None for fewer than six sizes.
    """
    sizes = sorted(times)
    count = len(sizes)
    if count < FEWEST:
        return None
    seconds = [times[size] for size in sizes]
    lines = {
        (a, b): _line(sizes[a:b], seconds[a:b])
        for a in range(count)
        for b in range(a + SHORTEST, count + 1)
    }
    choices = []
    for breaks in range(SEGMENTS):
        for inner in itertools.combinations(range(SHORTEST, count - SHORTEST + 1), breaks):
            parts = list(itertools.pairwise((0, *inner, count)))
            if all(part in lines for part in parts):
                choices.append((sum(lines[part][2] + PENALTY for part in parts), parts))
    _, best = min(choices, key=lambda choice: choice[0])
    segments = (Segment(sizes[b - 1], *lines[a, b][:2]) for a, b in best)
    return SegmentedFit(tuple(sizes), tuple(segments))


def _line(sizes: Sequence[float], seconds: Sequence[float]) -> tuple[float, float, float]:
    """(latency, gap, sum of squared relative errors) of the least squares of relative errors, with
    neither below zero."""
    pairs = [(1 / t, size / t) for size, t in zip(sizes, seconds, strict=True)]
    w, s = map(sum, zip(*pairs, strict=True))
    ww, ws, ss = (sum(p[i] * p[j] for p in pairs) for i, j in ((0, 0), (0, 1), (1, 1)))
    determinant = ww * ss - ws * ws
    choices = [(w / ww, 0.0), (0.0, s / ss)]
    if determinant > 1e-12 * ww * ss:
        latency, gap = (w * ss - s * ws) / determinant, (s * ww - w * ws) / determinant
        choices += [(latency, gap)] if latency >= 0 and gap >= 0 else []
    errors = ((sum((a * w + g * s - 1) ** 2 for w, s in pairs), a, g) for a, g in choices)
    error, latency, gap = min(errors)
    return latency, gap, error


def metrics(times: Mapping[float, float]) -> dict[str, dict[str, Any]]:
    """The fit of a sweep as metrics of a kernel's result.

    Args:
        times: bytes -> seconds, both positive.

    Returns:
        `fit_latency`, `fit_bandwidth` and `fit_error`, a fraction; empty where there is no fit.
    """
    fit = segmented(times)
    if fit is None:
        return {}
    return {
        "fit_latency": {"value": fit.latency, "unit": "s", "better": "lower"},
        "fit_bandwidth": {"value": fit.bandwidth, "unit": "B/s", "better": "higher"},
        "fit_error": {"value": fit.error(times), "unit": "fraction", "better": "lower"},
    }
