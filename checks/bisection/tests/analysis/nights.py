"""Made-up nights with every kind of noise that machines have: arrays, for simulations.

All are logarithms of costs, [metrics, nights], of level 0; exp() of them are factors. Metrics
belong to kernels, in equal parts of neighbours. Add a change with `changed`.
"""

from collections.abc import Callable

import numpy as np

KERNELS = 4  # of a made-up table, unless another number is asked for
SLOW = 1.3  # the second state of bimodal noise, as a factor
SHARE = 0.2  # of the nights in it
PERSISTENCE = 0.7  # correlation of a wandering level from night to night
DRIFT = 0.001  # a night

Shape = tuple[int, int]  # metrics, nights
Noise = Callable[[np.random.Generator, Shape, int], np.ndarray]


def kernels_of(metrics: int, kernels: int = KERNELS) -> np.ndarray:
    """The number of the kernel of each metric, [metrics]."""
    return np.arange(metrics) * kernels // metrics


def lognormal(sigma: float) -> Noise:
    """Independent, with this standard deviation."""
    return lambda rng, shape, _: rng.normal(0, sigma, shape)


def with_outliers(sigma: float, share: float = 0.05) -> Noise:
    """Independent; and this share of the values is slower by 1.1 to 2 times by itself."""

    def made(rng: np.random.Generator, shape: Shape, _: int) -> np.ndarray:
        hit = rng.random(shape) < share
        return rng.normal(0, sigma, shape) + hit * np.log(rng.uniform(1.1, 2, shape))

    return made


def student(scale: float, df: int = 3) -> Noise:
    """Heavy tails: Student's t times a scale, which is not its standard deviation."""
    return lambda rng, shape, _: scale * rng.standard_t(df, shape)


def mixed(least: float, most: float) -> Noise:
    """Independent; each metric with a standard deviation of its own, from least to most."""

    def made(rng: np.random.Generator, shape: Shape, _: int) -> np.ndarray:
        return rng.normal(0, 1, shape) * np.exp(
            rng.uniform(np.log(least), np.log(most), (shape[0], 1))
        )

    return made


def bimodal(sigma: float, together: bool = False) -> Noise:
    """A share of the nights is in a slow state: of each metric by itself, or of all at once."""

    def made(rng: np.random.Generator, shape: Shape, _: int) -> np.ndarray:
        slow = rng.random((1, shape[1]) if together else shape) < SHARE
        return rng.normal(0, sigma, shape) + slow * np.log(SLOW)

    return made


def common(factor: float, own: float) -> Noise:
    """An independent factor of each night, which all metrics share, and their own noise."""

    def made(rng: np.random.Generator, shape: Shape, _: int) -> np.ndarray:
        return rng.normal(0, factor, (1, shape[1])) + rng.normal(0, own, shape)

    return made


def walk(rng: np.random.Generator, shape: Shape, sigma: float) -> np.ndarray:
    """Levels that wander, [series, nights]: AR(1) with this standard deviation of the level."""
    step = np.sqrt(1 - PERSISTENCE**2)
    levels = np.empty(shape)
    levels[:, 0] = rng.normal(0, sigma, shape[0])
    for night in range(1, shape[1]):
        fresh = rng.normal(0, sigma * step, shape[0])
        levels[:, night] = PERSISTENCE * levels[:, night - 1] + fresh
    return levels


def wandering(sigma: float, of: str, own: float = 0.01) -> Noise:
    """Levels that wander from night to night: "metric" (without other noise), "kernel", "all"."""

    def made(rng: np.random.Generator, shape: Shape, kernels: int) -> np.ndarray:
        metrics, nights = shape
        if of == "metric":
            return walk(rng, shape, sigma)
        level = walk(rng, (kernels if of == "kernel" else 1, nights), sigma)
        number = kernels_of(metrics, kernels) if of == "kernel" else np.zeros(metrics, int)
        return level[number] + rng.normal(0, own, shape)

    return made


def drifting(sigma: float) -> Noise:
    """Everything slower from night to night, and independent noise."""

    def made(rng: np.random.Generator, shape: Shape, _: int) -> np.ndarray:
        return rng.normal(0, sigma, shape) + np.log1p(DRIFT) * np.arange(shape[1])

    return made


NOISES: dict[str, Noise] = {
    "independent 1%": lognormal(0.01),
    "independent 3%": lognormal(0.03),
    "independent 8%": lognormal(0.08),
    "independent, metrics of 1 to 8%": mixed(0.01, 0.08),
    "3%, 5% of values 1.1 to 2 times slower": with_outliers(0.03),
    "Student t3, standard deviation 3%": student(0.03 / np.sqrt(3)),
    "Student t3, scale 3%": student(0.03),
    "20% of nights 1.3 times slower, per metric": bimodal(0.03),
    "20% of nights 1.3 times slower, all metrics": bimodal(0.03, together=True),
    "common factor 2%, own 2%": common(0.02, 0.02),
    "common factor 7%, own 3%": common(0.07, 0.03),
    "AR(1) 0.7, 3%, per metric": wandering(0.03, "metric"),
    "AR(1) 0.7, 3%, per kernel": wandering(0.03, "kernel"),
    "AR(1) 0.7, 3%, all metrics": wandering(0.03, "all"),
    "drift 0.1% a night, 1%": drifting(0.01),
    "drift 0.1% a night, 3%": drifting(0.03),
}


def nights(
    rng: np.random.Generator, noise: str, metrics: int, count: int, kernels: int = KERNELS
) -> np.ndarray:
    """A clean history.

    Args:
        rng: where its noise is from.
        noise: a key of NOISES.
        metrics: of each night.
        count: nights.
        kernels: to which the metrics belong.

    Returns:
        Logarithms of costs, [metrics, nights].
    """
    return NOISES[noise](rng, (metrics, count), kernels)


def changed(logs: np.ndarray, factor: float, metrics: object, since: int) -> np.ndarray:
    """A copy in which some metrics (an index of the first axis) are slower by a factor from a night
    on."""
    slower = logs.copy()
    slower[metrics, since:] += np.log(factor)
    return slower
