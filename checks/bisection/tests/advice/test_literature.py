"""Findings of the studies of 2010, from the tables transcribed in reference/literature/."""

import csv

import pytest

from bisection.advice import sources


@pytest.mark.parametrize(
    ("benchmark", "best"),
    [
        (1, {16: 2, 32: 4, 64: 4, 128: 16, 256: 32}),  # V07
        (2, {64: 64, 128: 128}),  # V09
        (5, {128: 4, 256: 8, 512: 32, 1024: 32}),  # V08
    ],
)
def test_best_npar(benchmark, best):
    times = sources.npar_times(benchmark)
    assert {cores: sources.best(times[cores]) for cores in best} == best


@pytest.mark.parametrize(("benchmark", "cores"), [(1, 128), (2, 64), (5, 512)])
def test_recommended_cores_are_those_of_appendix_b(benchmark, cores):
    published = sources.npar_times(benchmark).items()
    assert sources.recommended({n: min(times.values()) for n, times in published})[0] == cores


def test_v11_npar_is_less_critical_on_more_cores():
    spreads = [sources.spread(sources.npar_times(5)[cores]) for cores in (128, 1024)]
    assert spreads == pytest.approx([1.86, 1.28], abs=0.005)


@pytest.mark.parametrize(
    ("benchmark", "cores", "before", "after", "gain", "digits"),
    [
        (1, 256, "original", "collectives", 2.13, 0.01),
        (5, 1024, "original", "collectives", 10.0, 0.05),
        (2, 128, "collectives", "allreduce", 1.9, 0.05),
        (5, 1024, "nozero", "scalapack", 1.23, 0.01),
    ],
)
def test_v01_to_v04_gains_of_the_knobs(benchmark, cores, before, after, gain, digits):
    times, wanted = {}, (str(benchmark), str(cores), "ok")
    with open(sources.LITERATURE / "vasp_timings.csv", newline="") as file:
        for row in csv.DictReader(file):
            if (row["benchmark"], row["cores"], row["status"]) == wanted:
                # the better of two runs, as the source counts
                times[row["stage"]] = min(float(row["run1_s"]), float(row["run2_s"]))
    assert times[before] / times[after] == pytest.approx(gain, abs=digits)
