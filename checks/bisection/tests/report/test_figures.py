"""Figures: what they show, and what they leave out."""

import math
import re
from dataclasses import replace

from reports import HPCX, case, hpcx, only, page, published, ran, row, rows_of, series

from bisection.core.verdicts import Verdict
from bisection.report.figures import common, hybrid, sessions
from bisection.report.figures import comparison as comparisons
from bisection.report.svg import style


def test_figure_17_of_the_hpcx_report():
    report = hpcx()
    html = page(report)
    for _, code, data, processors, speedup, state, against in HPCX:
        label = f"{code} {data}".strip()
        assert f"{label}: {speedup:.2f} {against}" in html.said, "description"
        assert f"{processors} \u00d7 1, {processors // 32} nodes" in html.said
        assert f"Phase1 \u2192 Phase2 {state}" in html.said
    assert "expected 1.31" in html.said
    assert "different numbers of ranks (64, 256, 512, 768, 1024)" in html.said
    assert "2 different pairs of software states" in html.said
    assert "Speed-up against ranks" in html.headings  # NAMD, at three numbers of processors
    assert "1.31 at 256 to 1.13 at 1024" in html.said


def test_bars_show_the_worst_first_and_count_the_others():
    rows = [row(case=f"c{n}", ratio=1 + n / 1000, verdict=Verdict.UNCHANGED) for n in range(50)]
    rows += [row(case="bad", ratio=1.01, verdict=Verdict.REGRESSED)]
    groups = comparisons.speedups(rows, None)
    assert len(groups[0].table.rows) == comparisons.BARS
    assert "21 more tests are not drawn" in groups[0].table.note
    assert any("bad" in cells[0] for cells in groups[0].table.rows)
    at = groups[0].table.head.index("speed-up")
    speedups = [float(cells[at]) for cells in groups[0].table.rows]
    assert speedups == sorted(speedups)


def test_a_bar_is_a_time_or_where_there_is_none_a_rate():
    rate = {"metric": "bandwidth", "unit": "B/s", "better": "higher", "ratio": 1.2}
    rows = [row(), row(**rate), row(case="io", **rate), row(metric="pack_share", unit="share")]
    assert [r.case + r.metric for r in comparisons.primary(rows)] == ["cnt40time", "iobandwidth"]


def test_several_numbers_of_cores_give_curves_and_one_gives_dots():
    several = page(only(run=ran(*published())))
    assert "Speed-up over alltoallv on 16 cores" in several.said
    assert "shm" in several.said
    here = [case(method=m, layout=x) for m in ("alltoallv", "shm") for x in ("mpi", "node")]
    assert "Time of each method and layout" in page(only(run=ran(*here))).said


def test_cases_that_ran_several_times_count_as_their_median():
    runs = [case(method=m, seconds=s) for s in (0.010, 0.012, 0.5) for m in ("a", "b")]
    (group,) = sessions.crossovers(common.timed(common.measured_cases(runs)), style.Styles(runs))
    assert group.table.rows == [["cnt40", "mpi 2x1", "2", "12 ms", "12 ms"]]


def test_message_sizes_of_repeated_runs_are_one_curve():
    runs = [
        case(
            "network", "sweep", "alltoall", metrics={"time_8B": (k, "s"), "time_1KiB": (9 * k, "s")}
        )
        for k in (1e-6, 2e-6, 9e-6)
    ]
    (group,) = sessions.sweeps(common.measured_cases(runs), style.Styles(runs))
    assert group.table.head == ["case", "method", "8 B", "1 KiB"]
    assert group.table.rows == [["network sweep mpi 2x1", "alltoall", "2 us", "18 us"]]


def test_partitions_with_as_many_cores_are_not_mixed():
    cases = [
        case(method=m, partition=f"a:{p}", seconds=s)
        for p, s in (("old", 0.2), ("new", 0.1))
        for m in ("a", "b")
    ]
    groups = sessions.crossovers(common.timed(common.measured_cases(cases)), style.Styles(cases))
    assert [group.title for group in groups] == [
        "transpose on a:old, environment system",
        "transpose on a:new, environment system",
    ]


def test_what_was_not_measured_is_not_drawn():
    withheld = [case(method=m, verdict=Verdict.NOT_MEASURED) for m in ("a", "b")]
    assert "Methods" not in page(only(run=ran(*withheld))).headings


def test_a_history_marks_its_steps_for_better_and_for_worse():
    values = [1.0] * 10 + [2.0] * 10 + [math.nan] + [0.5] * 9
    worse, better = "stroke:var(--bad)", "stroke:var(--better)"

    def ticks(direction):
        svg = style.sparkline(values, [10, 20], direction).replace(" ", "")
        return re.findall(f"{re.escape(worse)}|{re.escape(better)}", svg)

    assert ticks("lower") == [worse, better]
    assert ticks("higher") == [better, worse]


def test_a_sweep_has_a_bar_of_the_size_that_changed_most():
    def point(size, ratio):
        return replace(rows_of(regressed=1)[0], metric=f"time_{size}", ratio=ratio)

    points = [point("8B", 9.0), point("1KiB", 4.0), point("min_8B", 20.0), point("1MiB", 1.1)]
    assert [row.metric for row in comparisons.primary(points)] == ["time_8B"]
    assert comparisons.primary([*points, replace(points[0], metric="time")])[0].metric == "time"


def test_figures_fill_their_cards():
    for count, width in ((1, 1036), (2, 507), (3, 330), (4, 507), (5, 330)):
        cases = [case(name=f"c{n}", method=m) for n in range(count) for m in ("a", "b")]
        groups = sessions.crossovers(common.measured_cases(cases), style.Styles(cases))
        (group,), _ = common.draw(groups, 10**6)
        assert {re.search(r'viewBox="0 0 (\d+)', panel.svg)[1] for panel in group.panels} == {
            str(width)
        }
        for panel in group.panels:
            assert ('viewBox="0 0 330' in panel.narrow) == (width > 330)


def test_preempted_launches_are_drawn_hollow_and_only_then_explained():
    quiet = [case(method=m) for m in ("a", "b")]
    loud = [case(method=m, layout="node", preempted=0.9) for m in ("a", "b")]
    texts = {
        name: page(only(run=ran(*cases))).said
        for name, cases in {"quiet": quiet, "loud": quiet + loud}.items()
    }
    assert "hollow: other processes" not in texts["quiet"]
    assert "hollow: other processes" in texts["loud"]
    (group,) = sessions.crossovers(common.measured_cases(quiet + loud), style.Styles())
    hollow = "fill:var(--paper)"
    svg = group.panels[0].draw(width=330).replace(" ", "")
    assert svg.count(hollow) == 2


def test_a_case_without_shares_is_not_drawn_as_free_of_communication():
    """Shares by kind are unknown where steps were preempted; a case that sends nothing has none."""
    known = {"collective_share": (0.25, "fraction"), "mpi_share": (0.25, "share")}
    phases = {"exchange_share": (0.25, "share")}
    quiet = case(metrics=known | phases)
    loud = case(name="silicon", preempted=0.25, metrics=phases)
    alone = case(name="alone", geometry="1x1", metrics={"mpi_share": (0.0, "share")})
    (group,) = hybrid.shares(common.measured_cases([quiet, loud, alone]))
    assert {row[0]: row[-1] for row in group.table.rows} == {"cnt40": "25%", "alone": "0%"}
    (group,) = hybrid.shares(common.measured_cases([loud]))
    assert [row[0] for row in group.table.rows] == ["silicon"]  # by its own phases
    assert "exchange" in group.table.head


def test_legends_explain_only_what_is_in_the_figure():
    alone = page(only(run=ran(*(case(method=m) for m in ("a", "b"))))).said
    assert "ideal" not in alone
    assert "best" not in alone
    several = page(only(run=ran(*published()))).said
    assert "ideal" in several
    assert "best" in several
    flat = page(only(series=[series([1.0, 1.0, 1.0])])).said
    assert "triangle" not in flat
    assert "triangle" in page(only(series=[series([1.0] * 10 + [2.0] * 10, [10])])).said
