"""One session beside the earlier ones: how often it is wrongly called slower, and what is found."""

import numpy as np
import pytest
from made_up import case, nights, row, session, sessions
from nights import NOISES, common, kernels_of, lognormal, mixed, wandering, with_outliers
from scipy.stats import binom, poisson

from bisection.analysis.model import Row, Side
from bisection.analysis.outlying import faster, limits_of, mark_outliers, retested, slower
from bisection.core.thresholds import LIMITS
from bisection.core.verdicts import Verdict

SETS = 60  # nights that are simulated, each with its earlier ones
LONG = pytest.mark.long  # dearer, and no other code
LAUNCH = lognormal(0.03)


def judged(rng, metrics, earlier, launch=LAUNCH, night=None, ratio=1.0, slow=0):
    """Whether each metric of a night is outside, and whether both launches of its retest are, too,
    which have the noise of a `launch` anew, and what lasts a `night` again. The first `slow`
    metrics are slower by a ratio."""
    lasting = night(rng, (metrics, earlier + 1)) if night else np.zeros((metrics, earlier + 1))
    nights = [*range(earlier + 1), earlier, earlier]
    logs = lasting[:, nights] + launch(rng, (metrics, len(nights)))
    logs[:slow, earlier:] += np.log(ratio)
    beyond = logs[:, earlier:] > limits_of(logs[:, :earlier], LIMITS.retested)[:, None]
    return beyond[:, 0], beyond.all(axis=1)


@pytest.mark.parametrize(
    ("name", "noise", "most"),
    [
        ("noise 3%", [LAUNCH], 0),
        ("noise 1-8%", [mixed(0.01, 0.08)], 0),
        ("noise 3%, nights 5%", [LAUNCH, common(0.05, 0)], 1),
        ("noise 3%, nights 5% that wander", [LAUNCH, wandering(0.05, "all", 0)], 3),  # it is
        ("noise 3%, 5% outliers", [with_outliers(0.03)], 2),
    ],
)
@pytest.mark.parametrize(
    ("metrics", "earlier"), [(200, 8), (2000, 8), pytest.param(2000, 20, marks=LONG)]
)
def test_false_alarms(name, noise, most, metrics, earlier, told):
    rng = np.random.default_rng(20261122)
    sets = [judged(rng, metrics, earlier, *noise) for _ in range(SETS)]
    first, both = (sum(hits.any() for hits in step) for step in zip(*sets, strict=True))
    told.append(
        f"{metrics} metrics, {earlier} earlier, {name}: of {SETS} nights {first} retested, "
        f"{both} called slower"
    )
    assert both <= most


@pytest.mark.parametrize(
    ("earlier", "ratio", "slow", "name", "noise"),
    [
        (5, 2.0, 100, "3%", LAUNCH),
        (8, 1.5, 20, "3%", LAUNCH),
        (8, 2.0, 1, "3%", LAUNCH),
        (20, 1.3, 1, "3%", LAUNCH),
        (20, 2.0, 1, "1-8%", mixed(0.01, 0.08)),
    ],
)
@pytest.mark.long
def test_what_is_found(earlier, ratio, slow, name, noise, told):
    rng = np.random.default_rng(20261122)
    count = max(SETS, 600 // slow)
    sets = [judged(rng, 2000, earlier, noise, ratio=ratio, slow=slow) for _ in range(count)]
    share = np.mean([both[:slow].mean() for _, both in sets])
    false = np.mean([both[slow:].sum() for _, both in sets])
    told.append(
        f"{slow} of 2000 metrics x{ratio}, noise {name}, {earlier} earlier: {share:.0%} found "
        f"twice, {false:.2f} others"
    )
    assert share >= 0.9
    assert false <= 0.5


def test_catastrophe_beside_constant_and_missing_values():
    earlier = np.zeros((3, 6))
    earlier[1, 2] = np.nan
    new = np.log([1.05, 14.0, 1 / 14])
    bound = limits_of(earlier, LIMITS.retested)
    assert (new > bound).tolist() == [False, True, False]
    assert np.exp(bound[0]) == pytest.approx(1.1)


def test_a_night_within_the_worst_earlier_one_is_inside():
    earlier = np.tile(np.log([1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 3.0]), (20, 1))
    assert (limits_of(earlier, LIMITS.retested) >= np.log(3)).all()


def test_what_others_slowed_down_is_suspect_too(compared):
    """A launch whose cores others had is not measured; what it showed is no reason to pass."""
    before = nights({"p2p": [1e-3] * 6})
    for number, value, suspect in ((9, 8e-3, True), (10, 1.05e-3, False)):
        after = [(session(number), [case(metrics={"time": value}, disturbed=0.5)])]
        (row,) = compared(before, after).rows
        assert row.verdict == Verdict.NOT_MEASURED
        assert (row.outlier, row.seen) == (suspect, value)


# ---- what the times of a launch share ----

# Medians of six quiet nights of one launch, and of a night through TCP, in us: on two cores.
NIGHTS = {
    "alltoallv": [156, 169, 182, 172, 148, 149, 244],
    "p2p": [155, 166, 179, 170, 148, 148, 236],
    "padded": [156, 169, 185, 173, 151, 151, 238],
    "gather-scatter": [184, 204, 223, 209, 171, 176, 297],
    "overlap": [154, 170, 182, 173, 149, 150, 232],
    "shm": [142, 151, 164, 151, 135, 136, 180],
}


def test_a_launch_that_is_slower_as_a_whole_is_suspect(compared):
    """A ratio whose baseline changed is not faster."""

    def test(name, night):
        time, base = NIGHTS[name][night], NIGHTS["alltoallv"][night]
        return case(name, {"time": time * 1e-6, "ratio_alltoallv": [time / base, "ratio", "lower"]})

    content = sessions(0, ([test(name, night) for name in NIGHTS] for night in range(7)))
    comparison = compared(content[:6], content[6:])
    slow = slower(comparison.rows)
    assert {r.method for r in slow} >= {"alltoallv", "p2p", "padded", "gather-scatter", "overlap"}
    assert {r.metric for r in slow} == {"time"}
    assert not faster(comparison.rows)
    moved = row(comparison, "shm", "ratio_alltoallv")
    assert (moved.baseline_moved, moved.outlier) == (True, False)


SEEDS = 8
SENDERS = ("alltoallv", "p2p", "padded", "gather-scatter", "alltoallw", "overlap")
METHODS = (*SENDERS, "shm", "shm-padded", "direct", "leaders")


@pytest.mark.parametrize(("by", "state"), [(1.3, 1), (1.5, 0), (1.0, 1), (1.0, 0)])
def test_what_a_launch_in_two_states_has_not_shown_before_is_suspect(compared, told, by, state):
    """A host of two states, 20% apart; in a night with another MPI environment, methods that send
    messages are slower by a factor, and no other is called so."""
    named = 0
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        response = rng.uniform(1.0, 1.2, len(METHODS)) * np.log(1.2)  # to the state
        states = np.array([0, 1, 0, 1, 1, 0, state])
        logs = response[:, None] * states + rng.normal(0, 0.01, (len(METHODS), 7))
        logs[: len(SENDERS), -1] += np.log(by)
        times = dict(zip(METHODS, 60e-6 * np.exp(logs), strict=True))
        content = nights(times, 10 * seed, facts={"MPI environment": "none"})
        content[6][0]["facts"] = {"MPI environment": "OMPI_MCA_btl=tcp,self"}
        comparison = compared(content[:6], content[6:])
        slow = {row.method for row in slower(comparison.rows)}
        named += len(slow) > len(SENDERS) / 2
        assert slow <= {*(SENDERS if by > 1 else ())}
        assert not faster(comparison.rows)
    told.append(f"two states, senders x{by} in state {state}: named in {named} of {SEEDS}")
    assert named >= 0.75 * SEEDS if by > 1 else not named


def tabled(logs, per_launch):
    """Rows of times, and their jobs: the last night is the new one."""
    *before, last = range(logs.shape[1])
    rows, samples = [], []
    for number, kernel in enumerate(kernels_of(len(logs))):
        times = np.exp(logs[number]).tolist()
        launch, method = divmod(number, per_launch)
        names = ("lab", "cpu", "system", f"kernel{kernel}", f"case{launch}", "mpi", f"m{method}")
        sides = {"before": Side(len(before), median=1.0), "after": Side(1, median=times[last])}
        rows.append(Row(*names, "time", "s", "lower", False, **sides, ratio=times[last]))
        samples.append(({night: [times[night]] for night in before}, {last: [times[last]]}))
    return rows, samples


@pytest.mark.parametrize("earlier", [6, pytest.param(20, marks=LONG)])
@pytest.mark.parametrize("noise_of_nights", NOISES)
def test_clean_nights_are_seldom_suspect(noise_of_nights, earlier, told):
    """As many metrics a night are measured again as may be. One night in 20 has one that is slower
    without that; or times that share it: a state of all metrics that no earlier night showed."""
    rng = np.random.default_rng(20261124)
    launches = nights = shared = 0
    for _ in range(SETS):
        rows, samples = tabled(NOISES[noise_of_nights](rng, (200, earlier + 1)), 10)
        mark_outliers(rows, samples, {})
        nights += bool(slower(rows))
        launches += len({row.case for row in retested(rows) if not row.shared})
        shared += any(row.shared for row in rows)
    told.append(
        f"200 metrics, {earlier} earlier, {noise_of_nights}: of {SETS} nights {nights} slower, "
        f"{shared} for what times share; {launches / SETS:.2f} launches retested a night"
    )
    assert max(nights, shared) <= binom.ppf(0.999, SETS, 0.05)
    assert launches <= poisson.ppf(0.999, SETS * LIMITS.retested)


def test_a_launch_needs_to_be_slower_by_less_where_the_environment_changed():
    logs = np.random.default_rng(0).normal(0, 0.1, (200, 9))
    logs[10:20, -1] = 0.12
    suspected = []
    for changed in (False, True):
        rows, samples = tabled(logs, 10)
        mark_outliers(rows, samples, {}, changed)
        suspected.append(any(row.shared for row in rows))
    assert suspected == [False, True]


@pytest.mark.parametrize(("earlier", "ratio"), [(5, 1.4), (8, 1.2)])
def test_what_a_launch_shares_is_found(earlier, ratio, told):
    """Eight of ten times of one launch are slower; each alone is within its noise of 3 to 6%."""
    rng = np.random.default_rng(20261124)
    detected = 0
    for _ in range(SETS):
        logs = rng.normal(0, rng.uniform(0.03, 0.06, (200, 1)), (200, earlier + 1))
        logs[10:18, -1] += np.log(ratio)
        rows, samples = tabled(logs, 10)
        mark_outliers(rows, samples, {})
        detected += sum(r.case == "case1" for r in slower(rows)) >= 5
    told.append(f"a launch x{ratio}, {earlier} earlier: suspect in {detected / SETS:.0%}")
    assert detected >= 0.9 * SETS
