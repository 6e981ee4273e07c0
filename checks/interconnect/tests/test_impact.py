"""The impact of other traffic: medians and intervals over cycles, grades, what is withheld."""

import dataclasses
import json
import re

import pytest
from made_up_traffic import launch
from results_made import result_of

from bisection.analysis.resampling import estimate
from bisection.core.verdicts import Grade, Verdict
from bisection.kernels.local import Estimate
from bisection.runs.run_verdict import RunVerdict
from interconnect import impact
from interconnect.measured import of_run


def judged(**how):
    (verdict,) = impact.judge(launch(**how))
    return verdict


@pytest.mark.parametrize(
    ("how", "mean", "grade"),
    [
        ({}, None, Grade.GO),
        ({"mean": 1.15}, None, Grade.GO),
        ({"mean": 1.3}, None, Grade.LOOK),
        ({"mean": 1.1, "p99": 1.4}, None, Grade.GO),
        ({"mean": 1.1, "p99": 1.7}, None, Grade.LOOK),
        ({"mean": 2.4}, None, Grade.NO_GO),
        ({"mean": 1.1, "p99": 3.0}, None, Grade.NO_GO),
        # by the interval
        ({}, (2.4, 1.3, 3.0), Grade.NO_GO),
        ({}, (2.4, 1.1, 3.0), Grade.LOOK),  # it may be what is good
        ({}, (1.3, 1.05, 1.8), Grade.LOOK),
        ({}, (1.4, 0.9, 1.8), Grade.GO),  # it may be no impact at all
    ],
)
def test_grades(how, mean, grade):
    verdict = judged(**how)
    verdict = dataclasses.replace(verdict, mean=Estimate(*mean) if mean else verdict.mean)
    assert verdict.grade == grade
    assert (verdict.reason is None) == (grade == Grade.GO)


def test_median_and_interval_over_cycles():
    verdict = judged(mean=1.5)
    assert verdict.mean.value == pytest.approx(1.5, rel=0.02)
    assert verdict.mean.low < verdict.mean.value < verdict.mean.high
    assert verdict.mean.high - verdict.mean.low < 0.15  # the levels of the deals do not count
    assert verdict.load == pytest.approx(0.9)
    assert judged(mean=1.5) == verdict  # seeded


def test_one_cycle_far_off_and_cycles_without_a_quiet_window_do_not_count():
    assert estimate([1.0, 1.1, 9.0]).value == 1.1
    result = launch(mean=1.5)
    windows = result["details"][impact.KERNEL]["windows"]
    quiet = [window for window in windows if window["window"] == impact.QUIET]
    windows.remove(quiet[0])
    quiet[1]["mean"] = 0.0
    (verdict,) = impact.judge(result)
    assert verdict.mean.value == pytest.approx(1.5, rel=0.02)


def test_intervals_hold_the_truth():
    """Of 95% intervals of the median of 10, by resampling, at least 85% do, and at most 97%."""
    held = [judged(mean=1.5, noise=0.1, seed=seed).mean for seed in range(200)]
    assert 170 <= sum(part.low <= 1.5 <= part.high for part in held) <= 194


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ({"again": 1.2}, 1.2),
        ({"again": 0.8}, 0.8),
        ({"load": 0.4}, "moved 40%"),
        ({"alone": False}, "was not measured alone"),
        ({"taken": 4}, "in 40% of the samples"),
        ({"cycles": 4}, "4 cycles were measured; 5 are needed"),
    ],
)
def test_what_is_not_judged(how, says):
    verdict = judged(mean=3.0, **how)
    assert verdict.grade is None
    if isinstance(says, float):
        took = re.search(r"took ([\d.]+)", str(verdict.withheld))
        assert float(took[1]) == pytest.approx(says, rel=0.02)
    else:
        assert says in str(verdict.withheld)
    assert str(verdict.reason).endswith(f"is not judged: {verdict.withheld}")


def test_a_launch_without_windows_has_no_impacts():
    assert impact.judge({"details": {}}) == []
    assert impact.judge({}) == []


def test_the_memory_of_the_messages_is_named(tmp_path):
    """Launches on devices differ by nothing else."""
    cases = []
    for layout in ("mpi", "gpu-host", "gpu-device"):
        (tmp_path / f"{layout}.json").write_text(json.dumps(launch()))
        place = ("cluster", "gpus", "system", "Launch", "apart", layout, "")
        kept = {"fixture": True, "files": f"{tmp_path}/{layout}.*", "verdict": Verdict.PASS}
        cases.append(result_of(*place, kernel="congestion", **kept))
    impacts = of_run(RunVerdict(cases=cases), None)[2]
    assert [i.place for i in impacts] == ["apart", "apart, host memory", "apart, device memory"]
