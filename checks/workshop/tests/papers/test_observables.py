"""Findings of the papers as expressions of results."""

import math

import pytest
import yaml

from bisection.advice import sources
from bisection.core import paths, reference_files
from papers import observables
from papers.observables import Kind, Observable, Point, Unmeasured
from workshop.papers.published import md_times

TIMES = {4: 5.0, 8: 3.0, 16: 2.0, 32: 4.0}  # of every method but these
OTHERS = {"node": 2.0, "npar-4": 0.5, "alltoall": 0.25}


def value(expression, kernel="transpose", case="cnt40"):
    """Of an expression, where a method takes TIMES; bytes are the cores."""

    def lookup(point, metric):
        if point.cores not in TIMES:
            raise Unmeasured(point, metric)
        factor = OTHERS.get(point.method, 1.0) * OTHERS.get(point.layout, 1.0)
        return factor * TIMES[point.cores] if metric == "time" else float(point.cores)

    return Observable("X01", "hector-xt4", kernel, case, expression, "1", Kind.RATIO).value(lookup)


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ("alltoallv[8] / alltoallv[16]", 1.5),
        ("alltoallv[32] - 2 * min(alltoallv[16], padded[4])", 0.0),
        ("max(alltoallv[16], alltoall[4])", 2.0),
        ("peak(shm_padded, 4, 8, 16, 32)", 16),
        ("peak(shm_padded, 4, 8)", 8),
        ("fastest(16, npar_2, npar_4, npar_8)", 4),
        ("hpcx_phase1.shm[8] / cnt80.shm[4]", 0.6),
        ("node.dlpoly3.bytes_per_rank[32] / mpi.dlpoly3.bytes_per_rank[4]", 8.0),
        ("crossover(mpi.alltoall, node.alltoallv, 4, 8)", 0),
        ("crossover(node.alltoallv, mpi.alltoallv, 4, 8)", 4),
    ],
)
def test_value_of_an_expression(expression, wanted):
    assert value(expression) == wanted


@pytest.mark.parametrize("text", ["__import__('os')", "[1]", "shm", "eval('1')", "shm[8] +"])
def test_what_is_no_expression_is_rejected(text):
    with pytest.raises(ValueError, match="not an expression"):
        value(text)


def test_a_launch_that_is_missing_is_named():
    with pytest.raises(Unmeasured) as error:
        value("shm[64]")
    assert error.value.point == Point("hector-xt4", "transpose", "cnt40", "mpi", 64, "shm")


@pytest.mark.parametrize(
    ("kind", "published", "holding", "failing"),
    [
        ("ratio", "4", (3.0, 4.0, 5.0), (2.99, 5.01)),
        ("count", "24", (24,), (23, 48)),
        ("sign", "<1", (0.0, 0.999), (1.0, 1.1)),
        ("sign", ">1.31", (1.32, 50), (1.31, 1.0)),
        ("range", "1.65..2.88", (1.65, 2.88), (1.6, 2.9)),
    ],
)
def test_verdict_by_kind(kind, published, holding, failing):
    part = Observable("X01", "m", "transpose", "cnt40", "shm[8]", published, Kind(kind))
    assert all(map(part.holds, holding))
    assert not any(map(part.holds, failing))


# ---- the tables ----


def test_each_finding_has_what_asserts_it():
    listed = observables.findings()
    assert len({finding.id for finding in listed}) == len(listed)
    for finding in listed:
        assert finding.by in ("simulated", "test", "typed", "missing"), finding
        assert (finding.by == "simulated") <= bool(finding.observables), finding
        if finding.by in ("test", "typed"):
            path, name = finding.where.split()
            assert name in (paths.ROOT / path).read_text(encoding="utf-8"), finding
        if finding.by == "missing":
            assert finding.where, finding
        for part in finding.observables:
            assert part.points, part
            assert part.bounds[0] <= part.bounds[1], part


def test_published_ratios_are_those_of_the_tables():
    """Table 1 of Chorley and Walker, appendix B of Catlow et al., typed again as ratios."""

    def lookup(point, metric):
        if point.kernel == "npar":
            times = sources.npar_times(int(point.case.removeprefix("bench")))
            return times[point.cores][int(point.method.removeprefix("npar-"))]
        times = md_times(point.machine, int(point.case.removeprefix("test")))
        assert 1 not in times  # where layouts do not differ
        return times[point.cores][point.layout]

    for finding in observables.findings():
        if finding.id in ("V07", "V08", "V11", "D01", "D02", "D03", "D04"):
            for part in finding.observables:
                value = part.value(lookup)
                assert part.holds(value), part
                assert part.number is None or value == pytest.approx(part.number, abs=0.005), part


@pytest.mark.parametrize("machine", observables.machines())
def test_references_of_simulated_systems_are_the_published_values(machine):
    path = reference_files.path(machine)
    checks = yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else {}
    wanted = {}
    for finding in observables.findings():
        for number, part in enumerate(finding.observables, 1):
            places = {(point.machine, point.kernel, point.case) for point in part.points}
            (name, kernel, case), *others = places
            if name == machine and not others and part.kind != Kind.NUMBER and not finding.lacking:
                check = f"scaling_{kernel}_{case.replace('-', '_')}"
                wanted[check, finding.id, f"part_{number}"] = part.bounds
    given = {
        (check, finding, metric): bounds
        for check, entry in checks.items()
        for finding, metrics in entry.items()
        if check.startswith("scaling_") and not finding.startswith("$")
        for metric, bounds in metrics.items()
    }
    assert given.keys() == wanted.keys()
    for key, (low, high) in wanted.items():
        assert reference_files.faults(given[key]) == []
        least, most = reference_files.span_of(given[key])
        assert least == pytest.approx(low, abs=2e-4 * most), key
        assert most == pytest.approx(high, rel=1e-3) or (most > 999 and math.isinf(high)), key
