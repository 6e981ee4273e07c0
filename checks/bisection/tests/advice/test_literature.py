"""Findings of the studies of 2010, from the tables transcribed in reference/literature/."""

import csv

import pytest

from bisection.advice import sources


@pytest.mark.parametrize(
    ("benchmark", "best"),
    [
        (1, {16: 2, 32: 4, 64: 4, 128: 16, 256: 32}),  # V07
        (5, {128: 4, 256: 8, 512: 32, 1024: 32}),  # V08
    ],
)
def test_best_npar(benchmark, best):
    times = sources.npar_times(benchmark)
    assert {cores: sources.best(times[cores]) for cores in best} == best


def test_v09_hybrid_fixes_npar():
    assert all([*by_npar] == [cores] for cores, by_npar in sources.npar_times(2).items())


@pytest.mark.parametrize(
    ("benchmark", "cores", "choice"), [(1, 128, 16), (2, 64, 64), (5, 512, 32)]
)
def test_recommended_cores_are_those_of_appendix_b(benchmark, cores, choice):
    published = sources.npar_times(benchmark)
    times = {ranks: min(by_npar.values()) for ranks, by_npar in published.items()}
    assert sources.recommended(times)[0] == cores
    assert sources.best(published[cores]) == choice


@pytest.mark.parametrize(
    ("rule", "losses"),
    [("cores/16", (0.10, 0.02, 0, 0.03)), ("cores/32", (0, 0, 0.09, 0))],
)
def test_v08_rules_of_benchmark_5(rule, losses):
    rows = []
    for cores, times in sources.npar_times(5).items():
        choice = sources.nearest(times, sources.RULES[rule](cores))
        rows.append(times[choice] / min(times.values()) - 1)
    assert rows == pytest.approx(losses, abs=0.006)


def test_v11_npar_is_less_critical_on_more_cores():
    times = sources.npar_times(5)
    assert sources.spread(times[128]) == pytest.approx(1.86, abs=0.005)
    assert sources.spread(times[1024]) == pytest.approx(1.28, abs=0.005)


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


@pytest.mark.parametrize(
    ("cluster", "starts"), [("merlin", (256, 256, 128)), ("stella", (64, 64, 64))]
)
def test_d01_to_d04_crossovers(cluster, starts):
    times = (sources.md_times(cluster, test) for test in (10, 20, 30))
    assert tuple(map(sources.crossover, times)) == starts


def test_best_layouts():
    times = sources.md_times("merlin", 10)
    assert [sources.best(times[n]) for n in (128, 256, 512)] == ["mpi", "node2", "node"]
    assert times[512]["node"] == 12.014
    assert 1 not in times
