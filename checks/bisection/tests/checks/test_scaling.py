"""What the checks of scaling measure, of made-up launches, on a machine of the papers."""

import importlib
from functools import partial
from types import SimpleNamespace

import pytest
from fake_kernel import entry, layout_of
from reframe.core import runtime

CASE = {"kernel": "transpose", "case": "cnt40"}


@pytest.fixture
def scaling(monkeypatch):
    machine = SimpleNamespace(name="hector-xt4", partitions=[])
    here = SimpleNamespace(system=machine, get_option=lambda *_: [])
    monkeypatch.setattr(runtime, "runtime", lambda: here)
    return importlib.import_module("scaling")


def launch(cores, methods):
    """Each method takes a second, over the number of cores."""
    entries = [entry(method, False, None) for method in methods]
    for each in entries:
        each["metrics"]["time"]["value"] = 1 / cores
    layout = layout_of([{"host": "n1"}] * cores)
    return SimpleNamespace(result={**CASE, "started": "", "layout": layout, "results": entries})


@pytest.mark.parametrize("lost", [[], ["mpi-1"]])
def test_times_of_all_launches_or_which_are_missing(scaling, lost):
    planned = scaling.launches_of(*CASE.values())
    wanted = {f"{layout}-{cores}": (cores, w.methods) for (layout, cores), w in planned.items()}
    launches = [launch(*part) for name, part in wanted.items() if name not in lost]
    times = {
        f"time_{method}_{name}": 1 / cores
        for name, (cores, methods) in wanted.items()
        for method in methods
        if name not in lost
    }
    check, told = SimpleNamespace(**CASE, method=scaling.TIMES, launches=launches), []
    check.fail_for = told.append
    check.require_metrics = partial(scaling.ScalingCheck.require_metrics, check)
    assert scaling.ScalingCheck.verified(check)
    assert times
    assert {name: metric["value"] for name, metric in check.reported.items()} == times
    assert len(told) == len(lost)
    assert all("metric missing from" in str(reason) for reason in told)
