"""Metrics that have two states: levels between which they change from night to night.

The values of both sides are cut in two where the squared distances from both means are least. The
parts are states if they are far apart, each is compact, and one side has both.
"""

from dataclasses import dataclass

import numpy as np
import scipy  # its parts load when they are used

from bisection.analysis.statistics import medians

APART = 4.5  # standard deviations within a state
FEWEST = 4  # values of a state, and on one side half as many
LEAST = np.log1p(0.05)  # between states that are worth a word


@dataclass
class States:
    """Of each metric, [metrics]."""

    two: np.ndarray  # whether it has two states
    slow: np.ndarray  # [metrics, nights]: in the slower one
    gap: np.ndarray  # between the states, logarithm; 0 if it has one
    share: np.ndarray  # of the nights of either side in the slower state, [2, metrics]
    p: np.ndarray  # p-value of such shares, if both sides have the same (Fisher 1922)


def states(values: np.ndarray, nights: int) -> States:
    """The states of the metrics of a table.

    Args:
        values: logarithms of costs, [metrics, nights of both sides]; NaN where there is none.
        nights: of the first side.
    """
    known = np.isfinite(values)
    count = known.sum(axis=1, keepdims=True)
    middle = medians(values, 1)[:, None]
    ranked = np.sort(values - middle, axis=1)
    sums, squares = (np.cumsum(np.nan_to_num(ranked) ** power, axis=1) for power in (1, 2))
    below = np.arange(1, values.shape[1])  # values below a cut
    above = count - below
    with np.errstate(all="ignore"):
        means = sums[:, :-1] / below, (sums[:, -1:] - sums[:, :-1]) / above
        low = squares[:, :-1] - below * means[0] ** 2
        high = squares[:, -1:] - squares[:, :-1] - above * means[1] ** 2
        fits = (below >= FEWEST) & (above >= FEWEST)
        best = np.where(fits, low + high, np.inf).argmin(axis=1)[:, None]

        def there(table: np.ndarray) -> np.ndarray:
            return np.take_along_axis(np.broadcast_to(table, low.shape), best, axis=1)[:, 0]

        widest = np.maximum(there(low / (below - 1)), there(high / (above - 1)))
        gap = there(means[1]) - there(means[0])
        two = there(fits) & (gap > APART * np.sqrt(np.maximum(widest, 0))) & (gap > LEAST)
    slow = known & (values - middle > there(ranked[:, :-1])[:, None])
    sides = slice(None, nights), slice(nights, None)
    hits, of = (np.array([x[:, side].sum(axis=1) for side in sides]) for x in (slow, known))
    two &= ((hits >= FEWEST // 2) & (of - hits >= FEWEST // 2)).any(axis=0)
    chances = np.ones((2, len(two)))
    if two.any():
        urn = of.sum(axis=0)[two], hits.sum(axis=0)[two], of[1, two]
        chances[0, two] = scipy.stats.hypergeom.sf(hits[1, two] - 1, *urn)
        chances[1, two] = scipy.stats.hypergeom.cdf(hits[1, two], *urn)
    return States(
        two,
        slow & two[:, None],
        np.where(two, gap, 0),
        hits / np.maximum(of, 1),
        np.minimum(2 * np.minimum(*chances), 1),
    )
