"""Reports: what each form says, that nothing in the data breaks it, and that it stays small."""

import itertools
import json
import math
import os
import random
import re
import time
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from bisection import charts, report, texts
from bisection.comparison import (
    IMPROVED,
    INCONCLUSIVE,
    MISSING,
    NEW,
    NOT_MEASURED,
    REGRESSED,
    UNCHANGED,
    VERDICTS,
    Change,
    ChangePoint,
    Comparison,
    Pairs,
    Row,
    Series,
    Side,
    Suspect,
)
from bisection.layout import parsed
from bisection.report import Report

NIGHT = 86400.0
MADE = 1795248000.0  # 2026-11-21 08:00 UTC
HOSTILE = "</script><script>alert(1)</script><b>&\"'`|$x_1$ \x1b[31m\x00{{ 7*7 }} --> ]]>"

# ---- what is reported ----


def row(check="transpose", case="cnt40", method="shm", verdict=UNCHANGED, ratio=1.0, **more):
    """A row in seconds with an interval of 4%, unless `more` says otherwise."""
    low, high = (None, None) if ratio is None else (ratio * 0.96, ratio * 1.04)
    geometry, software = more.pop("geometry", "2x1"), more.pop("software", ("MPI 4.1", "MPI 5.0"))
    values = (0.01, None if ratio is None else 0.01 * ratio)
    before, after = (
        Side(5, 10, value, 0.02, geometry, [], state)
        for value, state in zip(values, software, strict=True)
    )
    fields = {"system": "generic", "partition": "default", "environ": "system", "layout": "mpi"}
    fields |= {"metric": "time", "unit": "s", "better": "lower", "control": False, "p": 0.01}
    fields |= {"low": low, "high": high, "ratio": ratio, "before": before, "after": after, **more}
    return Row(check=check, case=case, method=method, verdict=verdict, **fields)


def comparison(rows, **more):
    before = [
        {
            "uuid": f"{n}c0bcb89",
            "start": MADE - n * NIGHT,
            "tags": {"tier": "nightly"},
            "folder": f"r{n}",
        }
        for n in range(7, 0, -1)
    ]
    after = [{"uuid": "feedbeef", "start": MADE, "tags": {"phase": "after"}, "folder": "r0"}]
    return Comparison(before, after, rows, **more)


def series(values, points=(), **more):
    fields = {"system": "generic", "partition": "default", "environ": "system", "layout": "mpi"}
    fields |= {"check": "transpose", "case": "cnt40", "method": "shm", "metric": "time"}
    fields |= {"unit": "s", "better": "lower", **more}
    times = [MADE - n * NIGHT for n in range(len(values), 0, -1)]
    return Series(times=times, values=list(values), points=list(points), **fields)


def change_point(ratio=1.3, **more):
    fields = {"system": "generic", "partition": "default", "environ": "system", "layout": "mpi"}
    fields |= {"check": "transpose", "case": "cnt40", "method": "shm", "metric": "time"}
    fields |= {"unit": "s", "better": "lower", "session": "feedbeef", "at": MADE - 3 * NIGHT}
    fields |= {"ratio": ratio, "before": 20, "after": 4, **more}
    return ChangePoint(**fields)


def case(check="transpose", name="cnt40", method="shm", geometry="2x1", seconds=0.01, **more):
    """A case of verdict.json that passed; `metrics` are further ones, as name=(value, unit)."""
    metrics = {"time": (seconds, "s"), **more.pop("metrics", {})}
    fields = {"check": check, "case": name, "method": method, "geometry": geometry}
    fields |= {"test": f"{check} %method={method}", "hash": "1eea43dd", "layout": "mpi"}
    fields |= {"partition": "generic:default", "environ": "system", "fixture": False}
    fields |= {"verdict": "pass", "cause": "", "files": "results/now/kernels/x.*", **more}
    listed = [{"name": n, "value": v, "unit": u} for n, (v, u) in metrics.items()]
    return {**fields, "metrics": listed}


def failure(verdict="FAIL", cause="rank 3 on cn017: wrong answer of shm", **more):
    return case(verdict=verdict, cause=cause, again="bisection run -n /1eea43dd", **more)


def wobble(index):
    """Noise of 1%, the same everywhere."""
    return random.Random(index).gauss(1, 0.01)


# Phase2 over Phase1 of HPCx, from the text of Guest et al., "Performance of applications on the
# HPCx system: Phase1 to Phase2" (2004): section, code, data, processors, speed-up, software, and
# where that is of the ratio of clocks, 1.31. A node is a frame of 32 processors.
CLOCK = 1.31
HPCX = [
    ("5.2", "PDSYEVD", "n=3888", 256, 2.9, "SP7", "above"),
    ("5.2", "PDSYEVD", "n=7194", 256, 3.9, "SP7", "above"),
    ("6.2", "THOR", "", 64, 2.52, "SP7", "above"),
    ("3.4", "CRYSTAL", "crambin 6-31G", 1024, 1.32, "before SP7", "at"),
    ("7", "POLCOMS", "1200x1200x34", 768, 1.37, "SP7", "at"),
    ("6.1", "PCHAN", "T3 360x360x360", 512, 1.41, "SP7", "at"),
    ("4.2", "NAMD", "F1-ATPase", 256, 1.31, "before SP7", "at"),
    ("4.2", "NAMD", "F1-ATPase", 512, 1.18, "before SP7", "below"),
    ("4.2", "NAMD", "F1-ATPase", 1024, 1.13, "before SP7", "below"),
]


def hpcx():
    """Figure 17 of that report; published numbers have no intervals."""
    rows = [
        row(
            check=code,
            case=data,
            method="",
            layout="",
            ratio=1 / speedup,
            low=None,
            high=None,
            p=None,
            verdict=IMPROVED,
            geometry=f"{processors // 32}x32x1",
            software=("Phase1", f"Phase2 {state}"),
            against=against,
            system="hpcx",
            partition=f"p{processors}",
            explained="a rising ratio fits a faster network" if against == "above" else "",
        )
        for _, code, data, processors, speedup, state, against in HPCX
    ]
    compared = comparison(rows, expected=CLOCK, sentence="9 improved: 3 above the clock, 2 below")
    return Report("HPCx: Phase2 against Phase1", MADE, compared)


def cluster():
    """A night on a cluster on which everything happened that can happen."""
    rows = [
        row(method="shm", verdict=REGRESSED, ratio=1.42, geometry="4x16x1"),
        row(method="alltoallv", verdict=REGRESSED, ratio=1.12, geometry="4x16x1"),
        row(case="silicon", method="p2p", verdict=MISSING, ratio=None, why="not in this session"),
        row(case="silicon", method="padded", verdict=NOT_MEASURED, ratio=None, why="MPI_ABORT"),
        row(check="npar", case="bench1", method="npar-8", verdict=IMPROVED, ratio=0.8),
        row(check="md", case="sic", method="packed", verdict=INCONCLUSIVE, why="3 jobs only"),
        row(check="md", case="fe", method="recompute", verdict=NEW, ratio=None),
        row(check="md", case="fe", method="packed", ratio=1.01, control=True),
    ]
    changes = [
        Change("MPI", "Open MPI 4.1.4", "Open MPI 5.0.5"),
        Change("kernel", "6.1.0", "6.1.9"),
    ]
    suspects = [Suspect("cn017", 1.44, 12, "cluster:cpu", "every job on it was slow")]
    compared = comparison(
        rows,
        sentence="2 of 8 metrics regressed, 1 is missing, 1 was not measured",
        advice=["Look at cn017 first.", "Measure sic in two more sessions: 3 jobs say little."],
        changes=changes,
        suspects=suspects,
        exit_code=1,
        rerun="bisection compare before after",
        settings={"confidence": 0.95, "margin": 0.05, "bootstrap_samples": 2000},
    )
    old = [0.01 * wobble(n) for n in range(60)]
    histories = [
        series([*old, *(0.0142 * wobble(n) for n in range(9))], [60]),
        series(
            [*old[:30], *(0.008 * wobble(n) for n in range(30))], [30], check="npar", case="bench1"
        ),
        series(old, check="md", case="sic", method="packed"),
    ]
    history = [
        change_point(1.42, changes=changes),
        change_point(0.8, check="npar", verdict=IMPROVED),
    ]
    failures = [
        failure(hosts=["cn016", "cn017"]),
        failure("not measured", "the launch was killed", hosts=["cn020"], method="padded"),
        failure("not measured", "TransposeLaunch did not pass", method="p2p"),
    ]
    return Report(
        "Bisection on cluster:cpu",
        MADE,
        compared,
        history,
        histories,
        [pairs(8, slow=5)],
        failures,
        "FAIL: 40 of 43 checks passed, 1 failed, 2 not measured, in 12 min 3 s",
        published(),
    )


def pairs(size, slow=None):
    nodes = [f"cn{n + 12:03d}" for n in range(size)]
    values = [
        [
            None if i == j else (7.2e9 if slow in (i, j) else 11.8e9) * wobble(i * size + j)
            for j in range(size)
        ]
        for i in range(size)
    ]
    found = [] if slow is None else [f"{nodes[slow]}: all its pairs have 0.61 of the bandwidth"]
    return Pairs(nodes, values, "B/s", "Bandwidth between pairs of nodes", found)


def published():
    """Cases on 1 to 64 nodes, with the shapes of the curves of the published studies."""
    methods = {"alltoallv": 0.020, "p2p": 0.018, "padded": 0.008, "shm": 0.004, "leaders": 0.003}
    found = []
    for nodes, name in itertools.product((1, 2, 4, 8, 16), ("cnt40", "cnt80", "silicon")):
        size = {"cnt40": 1, "cnt80": 8, "silicon": 9}[name]
        for method, cost in methods.items():
            seconds = 0.2 * size / nodes / 16 + cost * nodes**0.7 / 4
            seconds *= 1.1 if method in ("shm", "leaders") else 1
            metrics = {
                "ratio_alltoallv": (1.0, "ratio"),
                "exchange_share": (1 - 0.8 / nodes**0.5, "share"),
            }
            found.append(
                case(
                    "transpose",
                    name,
                    method,
                    f"{nodes}x16x1",
                    seconds,
                    metrics=metrics,
                    partition=f"cluster:n{nodes}",
                )
            )
    for npar, name in itertools.product((1, 2, 4, 8, 16, 32), ("bench1", "bench2", "bench5")):
        seconds = 40 * (
            1 + abs(math.log2(npar) - {"bench1": 3, "bench2": 2, "bench5": 4}[name]) / 3
        )
        found.append(case("npar", name, f"npar-{npar}", "8x16x1", seconds, partition="cluster:n8"))
    shapes = {"mpi": "16x1", "node": "1x16", "node2": "2x8", "domain": "4x4"}
    for nodes, name, layout in itertools.product((1, 4, 16), ("sic", "fe"), shapes):
        ranks = int(shapes[layout].split("x")[0])
        metrics = {
            f"{part}_share": (0.01 * ranks**0.5 * nodes**0.5 * size, "share")
            for part, size in (("p2p", 1), ("collective", 0.7), ("barrier", 0.2))
        }
        seconds = 1.0 / nodes * (1.3 - 0.015 * ranks) + 0.02 * ranks**0.5
        found.append(
            case(
                "md",
                name,
                "packed",
                f"{nodes}x{shapes[layout]}",
                seconds,
                layout=layout,
                metrics=metrics,
                partition=f"cluster:n{nodes}",
            )
        )
    for method, start in (("alltoall", 2e-6), ("alltoallv", 4e-6)):
        sweep = {
            f"time_{size}": (start + 4e-9 * 8 * 4**k, "s")
            for k, size in enumerate(("8B", "32B", "128B", "512B", "2KiB", "8KiB", "32KiB"))
        }
        sweep_case = case("network", "sweep", method, metrics=sweep)
        sweep_case["metrics"] = sweep_case["metrics"][1:]
        found.append(sweep_case)
    return found


def large(metrics=2000, nights=500):
    """Two thousand metrics of five hundred nights, of which some changed."""
    rows, histories = [], []
    for n in range(metrics):
        verdict = (REGRESSED, IMPROVED, INCONCLUSIVE, MISSING)[n % 4] if n < 80 else UNCHANGED
        names = {"check": f"check{n % 7}", "case": f"case{n // 10}", "method": f"method{n % 10}"}
        ratio = None if verdict == MISSING else 1.3 if verdict == REGRESSED else 0.99
        rows.append(row(verdict=verdict, ratio=ratio, why="a clause of usual length", **names))
        noise = [0.01 + 1e-5 * ((n * 7 + k * 31) % 101) for k in range(nights)]
        histories.append(series(noise, [nights // 2] if n < 20 else [], **names))
    failures = [failure(cause="x" * 5000, method=f"m{n}", hosts=["cn1"] * 50) for n in range(300)]
    cases = [
        case(f"check{c}", f"case{k}", f"method{m}", f"{2**g}x16x1", 0.1 / 2**g, partition=f"a:n{g}")
        for c, k, m, g in itertools.product(range(7), range(20), range(10), range(5))
    ]
    compared = comparison(rows, sentence="20 of 2000 metrics regressed", exit_code=1)
    return Report("Large", MADE, compared, [], histories, [pairs(200, 7)], failures, "", cases)


# ---- the page ----

VOID = {"meta", "link", "br", "hr", "img", "input"}


class Page(HTMLParser):
    """What a page holds; fails on elements that are not closed in order."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.refs, self.scripts, self.urls = [], set(), [], []
        self.text, self.elements, self.headings = [], [], []
        self._open = []
        self.feed(text)
        self.close()
        assert not self._open

    def handle_starttag(self, tag, attributes):
        self.elements.append(tag)
        self._attributes(attributes)
        if tag == "script":
            self.scripts.append(dict(attributes))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append(tag)
        self._attributes(attributes)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag, f"</{tag}> at {self.getpos()}"

    def handle_data(self, data):
        inside = self._open[-1] if self._open else ""
        if inside == "h2":
            self.headings.append(data)
        if inside not in ("script", "style"):
            self.text.append(data)

    def _attributes(self, attributes):
        names = [name for name, _ in attributes]
        assert len(names) == len(set(names)), attributes
        for name, value in attributes:
            assert not name.startswith("on"), name
            if name == "id":
                self.ids.append(value)
            elif name in ("href", "xlink:href", "src"):
                self.urls.append(value)
            elif name == "aria-labelledby":
                self.refs |= set(value.split())
            self.refs |= set(re.findall(r"url\(#([^)]*)\)", value or ""))

    @property
    def said(self):
        return " ".join(" ".join(self.text).split())


def page(made):
    """The page of a report, parsed; what must hold of every page holds."""
    text = report.html(made)
    found = Page(text)
    assert len(text.encode()) < 1_000_000
    assert len(found.ids) == len(set(found.ids)), "two elements with one identifier"
    found.refs |= {url[1:] for url in found.urls if url.startswith("#")}
    assert found.refs <= set(found.ids), found.refs - set(found.ids)
    outside = [url for url in found.urls if not url.startswith(("#", "data:image/png;base64,"))]
    assert outside == []
    assert found.scripts == [{"type": "application/json", "id": "data"}]
    found.data = json.loads(re.search(r'id="data">(.*?)</script>', text, re.S)[1])
    return found


def only(**fields):
    """A report with nothing else."""
    return Report("A report", MADE, **fields)


ALL = {"empty": only, "hpcx": hpcx, "cluster": cluster}


@pytest.mark.parametrize("name", ALL)
def test_page_is_well_formed_and_complete_in_itself(name):
    found = page(ALL[name]())
    assert found.elements.count("svg") >= found.elements.count("figure")
    assert "2026-11-21 08:00:00 UTC" in found.said


def test_same_report_gives_same_page():
    assert report.html(cluster()) == report.html(cluster())


def test_page_has_its_sections_in_order_and_leaves_out_what_has_no_data():
    assert page(cluster()).headings == [
        "What was compared",
        "What changed",
        "Speed-up",
        "Methods",
        "NPAR",
        "Hybrid layouts",
        "Communication",
        "Message sizes",
        "Nodes",
        "History",
        "Failed and not measured",
        "All rows",
        "How it was judged",
    ]
    assert page(only()).headings == ["How it was judged"]


def test_every_figure_has_a_table_and_words_for_those_who_do_not_see_it():
    text = report.html(cluster())
    for figure in re.findall(r"<figure>.*?</figure>", text, re.S):
        for drawing in re.findall(r"<svg .*?</svg>", figure, re.S):
            assert re.match(r'<svg role="img" aria-labelledby="\w+-t \w+-d"', drawing)
            assert re.search(r"<desc [^>]*>[^<]{10,}</desc>", drawing)
    groups = text.split('<div class="group">')[1:]
    assert groups
    assert all("<details><summary>" in group and "<table>" in group for group in groups)


def test_figure_17_of_the_hpcx_report():
    made = hpcx()
    found = page(made)
    for _, code, data, processors, speedup, state, against in HPCX:
        label = f"{code} {data}".strip()
        assert f"{label}: {speedup:.2f} {against}" in found.said, "description"
        assert f"{processors} \u00d7 1, {processors // 32} nodes" in found.said
        assert f"Phase1 \u2192 Phase2 {state}" in found.said
    assert "expected 1.31" in found.said
    assert "different numbers of ranks (64, 256, 512, 768, 1024)" in found.said
    assert "2 different pairs of software states" in found.said
    assert "Speed-up against ranks" in found.headings  # NAMD, at three numbers of processors
    assert "1.31 at 256 to 1.13 at 1024" in found.said


def test_bars_show_the_worst_first_and_count_the_others():
    rows = [row(case=f"c{n}", ratio=1 + n / 1000, verdict=UNCHANGED) for n in range(50)]
    rows += [row(case="bad", ratio=1.01, verdict=REGRESSED)]
    groups = charts.speedups(rows, None)
    assert len(groups[0].table.rows) == charts.BARS
    assert "21 more tests are not drawn" in groups[0].table.note
    assert any("bad" in cells[0] for cells in groups[0].table.rows)
    speedups = [float(cells[4]) for cells in groups[0].table.rows]
    assert speedups == sorted(speedups)


def test_a_bar_is_a_time_or_where_there_is_none_a_rate():
    rate = {"metric": "bandwidth", "unit": "B/s", "better": "higher", "ratio": 1.2}
    rows = [row(), row(**rate), row(case="io", **rate), row(metric="pack_share", unit="share")]
    assert [r.case + r.metric for r in charts.primary(rows)] == ["cnt40time", "iobandwidth"]


def test_several_numbers_of_cores_give_curves_and_one_gives_dots():
    several = page(only(latest=published()))
    assert "Speed-up over alltoallv on 16 cores" in several.said
    assert "shm" in several.said
    here = [case(method=m, layout=x) for m in ("alltoallv", "shm") for x in ("mpi", "node")]
    assert "Time of each method and layout" in page(only(latest=here)).said


def test_cases_that_ran_several_times_count_as_their_median():
    runs = [case(method=m, seconds=s) for s in (0.010, 0.012, 0.5) for m in ("a", "b")]
    (group,) = charts.crossovers(charts.timed(runs), report.drawing.Styles(runs))
    assert group.table.rows == [["cnt40", "mpi 2x1", "2", "12 ms", "12 ms"]]


def test_message_sizes_of_repeated_runs_are_one_curve():
    runs = [
        case(
            "network", "sweep", "alltoall", metrics={"time_8B": (k, "s"), "time_1KiB": (9 * k, "s")}
        )
        for k in (1e-6, 2e-6, 9e-6)
    ]
    (group,) = charts.sweeps(charts.measured(runs), report.drawing.Styles(runs))
    assert group.table.head == ["case", "method", "8 B", "1 KiB"]
    assert group.table.rows == [["network sweep mpi 2x1", "alltoall", "2 us", "18 us"]]


def test_partitions_with_as_many_cores_are_not_mixed():
    cases = [
        case(method=m, partition=f"a:{p}", seconds=s)
        for p, s in (("old", 0.2), ("new", 0.1))
        for m in ("a", "b")
    ]
    groups = charts.crossovers(charts.timed(cases), report.drawing.Styles(cases))
    assert [group.title for group in groups] == [
        "transpose on a:old, environment system",
        "transpose on a:new, environment system",
    ]


def test_what_was_not_measured_is_not_drawn():
    withheld = [case(method=m, verdict="not measured") for m in ("a", "b")]
    assert "Methods" not in page(only(latest=withheld)).headings


# ---- the verdict ----


def rows_of(**counts):
    """Rows of these verdicts; underscores are blanks."""
    return [
        row(case=f"{verdict}{n}", verdict=verdict.replace("_", " "))
        for verdict, count in counts.items()
        for n in range(count)
    ]


@pytest.mark.parametrize(
    ("made", "state", "words"),
    [
        (only(), "unmeasured", "No verdict"),
        (only(outcome="PASS: 3 of 3 checks passed"), "good", "Everything measured passed"),
        (only(outcome="FAIL: a wrong answer"), "bad", "The run failed"),
        (only(outcome="NOT MEASURED: no check ran"), "unmeasured", "Not everything was measured"),
        (only(failures=[failure()]), "bad", "1 failed"),
        (only(failures=[failure("not measured")]), "unmeasured", "1 not measured"),
        (only(comparison=comparison([])), "unmeasured", "Nothing was compared"),
        (
            only(comparison=comparison(rows_of(regressed=3, missing=1, unchanged=5))),
            "bad",
            "3 regressed, 1 missing",
        ),
        (
            only(comparison=comparison(rows_of(missing=1, not_measured=2, improved=5))),
            "unmeasured",
            "1 missing, 2 not measured",
        ),
        (only(comparison=comparison(rows_of(inconclusive=4))), "uncertain", "All 4 inconclusive"),
        (
            only(comparison=comparison(rows_of(inconclusive=4, new=2))),
            "uncertain",
            "Nothing judged: 4 inconclusive, 2 new",
        ),
        (
            only(comparison=comparison(rows_of(unchanged=4, improved=2, inconclusive=1))),
            "good",
            "Nothing regressed, 2 improved, 1 inconclusive",
        ),
        (
            only(
                comparison=comparison(
                    [replace(r, against="below") for r in rows_of(improved=2)], expected=1.31
                )
            ),
            "bad",
            "2 below the expected 1.31",
        ),
        (
            only(
                comparison=comparison(
                    [replace(r, suspect=True) for r in rows_of(inconclusive=2)]
                    + rows_of(unchanged=1)
                )
            ),
            "uncertain",
            "2 unlike all earlier sessions, nothing proven, 2 inconclusive",
        ),
        (
            only(comparison=comparison(rows_of(inconclusive=2)), history=[change_point(after=4)]),
            "bad",
            "1 metric worse since 2026-11-18, 2 inconclusive",
        ),
        (
            only(comparison=comparison(rows_of(unchanged=2)), history=[change_point(after=40)]),
            "good",
            "Nothing regressed",
        ),
        (
            only(comparison=comparison(rows_of(regressed=1), unsafe="the control changed")),
            "unsafe",
            "Not to be trusted: 1 regressed",
        ),
        (
            only(
                comparison=comparison(rows_of(regressed=1), unsafe="the control changed"),
                failures=[failure()],
            ),
            "bad",
            "1 failed, 1 regressed (the comparison is not to be trusted)",
        ),
    ],
)
def test_banner(made, state, words):
    assert report.headline(made) == (state, words)
    text = report.html(made)
    assert f'<div class="banner {state}"' in text
    assert words in Page(text).said
    assert words in report.markdown(made)


def test_every_verdict_is_counted_even_at_zero():
    found = page(only(comparison=comparison(rows_of(unchanged=2))))
    for verdict in VERDICTS:
        assert verdict in found.said
        assert verdict in report.MARKS


def test_unsafe_verdicts_advice_and_changes_are_told():
    made = cluster()
    made.comparison.unsafe = "the control changed as well"
    for text in (page(made).said, report.markdown(made)):
        assert "the control changed as well" in text
        assert "Look at cn017 first." in text
        assert "Open MPI 5.0.5" in text
        assert "bisection run -n /1eea43dd" in text
        assert "bisection compare before after" in text
    made.comparison.changes = []
    assert "Nothing that is recorded" in page(made).said
    assert "Nothing that is recorded" in report.markdown(made)


def test_followers_of_a_failure_are_counted_not_listed():
    table = report.failures_table(cluster().failures)
    assert len(table.rows) == 2
    assert "1 case only followed" in table.note


# ---- nothing breaks it ----


def hostile():
    """Text that wants out, wherever data can hold text."""
    names = dict.fromkeys(("system", "partition", "environ", "check", "case", "layout"), HOSTILE)
    names |= {"method": HOSTILE}
    rows = [
        row(verdict=REGRESSED, ratio=1.2, why=HOSTILE, scope=HOSTILE, explained=HOSTILE,
            software=(HOSTILE, HOSTILE), against="below", metric="time", **names),
        row(**{**names, "metric": HOSTILE, "unit": HOSTILE}),
    ]  # fmt: skip
    change = Change(HOSTILE, HOSTILE, HOSTILE)
    compared = comparison(
        rows,
        sentence=HOSTILE,
        advice=[HOSTILE],
        unsafe=HOSTILE,
        rerun=HOSTILE,
        changes=[change],
        suspects=[Suspect(HOSTILE, 2.0, 3, HOSTILE, HOSTILE), Suspect("cn1", 2.0, 3, "p", HOSTILE)],
        settings={HOSTILE: HOSTILE},
        expected=1.3,
    )
    compared.before[0] = dict.fromkeys(("uuid", "folder"), HOSTILE) | {"tags": {HOSTILE: HOSTILE}}
    bad = failure(cause=HOSTILE, hosts=[HOSTILE], name=HOSTILE, method=HOSTILE)
    bad |= {"again": HOSTILE, "files": HOSTILE, "test": HOSTILE}
    cases = [
        case(HOSTILE, HOSTILE, HOSTILE + m, f"{n}x2x1", layout=HOSTILE, environ=HOSTILE)
        for n in (1, 2)
        for m in ("a", "b")
    ]
    return Report(
        HOSTILE,
        MADE,
        compared,
        [change_point(changes=[change], **names)],
        [series([1.0, 2.0, 3.0], [1], **names)],
        [Pairs([HOSTILE, "b"], [[None, 1.0], [2.0, None]], HOSTILE, HOSTILE, [HOSTILE])],
        [bad],
        HOSTILE,
        cases,
    )


def test_text_cannot_leave_its_place():
    made = hostile()
    text = report.html(made)
    found = page(made)
    assert text.count("<script") == 1
    assert "alert(1)" in found.said  # told, as text
    assert "<b>&" not in text
    assert "{{ 7*7 }}" in found.said
    assert found.data["title"] == HOSTILE
    for form in (text, report.markdown(made), report.junit(made), report.nodecheck(made)):
        assert not re.search("[\x00\x1b]", form)
    ET.fromstring(report.junit(made))
    families(report.prometheus(made))
    assert "<script" not in re.sub(r"(`+).*?\1", "", report.markdown(made))  # but as code


def test_markdown_tables_keep_their_columns():
    lines = report.markdown(hostile()).splitlines()
    tables = [
        list(group) for is_row, group in itertools.groupby(lines, lambda x: x[:1] == "|") if is_row
    ]
    assert len(tables) >= 5
    for table in tables:
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table}) == 1, table


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, None, 0.0, -1.0])
def test_numbers_that_are_none_break_nothing(value):
    side = Side(1, 1, value, value, "2x1")
    rows = [
        row(),
        row(case="a", low=value, high=value, p=value, communication=value, against="unclear"),
        replace(row(case="b"), ratio=value, before=side, after=side),
        replace(row(case="c", better="higher", unit="B/s", metric="rate"), ratio=value),
    ]
    strange = case(seconds=value, metrics={"exchange_share": (value, "share")})
    compared = comparison(rows, expected=value, suspects=[Suspect("cn1", value, 1, "p")])
    compared.after[0]["start"] = value
    made = Report(
        "Numbers",
        value,
        compared,
        [change_point(value, at=value)],
        [series([1.0, value, 2.0, value]), series([value, value])],
        [Pairs(["a", "b"], [[value, 1.0], [value]], "B/s", "t"), Pairs(["a"], [[value]], "s", "t")],
        [],
        "",
        [strange, case(method="a"), case(method="b"), case(geometry="")],
    )
    page(made)
    report.markdown(made)
    ET.fromstring(report.junit(made))
    families(report.prometheus(made))
    report.nodecheck(made)


@pytest.mark.parametrize(
    "geometry", ["", "x", "2x", "axb", "1x2x3x4", "-1x2", "9" * 20 + "x1", None]
)
def test_strange_geometries_are_not_drawn(geometry):
    assert parsed(geometry) is None
    page(only(comparison=comparison([row(geometry=geometry)]), latest=[case(geometry=geometry)]))


# ---- it stays small ----


def test_two_thousand_metrics_of_five_hundred_nights():
    made = large()
    start = time.process_time()
    text = report.html(made)
    seconds = time.process_time() - start
    found = page(made)
    assert len(text.encode()) < 1_000_000
    assert seconds < 5
    assert "more rows are not listed" in found.said
    assert re.search(r"1,9\d\d more metrics have a history that is not drawn", found.said)
    assert re.search(r"To stay small it holds .* of 2,000 series", found.said)
    shown = re.findall(r'class="spark"', text)
    assert 20 <= len(shown) <= report.SPARKLINES


def test_data_in_the_page_are_whole_where_there_is_room():
    found = page(cluster())
    made = cluster()
    assert "To stay small" not in found.said
    assert len(found.data["rows"]) == len(made.comparison.rows)
    assert found.data["series"][0]["values"][:3] == [
        float(f"{value:.5g}") for value in made.series[0].values[:3]
    ]
    assert len(found.data["latest"]) == len(made.latest)


# ---- for other programs ----


def test_junit():
    suite = ET.fromstring(report.junit(cluster()))
    tags = {test.get("name"): [child.tag for child in test] for test in suite}
    assert tags["transpose cnt40 mpi shm"] == ["failure"]
    assert tags["transpose silicon mpi p2p"] == ["error"]
    assert tags["transpose silicon mpi padded"] == ["error"]
    assert tags["md sic mpi packed"] == ["skipped"]
    assert tags["md fe mpi packed"] == []
    assert suite.get("tests") == str(len(suite)) == "11"
    assert (suite.get("failures"), suite.get("errors"), suite.get("skipped")) == ("3", "4", "1")
    message = suite.find("testcase/skipped").get("message")
    assert message.startswith("inconclusive: 10 ms before, 10 ms after, ratio 1.00 [0.96, 1.04]")
    assert "3 jobs only" in message


def families(text):
    from prometheus_client.parser import text_string_to_metric_families

    samples = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            samples.setdefault(sample.name, []).append((sample.labels, sample.value))
    return samples


def test_prometheus():
    found = families(report.prometheus(cluster()))
    assert found["bisection_exit_code"] == [({}, 1.0)]
    verdicts = {labels["verdict"]: value for labels, value in found["bisection_verdicts"]}
    assert verdicts == {**dict.fromkeys(VERDICTS, 1.0), REGRESSED: 2.0}
    starts = {labels["side"]: value for labels, value in found["bisection_session_start_seconds"]}
    assert starts == {"before": MADE - NIGHT, "after": MADE}
    ratios = {labels["method"]: value for labels, value in found["bisection_ratio"]}
    assert ratios["shm"] == pytest.approx(1.42)
    assert len(found["bisection_ratio"]) == 5  # the others have none
    assert len(found["bisection_verdict"]) == 8
    (shm,) = [lab for lab, _ in found["bisection_verdict"] if lab["method"] == "shm"]
    assert shm == {**shm, "verdict": REGRESSED, "case": "cnt40", "metric": "time"}
    cases = {labels["verdict"]: value for labels, value in found["bisection_failed_cases"]}
    assert cases == {"FAIL": 1.0, "not measured": 2.0}


@pytest.mark.parametrize(
    ("outcome", "failures", "code"),
    [
        ("PASS: all", [], 0),
        ("FAIL: one", [failure()], 1),
        ("NOT MEASURED: one", [failure("not measured")], 3),
        ("", [], 3),
    ],
)
def test_exit_code_without_a_comparison(outcome, failures, code):
    assert report.exit_code(only(outcome=outcome, failures=failures)) == code


def test_nodes_for_a_health_check():
    lines = report.nodecheck(cluster()).splitlines()
    assert len(lines) == 1  # cn016 ran the failed case as well, but nothing names it
    node, reason = lines[0].split(" ", 1)
    assert node == "cn017"
    assert reason.startswith(
        "bisection: 1.44 times the cost of other nodes in cluster:cpu, 12 jobs"
    )
    assert "all its pairs have 0.61" in reason
    assert report.nodecheck(only()) == ""


def test_a_path_between_two_nodes_accuses_neither():
    between = Pairs(["cn1", "cn2", "cn12"], [], "B/s", "", ["cn1 to cn2: 0.7 of the others"])
    assert report.nodecheck(only(pairs=[between])) == ""
    one = replace(between, suspects=["cn12: slow in 11 of 11 pairs"])
    assert report.nodecheck(only(pairs=[one])) == "cn12 bisection: cn12: slow in 11 of 11 pairs\n"


def test_what_is_no_node_name_and_what_a_shell_would_take_is_left_out():
    suspects = [Suspect("cn1; reboot", 2, 1, "p"), Suspect("cn2", 2, 1, "p", 'a "b" `c` $(d)\ne')]
    made = only(comparison=comparison([], suspects=suspects))
    assert report.nodecheck(made) == (
        "cn2 bisection: 2.00 times the cost of other nodes in p, 1 job; a b c (d) e\n"
    )


# ---- files ----


def test_files_are_replaced_as_a_whole(tmp_path, monkeypatch):
    folder = tmp_path / "a" / "b"
    files = report.write(cluster(), folder)
    names = ["report.html", "report.md", "report-junit.xml", "bisection.prom", "nodecheck.txt"]
    assert list(files) == names
    assert sorted(path.name for path in folder.iterdir()) == sorted(names)
    assert all(path.stat().st_size and os.access(path, os.R_OK) for path in files.values())
    before = files["report.html"].read_text()

    def refuse(*_):
        raise OSError("no space left")

    monkeypatch.setattr(texts.os, "replace", refuse)
    with pytest.raises(OSError, match="no space"):
        report.write(hpcx(), folder)
    assert files["report.html"].read_text() == before
    assert sorted(path.name for path in folder.iterdir()) == sorted(names)


# ---- numbers ----


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.000118, "s", "118 us"),
        (0.0, "s", "0 s"),
        (0.1341, "share", "13.4%"),
        (7311750.0, "atom-steps/s", "7.31 M atom-steps/s"),
        (11.8e9, "B/s", "11.8 GB/s"),
        (296368, "B", "296 kB"),
        (10, "messages", "10 messages"),
        (1.3269, "ratio", "1.33"),
        (None, "s", "\u2013"),
        (math.nan, "s", "\u2013"),
    ],
)
def test_amounts(value, unit, text):
    assert charts.amount(value, unit) == text


def test_a_history_marks_its_steps_for_better_and_for_worse():
    values = [1.0] * 10 + [2.0] * 10 + [0.5] * 10
    slower = report.drawing.sparkline(values, [10, 20], "lower", "a label")
    assert re.findall(r'class="mark (\w+)"', slower) == ["worse", "better"]
    faster = report.drawing.sparkline(values, [10, 20], "higher", "a label")
    assert re.findall(r'class="mark (\w+)"', faster) == ["better", "worse"]
    assert report.drawing.sparkline([math.nan], [], "lower", "") == ""
    long = report.drawing.sparkline([1.0] * 5000 + [9.0] + [1.0] * 5000, [5000], "lower", "")
    assert len(long) < 5000
    assert ",17.0" in long or ",12.0" in long  # the outlier is not thinned out


def test_a_sweep_has_a_bar_of_the_size_that_changed_most():
    def point(size, ratio):
        return replace(rows_of(regressed=1)[0], metric=f"time_{size}", ratio=ratio)

    points = [point("8B", 9.0), point("1KiB", 4.0), point("min_8B", 20.0), point("1MiB", 1.1)]
    assert [row.metric for row in charts.primary(points)] == ["time_8B"]
    assert charts.primary([*points, replace(points[0], metric="time")])[0].metric == "time"
