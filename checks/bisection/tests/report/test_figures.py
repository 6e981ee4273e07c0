"""Figures: what they show, and what they leave out."""

import itertools
import json
import math
import re
from dataclasses import replace

import pytest
from reports import HPCX, case, hpcx, only, page, published, ran, row, rows_of, series

from bisection.core.verdicts import Verdict
from bisection.kernels import results
from bisection.kernels.launch_record import LaunchRecord
from bisection.report.figures import burn_figures, common, session_figures
from bisection.report.svg import plots, style
from bisection.runs.run_verdict import RunVerdict


def methods(cases):
    """The groups of figures that compare methods."""
    return [*session_figures.crossovers(common.measured_cases(cases))]


def test_figure_17_of_the_hpcx_report():
    html = page(hpcx())
    for code, data, processors, speedup, against in HPCX:
        label = f"{code} {data}".strip()
        assert f"{label}: {speedup:.2f} {against}" in html.text, "description"
        assert f"{processors} \u00d7 1, {processors // 32} nodes" in html.text
    assert "Phase1 \u2192 Phase2" in html.text
    assert "expected 1.31" in html.text


def test_bars_show_the_worst_first_and_count_the_others():
    rows = [row(case=f"c{n}", ratio=1 + n / 1000, verdict=Verdict.UNCHANGED) for n in range(50)]
    rows += [row(case="bad", ratio=1.01, verdict=Verdict.REGRESSED)]
    (group,) = session_figures.speedups(rows, None)
    assert len(group.table.rows) == session_figures.BARS
    assert "21 more tests are not drawn" in group.note
    assert "transpose bad mpi shm" in group.table.rows[0]
    bars = [float(text) for text in re.findall(r": ([\d.]+) \w", group.panels[0].describe)]
    assert bars == sorted(bars)


def test_a_bar_is_a_time_or_where_there_is_none_a_rate_or_the_size_that_changed_most():
    rate = {"metric": "bandwidth", "unit": "B/s", "better": "higher", "ratio": 1.2}
    rows = [row(), row(**rate), row(case="io", **rate), row(metric="pack_share", unit="share")]
    chosen = [r.case + r.metric for r in session_figures.primary(rows)]
    assert chosen == ["cnt40time", "iobandwidth"]
    sizes = {"8B": 9.0, "1KiB": 4.0, "min_8B": 20.0, "1MiB": 1.1}
    (first,) = rows_of(regressed=1)
    points = [replace(first, metric=f"time_{size}", ratio=ratio) for size, ratio in sizes.items()]
    for name in ("time_8B", "bandwidth", "time"):  # each goes before those above
        points.append(replace(first, metric=name, unit="B/s" if name == "bandwidth" else "s"))
        assert [row.metric for row in session_figures.primary(points)] == [name]


def test_several_numbers_of_cores_give_curves_and_one_gives_dots():
    """The legends explain what is in the figure alone."""
    several = page(only(run=ran(*published()))).text
    assert "Speed-up over alltoallv on 16 cores" in several
    cases = [case(method=m, layout=x) for m in ("alltoallv", "shm") for x in ("mpi", "node")]
    one = page(only(run=ran(*cases))).text
    assert "Time of each method and layout" in one
    for word in ("ideal", "best"):
        assert (word in several, word in one) == (True, False)


def test_several_runs_of_a_test_count_as_their_median():
    runs = []
    for time, method in itertools.product((0.010, 0.012, 0.5), ("a", "b")):
        points = {"time_8B": (time, "s"), "time_1KiB": (2 * time, "s")}
        runs.append(case("network", "sweep", method, seconds=time, metrics=points))
    (group,) = methods(runs)
    assert group.table.rows == [["sweep", "mpi 2x1", "2", "12 ms", "12 ms"]]
    (group,) = session_figures.sweeps(common.measured_cases(runs))
    assert group.table.head == ["case", "method", "8 B", "1 KiB"]
    assert group.table.rows == [["sweep mpi 2x1", m, "12 ms", "24 ms"] for m in ("a", "b")]


def test_partitions_with_as_many_cores_are_not_mixed_and_what_was_not_measured_is_not_drawn():
    tests = itertools.product(("old", "new"), ("a", "b"))
    cases = [case(method=method, partition=f"a:{name}") for name, method in tests]
    assert [group.title for group in methods(cases)] == [
        "transpose on a:old, environment system",
        "transpose on a:new, environment system",
    ]
    assert methods([replace(case, verdict=Verdict.NOT_MEASURED) for case in cases]) == []


@pytest.mark.parametrize(("better", "order"), [("lower", ("bad", "better")),
                                               ("higher", ("better", "bad"))])  # fmt: skip
def test_a_history_marks_its_steps_for_better_and_for_worse(better, order):
    values = [1.0] * 10 + [2.0] * 10 + [math.nan] + [0.5] * 9
    svg = style.sparkline(values, [10, 20], better)
    ticks = re.findall(r"stroke: ?var\(--(bad|better)\)", svg)
    assert tuple(dict.fromkeys(ticks)) == order
    for steps in ([], [10]):
        words = page(only(series=[series(values, steps)])).text
        assert ("triangle" in words) == bool(steps)


@pytest.mark.parametrize(("count", "width"), [(1, 1036), (2, 507), (3, 330), (4, 507), (5, 330)])
def test_figures_fill_their_cards(count, width):
    cases = [case(name=f"c{n}", method=m) for n in range(count) for m in ("a", "b")]
    (group,), _ = common.draw(methods(cases), 10**6)
    assert all(f'viewBox="0 0 {width} ' in panel.svg for panel in group.panels)


def test_a_case_without_shares_is_not_drawn_as_free_of_communication():
    """Shares by kind are unknown where steps were disturbed; a case that sends nothing has none."""
    known = {"collective_share": (0.25, "fraction"), "mpi_share": (0.25, "share")}
    phases = {"exchange_share": (0.25, "share")}
    quiet = case(metrics=known | phases)
    loud = case(name="silicon", disturbed=0.25, metrics=phases)
    alone = case(name="alone", geometry="1x1", metrics={"mpi_share": (0.0, "share")})
    (group,) = session_figures.shares(common.measured_cases([quiet, loud, alone]))
    assert {row[0]: row[-1] for row in group.table.rows} == {"cnt40": "25%", "alone": "0%"}
    (group,) = session_figures.shares(common.measured_cases([loud]))
    assert [row[0] for row in group.table.rows] == ["silicon"]  # by its own phases
    assert "exchange" in group.table.head


@pytest.mark.parametrize(("kernel", "headings"), [("transpose", True), ("burn", False)])
def test_times_of_methods_that_compute_different_results_are_not_set_side_by_side(kernel, headings):
    tests = itertools.product(("dgemm", "triad"), ("mpi", "node"))
    cases = [case("mine", method=m, layout=x, kernel=kernel) for m, x in tests]
    shown = {"Methods", "Hybrid layouts"} & {*page(only(run=ran(*cases))).headings}
    assert shown == ({"Methods", "Hybrid layouts"} if headings else set())


@pytest.mark.parametrize("hollow", [False, True])
def test_a_hollow_curve_is_told_from_a_full_one(hollow):
    curve = plots.Curve(style.Style.number(0), {1: 1.0, 2: 2.0}, hollow=hollow)
    assert ("fill: var(--paper)" in plots.curves_svg([curve], "x", "y", 300)) == hollow


def test_burn_in_shows_the_course_of_the_node_that_keeps_least(tmp_path):
    """The rate falls to 70% after two minutes; of the clock one reading is lost."""
    seconds = [*range(1, 181)]
    rate = [100.0 if at <= 120 else 70.0 for at in seconds]
    clock = [None, *([2.6] * 119), *([1.82] * 60)]
    curve = {"host": "n7", "busy": seconds, "rate": rate, "clock": clock}
    nodes = [
        {"host": f"n{k}", "cores": 8, "rate": 100.0, "first": 100.0, "last": 70.0 if k == 7 else 99}
        for k in range(20)
    ]
    nodes[7] |= {"temperature": 97.0, "joules": 2.5, "corrected_errors": 3}
    burn = {"dgemm": {"unit": "Gflop/s", "nodes": nodes, "curve": curve}}
    result = {"schema": results.SCHEMA, "version": results.VERSION, "kernel": "burn"}
    result |= {"status": "complete", "details": {"burn": burn}}
    (tmp_path / "burn.json").write_text(json.dumps(result))
    launch = replace(
        case("burn", "node", "dgemm"),
        fixture=True, files=f"{tmp_path}/burn.*", record=LaunchRecord("burn"),
    )  # fmt: skip
    (group,) = burn_figures.curves(RunVerdict([launch]))
    (panel,) = group.panels
    assert "dgemm on n7" in panel.title
    assert "70% of the first" in panel.describe
    drawn = {id(c.style): c.points for c in panel.draw.args[0]}
    of_rate, of_clock = drawn.values()
    assert [of_rate[min(of_rate)], of_rate[max(of_rate)]] == pytest.approx([1, 0.7])
    assert of_clock[max(of_clock)] == pytest.approx(0.7)
    assert len(of_rate) <= burn_figures.POINTS
    assert panel.draw(width=330).startswith("<svg")
    first, second, *_ = group.table.rows
    assert first[:3] == ["dgemm", "n7", "70%"]
    assert {"97 degC", "2.5 J", "3"} <= set(first)
    assert second[2] == "99%"
    assert len(group.table.rows) == burn_figures.NODES


def test_a_burn_in_without_its_result_has_no_figure(tmp_path):
    launch = replace(case("burn"), fixture=True, files=f"{tmp_path}/gone.*")
    assert [*burn_figures.curves(RunVerdict([launch]))] == []
    assert [*burn_figures.curves(None)] == []
