"""Made-up nights with every kind of noise that machines have: arrays, for simulations.

A Noise makes a clean history, of a generator of random numbers, a shape, and how many kernels the
metrics belong to, in equal parts of neighbours: logarithms of costs, [metrics, nights], of level 0;
exp() of them are factors. Add a change with `changed`.
"""

import numpy as np
from scipy.signal import lfilter

KERNELS = 4  # of a made-up table, unless another number is asked for
SLOW = 1.3  # the second state of bimodal noise, as a factor
SHARE = 0.2  # of the nights in it
PERSISTENCE = 0.7  # correlation of a wandering level from night to night
DRIFT = 0.001  # a night


def kernels_of(metrics, kernels=KERNELS):
    """The number of the kernel of each metric, [metrics]."""
    return np.arange(metrics) * kernels // metrics


def of_kind(function):
    """Makes of a function of random numbers, shape, kernels and parameters one of parameters, which
    returns a Noise."""
    return lambda *parameters, **named: (
        lambda rng, shape, kernels=KERNELS: function(rng, shape, kernels, *parameters, **named)
    )


@of_kind
def lognormal(rng, shape, _, sigma):
    """Independent, with this standard deviation."""
    return rng.normal(0, sigma, shape)


@of_kind
def with_outliers(rng, shape, _, sigma, share=0.05):
    """Independent; and this share of the values is slower by 1.1 to 2 times by itself."""
    hit = rng.random(shape) < share
    return rng.normal(0, sigma, shape) + hit * np.log(rng.uniform(1.1, 2, shape))


@of_kind
def student(rng, shape, _, scale, df=3):
    """Heavy tails: Student's t times a scale, which is not its standard deviation."""
    return scale * rng.standard_t(df, shape)


@of_kind
def mixed(rng, shape, _, least, most):
    """Independent; each metric with a standard deviation of its own, from least to most."""
    values = rng.normal(0, 1, shape)
    return values * np.exp(rng.uniform(np.log(least), np.log(most), (shape[0], 1)))


@of_kind
def bimodal(rng, shape, _, sigma, together=False):
    """A share of the nights is in a slow state: of each metric by itself, or of all at once."""
    slow = rng.random((1, shape[1]) if together else shape) < SHARE
    return rng.normal(0, sigma, shape) + slow * np.log(SLOW)


@of_kind
def common(rng, shape, _, factor, own):
    """An independent factor of each night, which all metrics share, and their own noise."""
    return rng.normal(0, factor, (1, shape[1])) + rng.normal(0, own, shape)


def walk(rng, shape, sigma):
    """Levels that wander, [series, nights]: AR(1) with this standard deviation of the level."""
    step = np.full((shape[1], 1), sigma * np.sqrt(1 - PERSISTENCE**2))
    step[0] = sigma
    return lfilter([1], [1, -PERSISTENCE], rng.normal(0, step, shape[::-1]).T)


@of_kind
def wandering(rng, shape, kernels, sigma, of, own=0.01):
    """Levels that wander from night to night: "metric" (without other noise), "kernel", "all"."""
    metrics, nights = shape
    if of == "metric":
        return walk(rng, shape, sigma)
    level = walk(rng, (kernels if of == "kernel" else 1, nights), sigma)
    number = kernels_of(metrics, kernels) if of == "kernel" else np.zeros(metrics, int)
    return level[number] + rng.normal(0, own, shape)


@of_kind
def drifting(rng, shape, _, sigma):
    """Everything slower from night to night, and independent noise."""
    return rng.normal(0, sigma, shape) + np.log1p(DRIFT) * np.arange(shape[1])


NOISES = {
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


def spreads(rng, metrics):
    """A standard deviation for each metric, [metrics, 1]: log-normal, from 0.3% to 10%."""
    return np.clip(0.02 * np.exp(rng.normal(0, 0.9, (metrics, 1))), 0.003, 0.1)


def tails(rng, shape):
    """Student's t of standard deviation 1; each metric with degrees of freedom of its own."""
    freedom = np.exp(rng.uniform(np.log(2.5), np.log(30), (shape[0], 1)))
    return rng.standard_t(freedom, shape) / np.sqrt(freedom / (freedom - 2))


def in_state(rng, shape, share, kept):
    """Whether each night is in the second of two states, of this share of nights. A state is
    `kept` to the next night, or drawn anew."""
    drawn = rng.random(shape) < share
    anew = np.where(rng.random(shape) < kept, 0, np.arange(shape[1]))
    return np.take_along_axis(drawn, np.maximum.accumulate(anew, axis=1), axis=1)


@of_kind
def of_real_nights(rng, shape, _, feature="", launches=0, share=1.0):
    """Metrics of unequal noise and unequal tails, which have a feature of real nights, too.

    `launches`: of each night, [launches, metrics, nights]; they share the feature, and this share
    of the variance beside it. The first is of the run, others of a retest, which may differ in the
    machine. 0: nights alone.
    """
    spread, (metrics, nights) = spreads(rng, shape[0]), shape
    values = spread * tails(rng, shape)
    if feature == "states beside AR(1)":
        values = walk(rng, shape, 1) * spread
    if launches:
        each = tails(rng, (metrics, launches * nights)).reshape(metrics, launches, nights)
        values = np.sqrt(share) * values + np.sqrt(1 - share) * spread * each.swapaxes(0, 1)
    if feature.startswith("states"):
        values += np.log(1.15) * in_state(rng, shape, 0.3, 0.7 * (feature == "states that last"))
    elif feature == "weekends":
        size = rng.normal(0, 0.05, (metrics, 1))
        values += size * (np.arange(nights) % 7 >= 5)
    elif feature == "missing nights":
        values[..., rng.random(shape) < 0.3] = np.nan
    elif feature == "clock ticks":
        tick = rng.uniform(1, 4, (metrics, 1)) * spread
        values = np.round(values / tick) * tick
    elif feature == "variance that changes":
        since = rng.integers(nights, size=(metrics, 1))
        values *= np.where(np.arange(nights) < since, 1, 3)
    elif feature == "run and retest differ by 2%":
        values[:1] += rng.normal(0, 0.02, nights)
        values[1:] += rng.normal(0, 0.02, nights)
    elif feature == "retests 1.5% slower":
        values[1:] += np.log(1.015)
    return values


@of_kind
def of_many_kinds(rng, shape, _, **launches):
    """An equal part of the metrics each with one of the features."""
    parts = np.array_split(np.arange(shape[0]), len(FEATURES))
    return np.concatenate(
        [
            of_real_nights(feature, **launches)(rng, (len(part), shape[1]))
            for feature, part in zip(FEATURES, parts, strict=True)
        ],
        axis=-2,
    )


FEATURES = (
    "states that last",
    "states beside AR(1)",
    "weekends",
    "missing nights",
    "clock ticks",
    "variance that changes",
)
OF_RETESTS = ("run and retest differ by 2%", "retests 1.5% slower")


def like_real_ones(**launches):
    """Noises by name."""
    features = (*FEATURES, *(OF_RETESTS if launches else ()))
    return {
        "unequal noise and tails": of_real_nights(**launches),
        **{feature: of_real_nights(feature, **launches) for feature in features},
        "a sixth each": of_many_kinds(**launches),
    }


REAL = like_real_ones()


def changed(logs, factor, metrics, since):
    """A copy in which some metrics (an index of the first axis) are slower by a factor from a night
    on."""
    slower = logs.copy()
    slower[metrics, since:] += np.log(factor)
    return slower
