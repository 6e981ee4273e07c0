"""The model of the night: what all metrics, or all of a kernel, share in a session.

    log cost = level of the metric + session + kernel + own noise

Sessions and kernels are medians, so that a metric that changed alone does not move them. A
session is the median of kernels and not of metrics: a kernel with most of the metrics is one.
"""

from collections.abc import Sequence

import numpy as np

from bisection.analysis.statistics import medians
from bisection.core.thresholds import LIMITS
from bisection.store.database import Session


def factors(residuals: np.ndarray, kernels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns what the metrics of a night share.

    Args:
        residuals: logarithms of costs less a level per metric, [metrics, nights]; NaN: missing.
        kernels: the number of each metric's kernel from 0 on, [metrics].

    Returns:
        The session factor, [nights], and that of each kernel beside it, [kernels, nights];
        logarithms. A kernel of few metrics has none (0), nor have sessions of fewer than three
        other kernels. NaN: nothing was measured.
    """
    count = int(kernels.max(initial=-1)) + 1
    kernel = np.zeros((count, residuals.shape[1]))
    large = np.bincount(kernels, minlength=count) >= LIMITS.kernel_metrics
    for number in np.flatnonzero(large):
        kernel[number] = medians(residuals[kernels == number], axis=0)
    if large.sum() < 3:
        return np.zeros(residuals.shape[1]), kernel
    session = medians(kernel[large], axis=0)
    kernel[large] -= session
    return session, kernel


def nights_of(sessions: Sequence[Session]) -> tuple[dict[int, int], np.ndarray]:
    """The number of each session's night, by the session's number, and when the nights were, in
    units of the usual time between them."""
    night, began = {}, []
    for session in sorted(sessions, key=lambda session: session.start):
        if not began or session.start - began[-1] >= 3600 * LIMITS.night:
            began.append(session.start)
        night[session.id] = len(began) - 1
    began = np.array(began)
    return night, (began - began[:1]) / (np.median(np.diff(began)) if len(began) > 1 else 1)
