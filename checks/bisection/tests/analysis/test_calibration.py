"""How often verdicts are wrong, and what they find: simulated, with a fixed seed, and printed."""

import numpy as np
import pytest
from made_up import noise

from bisection.analysis import statistics
from bisection.core.verdicts import Verdict

pytestmark = pytest.mark.slow

SESSIONS = 20  # a side: as many as the figures are promised for
TABLE = 200  # metrics in a report
REPORTS = 200


def verdicts_of(before, after, table=1):
    """Verdicts on samples [metrics, sessions], in tables of so many metrics."""
    before, after = np.log(before), np.log(after)
    p = statistics.yuen_pvalue(before, after).reshape(-1, table)
    p = np.concatenate([statistics.adjust_fdr(part) for part in p])
    return statistics.classify(
        *statistics.hodges_lehmann(before, after),
        p,
        statistics.margins(statistics.mad_sigma(before, after)),
    )


def simulated(rng, sigma, ratio, count, sessions=SESSIONS):
    shape = (count, sessions)
    return noise(rng, shape, sigma), ratio * noise(rng, shape, sigma)


def share(names, *wanted):
    return float(np.isin(names, wanted).mean())


@pytest.mark.parametrize(
    ("sigma", "ratio", "power"), [(0.03, 1.10, 0.99), (0.08, 1.20, 0.99), (0.01, 1.10, 0.99)]
)
def test_verdicts(sigma, ratio, power, told):
    rng = np.random.default_rng(20261121)
    alone = verdicts_of(*simulated(rng, sigma, 1.0, 10000))
    slower = verdicts_of(*simulated(rng, sigma, ratio, 10000))
    faster = verdicts_of(*simulated(rng, sigma, 1 / ratio, 10000))
    reports = verdicts_of(*simulated(rng, sigma, 1.0, TABLE * REPORTS), TABLE)
    wrong = (
        np.isin(reports, (Verdict.REGRESSED, Verdict.IMPROVED)).reshape(REPORTS, TABLE).any(axis=1)
    )
    false = share(alone, Verdict.REGRESSED, Verdict.IMPROVED)
    told.append(
        f"noise {sigma:.0%}, {SESSIONS} sessions a side: false {false:.2%} of metrics, "
        f"{wrong.mean():.1%} of reports of {TABLE}; "
        f"unchanged {share(alone, Verdict.UNCHANGED):.0%}; "
        f"x{ratio:.2f} found {share(slower, Verdict.REGRESSED):.1%}, "
        f"x1/{ratio:.2f} {share(faster, Verdict.IMPROVED):.1%}"
    )
    assert false <= 0.01
    assert wrong.mean() <= (0.05 if sigma <= 0.03 else 0.10)
    assert share(slower, Verdict.REGRESSED) >= power
    assert share(faster, Verdict.IMPROVED) >= power


@pytest.mark.parametrize("sessions", [5, 10])
def test_few_sessions_are_seldom_wrong(sessions, told):
    rng = np.random.default_rng(7)
    alone = verdicts_of(*simulated(rng, 0.03, 1.0, 10000, sessions))
    slower = verdicts_of(*simulated(rng, 0.03, 1.10, 10000, sessions))
    told.append(
        f"noise 3%, {sessions} sessions a side: "
        f"false {share(alone, Verdict.REGRESSED, Verdict.IMPROVED):.2%} of metrics; "
        f"x1.10 found {share(slower, Verdict.REGRESSED):.1%}"
    )
    assert share(alone, Verdict.REGRESSED, Verdict.IMPROVED) <= 0.01
    assert share(slower, Verdict.REGRESSED) >= 0.5


def test_one_slow_metric_among_many_is_found(told):
    rng = np.random.default_rng(11)
    before, after = simulated(rng, 0.03, 1.0, TABLE * REPORTS)
    after.reshape(REPORTS, TABLE, SESSIONS)[:, 17] *= 1.10
    names = verdicts_of(before, after, TABLE).reshape(REPORTS, TABLE)
    power = share(names[:, 17], Verdict.REGRESSED)
    told.append(f"noise 3%, one of {TABLE} metrics x1.10: found {power:.1%}")
    assert power >= 0.97
