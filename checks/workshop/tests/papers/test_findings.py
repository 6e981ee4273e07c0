"""Findings of the papers: their verdicts, in text and as figures."""

from dataclasses import replace

import pytest

from bisection.core.verdicts import Exit
from papers.observables import Finding, Kind, Observable, Unmeasured, findings
from workshop.papers import published
from workshop.papers.judging import Shown, counts, exit_code, judged, numbers
from workshop.papers.simulation import Cost, rows
from workshop.papers.text import costs, text, totals, turned


def finding(by="simulated", lacking="", change="", **parts):
    """With an observable per part: its published value, which its name is the method of."""
    observables = tuple(
        Observable("X01", "merlin", "transpose", "cnt40", f"{name}[8] / {name}[4]", value, kind)
        for name, (value, kind) in parts.items()
    )
    return Finding("X01", "gww", "1", "a finding", by, "a kernel", lacking, change, observables)


def lookup(point, metric):
    """Eight cores take half of the time of four, but of method `slow`; `gone` was not measured."""
    if point.method == "gone":
        raise Unmeasured(point, metric)
    return 4.0 / point.cores if point.method != "slow" else float(point.cores)


HALF, NEAR, FAR = ("0.5", Kind.RATIO), ("0.6", Kind.RATIO), ("1", Kind.RATIO)
BELOW = ("<1", Kind.SIGN)
ROUTES = {"lacking": "routes"}
KNOWN = {**ROUTES, "change": "merlin gap=0"}
OFF, LACKS, GONE = ", not ", "routes", "not measured, the first by"


@pytest.mark.parametrize(
    ("observations", "verdict", "says", "code"),
    [
        (finding(a=HALF, b=NEAR), Shown.TRUE, [], Exit.OK),
        (finding(a=HALF, slow=BELOW), Shown.FALSE, [OFF], Exit.FAILED),
        (finding(a=FAR), Shown.FALSE, [OFF], Exit.FAILED),
        (finding(a=HALF, gone=BELOW), Shown.NOT_RUN, [GONE], Exit.NOT_MEASURED),
        (finding(a=FAR, gone=BELOW), Shown.FALSE, [OFF, GONE], Exit.FAILED),
        (finding(**KNOWN, a=FAR), Shown.FALSE, [OFF, LACKS], Exit.OK),
        (finding(**ROUTES, a=FAR), Shown.FALSE, [OFF, LACKS], Exit.FAILED),
        (
            finding(**ROUTES, a=HALF),
            Shown.TRUE,
            ["shown, though routes: mend findings.csv"],
            Exit.FAILED,
        ),
        (finding(by="typed"), Shown.TYPED, [], Exit.OK),
        (finding(by="missing"), Shown.MISSING, ["needs a kernel"], Exit.OK),
    ],
)
def test_verdict(observations, verdict, says, code):
    row = judged(observations, lookup)
    assert (row.verdict, len(row.reasons)) == (verdict, len(says))
    assert all(words in reason for words, reason in zip(says, row.reasons, strict=True))
    assert exit_code([row]) == code
    assert "X01" in "\n".join(text([row], verbose=True))


def test_numbers_within_a_quarter_are_counted_and_false_findings_explained_or_not():
    near = [judged(finding(a=HALF, b=NEAR, c=FAR, d=BELOW), lookup)]
    assert [part.holds for part in numbers(near)] == [True, True, False]
    assert "2 of 3 published numbers within 25%" in "\n".join(totals(near))
    lines = "\n".join(text([judged(finding(**how, a=FAR), lookup) for how in (KNOWN, ROUTES)]))
    assert "2 false (1 explained, 1 not explained)" in lines
    assert "true with merlin gap=0: routes" in lines
    assert "not explained; perhaps: routes" in lines


def test_true_by_prediction_by_fit_and_where_each_printed_number_decides():
    loose = finding(a=HALF, b=("1", Kind.NUMBER))
    fit = replace(loose, id=next(row["fits"] for row in rows() if row["fits"]))
    judgements = [judged(item, lookup) for item in (loose, fit, finding(a=HALF), finding(a=FAR))]
    assert counts(judgements, strictly=False) == (2, 1, 1)
    assert counts(judgements, strictly=True) == (1, 0, 3)
    assert fit.id in "\n".join(text(judgements, verbose=True))


def test_what_a_change_turns():
    known = finding(a=HALF)
    faster = judged(known, lambda point, metric: lookup(point, metric) ** 2)
    lines = "\n".join(turned([(judged(known, lookup), faster)], verbose=True))
    assert "X01: true -> false: a finding" in lines
    assert "a[8] / a[4]" in lines
    assert "still true: X01" in "\n".join(turned([(judged(known, lookup),) * 2]))


def test_costs_of_launches():
    launches = [Cost(("merlin", "md", "test30", "mpi", n), float(n), n * 10**9) for n in (1, 2)]
    lines = list(costs(launches))
    assert "2.0 s" in lines[0]
    assert "2 launches: 3 s of one core, at most 2.0 GB each" in "\n".join(lines)
    assert list(costs([])) == []


def test_figures_are_drawn_from_results_and_without_them_nothing_is_true():
    def made_up(point, metric):
        return 1.0 + point.cores / 100 + len(point.method) / 10

    def nothing(point, metric):
        raise Unmeasured(point, metric)

    page = published.page(made_up, [judged(item, made_up) for item in findings()])
    drawn = [*(f"Figure {number}" for number in range(2, 12)), "Appendix B"]
    assert [name for name in drawn if name not in page] == []
    unknown = [judged(item, nothing) for item in findings()]
    assert not any(row.verdict in (Shown.TRUE, Shown.FALSE) for row in unknown)
    assert exit_code(unknown) == Exit.NOT_MEASURED
    assert "Figure 17" in published.page(nothing, unknown)
