"""Switches from latency, where no topology is known: nodes of one switch see each other faster."""

import math

import numpy as np
import scipy  # its parts load when they are used

from bisection.core.thresholds import LIMITS

MOST = 2048  # nodes: the distances between all of them are 8 B a pair, several times
GAP = 0.25  # of the height above the widest gap: less is one cluster


def by_latency(s: np.ndarray, r: np.ndarray, rest: np.ndarray, nodes: int) -> np.ndarray | None:
    """The switch of each node, by average linkage on the nodes' rows of the matrix.

    Args:
        s, r: the nodes of each pair, each pair once.
        rest: logarithm of its latency without the effects of its nodes.
        nodes: how many there are.

    Returns:
        [nodes] numbers; None where pairs lack or where the switches would be guessed: pairs of
        different ones must take LIMITS.pair_far times as long, of LIMITS.pair_switch nodes each.
    """
    smallest = int(LIMITS.pair_switch)
    if len(s) < nodes * (nodes - 1) // 2 or not 2 * smallest <= nodes <= MOST:
        return None
    rows = np.zeros((nodes, nodes))
    rows[s, r] = rows[r, s] = rest
    np.fill_diagonal(rows, np.quantile(rest, 0.001))
    square = (rows**2).sum(1)
    apart = np.sqrt(np.maximum(square[:, None] + square - 2 * rows @ rows.T, 0))
    np.fill_diagonal(apart, 0)
    hierarchy = scipy.cluster.hierarchy
    tree = hierarchy.linkage(scipy.spatial.distance.squareform(apart, checks=False), "average")
    height = tree[:, 2]
    half = len(height) // 2
    widest = half + int(np.argmax(np.diff(height)[half:]))
    if height[widest + 1] - height[widest] < GAP * height[widest]:
        return None
    between = (height[widest] + height[widest + 1]) / 2
    numbers = hierarchy.fcluster(tree, between, "distance") - 1
    near = numbers[s] == numbers[r]
    sizes = np.bincount(numbers)
    if len(sizes) < 2 or np.median(sizes) < smallest or near.all() or not near.any():
        return None
    far = np.median(rest[~near]) - np.median(rest[near])
    return numbers if far >= math.log(LIMITS.pair_far) else None
