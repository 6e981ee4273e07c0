"""Reports: what each form says, that nothing in the data breaks it, and that it stays small."""

import itertools
import math
import os
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from reports import (
    HOSTILE,
    MADE,
    Page,
    case,
    change_point,
    cluster,
    comparison,
    event,
    failure,
    families,
    hpcx,
    large,
    only,
    page,
    pairs,
    ran,
    row,
    rows_of,
    said,
    series,
)
from results_made import changed

from bisection.analysis.model import (
    Change,
    Side,
    Suspect,
)
from bisection.core import paths
from bisection.core.identity import parsed
from bisection.core.reasons import Code
from bisection.core.verdicts import COMPARED, Against, Verdict
from bisection.report import exports, gather, model, sections, tables
from bisection.report import page as pages
from bisection.report import run as run_report
from bisection.report.model import Report

ALL = {"empty": only, "hpcx": hpcx, "cluster": cluster}


@pytest.mark.parametrize("name", ALL)
def test_page_is_well_formed_and_complete_in_itself(name):
    seen = page(ALL[name]())
    assert seen.elements.count("svg") >= seen.elements.count("figure")
    assert "2026-11-21 08:00:00 UTC" in seen.said


def test_same_report_gives_same_page():
    assert pages.html(cluster()) == pages.html(cluster())


def test_page_has_its_sections_in_order_and_leaves_out_what_has_no_data():
    assert page(cluster()).headings == [
        "Worse than before",
        "Failed and not measured",
        "Checks of the newest run",
        "What changed",
        "Speed-up",
        "Nodes",
        "Network",
        "History",
        "Methods",
        "NPAR",
        "Hybrid layouts",
        "Communication",
        "Message sizes",
        "What was compared",
        "All rows",
        "How it was judged",
    ]
    assert page(only()).headings == ["How it was judged"]


def test_every_figure_has_a_table_and_words_for_those_who_do_not_see_it():
    text = pages.html(cluster())
    for figure in re.findall(r"<figure>.*?</figure>", text, re.S):
        for drawing in re.findall(r"<svg .*?</svg>", figure, re.S):
            assert re.match(r'<svg role="img" aria-labelledby="\w+-t \w+-d"', drawing)
            assert re.search(r"<desc [^>]*>[^<]{10,}</desc>", drawing)
    groups = text.split('<div class="group">')[1:]
    assert groups
    assert all("<details><summary>" in group and "<table>" in group for group in groups)


@pytest.mark.parametrize(
    ("content", "state", "words"),
    [
        (only(), "unmeasured", "No verdict"),
        (only(run=ran(case())), "good", "Everything measured passed"),
        (only(run=ran(case(), failures=[said("a wrong answer")])), "bad", "The run failed"),
        (
            only(run=ran(troubles=[said("no check ran")])),
            "unmeasured",
            "Not everything was measured",
        ),
        (only(run=ran(failure())), "bad", "1 failed"),
        (only(run=ran(failure(Verdict.NOT_MEASURED))), "unmeasured", "1 not measured"),
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
                    [replace(r, against=Against.BELOW) for r in rows_of(improved=2)], expected=1.31
                )
            ),
            "bad",
            "2 below the expected 1.31",
        ),
        (
            only(
                comparison=comparison(
                    [replace(r, outlier=True, seen=0.03) for r in rows_of(inconclusive=2)]
                    + rows_of(unchanged=1)
                )
            ),
            "unmeasured",
            "2 metrics slower than in all earlier sessions, not retested, 2 inconclusive",
        ),
        (
            only(comparison=comparison(rows_of(inconclusive=2)), history=[event(change_point())]),
            "bad",
            "1 metric worse since 2026-11-18, 2 inconclusive",
        ),
        (
            only(
                comparison=comparison(rows_of(unchanged=2)),
                history=[event(change_point(), accepted="new disks")],
            ),
            "good",
            "Nothing regressed",
        ),
        (
            only(comparison=comparison(rows_of(regressed=1), unsafe=[said("the control changed")])),
            "unsafe",
            "Not to be trusted: 1 regressed",
        ),
        (
            only(
                comparison=comparison(rows_of(regressed=1), unsafe=[said("the control changed")]),
                run=ran(failure()),
            ),
            "bad",
            "1 failed, 1 regressed (the comparison is not to be trusted)",
        ),
    ],
)
def test_banner(content, state, words):
    assert model.headline(content) == (state, words)
    text = pages.html(content)
    assert f'<div class="banner {state}"' in text
    assert words in Page(text).said
    assert words in exports.markdown(content)


def test_every_verdict_is_counted_even_at_zero():
    seen = page(only(comparison=comparison(rows_of(unchanged=2))))
    for verdict in COMPARED:
        assert verdict in seen.said
        assert verdict in model.MARKS


def test_unsafe_verdicts_advice_and_changes_are_told():
    content = cluster()
    content.comparison.unsafe = [said("the control changed as well")]
    for text in (page(content).said, exports.markdown(content)):
        assert "the control changed as well" in text
        assert "Look at cn017 first." in text
        assert "Open MPI 5.0.5" in text
        assert "-n /1eea43dd" in text
        assert "bisection compare before after" in text
    content.comparison.changes = []
    assert "Nothing that is recorded" in page(content).said
    assert "Nothing that is recorded" in exports.markdown(content)


def test_failures_are_grouped_as_in_the_terminal_and_followers_counted():
    alike = said("the network is gone")
    bad = [failure(reason=alike, method=m, layout=x) for x in ("mpi", "node") for m in ("a", "b")]
    follower = failure(reason=Code.FOLLOWS(test="Launch"), method="c")
    report = only(run=ran(*bad, failure(reason=said("slow"), method="c"), follower))
    (section,) = (part for part in sections.sections(report) if part.id == "failures")
    rows = [dict(zip(section.tables[0].head, row, strict=True)) for row in section.tables[0].rows]
    assert [row["where"] for row in rows] == [
        "transpose cnt40 mpi (system)",
        "transpose cnt40 node (system)",
    ]
    assert rows[0]["cause"] == "a, b: the network is gone\nc: slow"
    assert section.notes == ["1 test only followed another one's failure."]
    lines = run_report.failures(report.run)
    assert [line for line in lines if line.startswith("FAIL")] == [
        f"FAIL: {row['where']}" for row in rows
    ]
    assert all(f"    rerun: {row['rerun']}" in lines for row in rows)


def test_files_of_a_failure_are_links_from_where_the_page_is(tmp_path):
    (tmp_path / "kernels").mkdir()
    for name in ("x y.out", "x y.json"):
        (tmp_path / "kernels" / name).touch()
    bad = failure(files=str(tmp_path / "kernels" / "x y.*"))
    text = gather.write(only(run=ran(bad)), tmp_path)["report.html"].read_text()
    assert re.findall('<a href="(kernels[^"]*)">', text) == [
        "kernels/x%20y.json",
        "kernels/x%20y.out",
    ]


def test_a_passed_first_night_has_the_table_of_its_verdict_in_every_form():
    report = only(run=ran(case(), case(method="p2p", seconds=0.02)), of_run=True)
    row = "| transpose | cnt40 | 2/2 | shm mpi |"
    assert row in re.sub(" +", " ", exports.markdown(report))
    assert "Checks of the newest run" in page(report).headings
    assert "2/2" in page(report).said


def test_inconclusive_rows_of_a_second_night_show_their_numbers():
    report = only(comparison=comparison(rows_of(inconclusive=2)))
    assert "10 ms" in page(report).said
    for label in ("before", "after", "after / before"):
        assert f'data-label="{label}"' in pages.html(report)


SAME = "other processes used the cores in 64% of the samples, which is most of them"


def test_what_many_rows_have_is_listed_once():
    """Columns in which all rows are alike, and a sentence of several rows; nothing is lost."""
    rows = rows_of(not_measured=20, unchanged=2)
    for each in rows[:20]:
        each.reason = said(SAME)
    table = tables.rows_table(rows)
    assert "where" not in table.head
    assert "where: localhost:default system" in table.alike
    assert table.footnotes == [SAME]
    why = table.head.index("why")
    assert [cells[why] for cells in table.rows].count("note 1") == 20
    report = only(comparison=comparison(rows))
    assert exports.markdown(report).count(SAME) == 1
    for text in (pages.html(report), exports.markdown(report)):
        assert "where: localhost:default" in text
        assert 'data-label="where"' not in text
    few = tables.rows_table(rows[:2])
    assert few.footnotes == []
    assert "where" in few.head


def test_a_column_without_content_is_left_out():
    """Nothing is in it, or the one host of a machine without a scheduler."""
    bad = [failure(reason=said(f"cause {n}"), name=f"c{n}") for n in range(3)]
    nodes = [changed(bad[0], hosts=["n1"]), changed(bad[1], hosts=["n2"]), bad[2]]

    def heads(*cases):
        (section,) = (p for p in sections.sections(only(run=ran(*cases))) if p.id == "failures")
        return section.tables[0].head

    assert "nodes" not in heads(*bad)
    assert "nodes" not in heads(*(changed(each, hosts=["vm"]) for each in bad))
    assert "nodes" in heads(*nodes)


class Lines(HTMLParser):
    """What a reader sees without a click: rows, list items; commands, and where they may break."""

    def __init__(self, text):
        super().__init__()
        self.open, self.rows, self.items, self.commands = [], 0, 0, []
        self.loose, self.between = "", ""  # outside of what is kept on a line; of that in commands
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        name = f"{tag} {dict(attrs).get('class', '')}".strip()
        if tag not in ("meta", "br", "path", "use", "rect", "circle", "line"):
            self.open.append(name)
        if "details" not in self.open:
            self.rows += tag == "tr"
            self.items += tag == "li"
        self.commands += [""] * (name == "code command")

    def handle_endtag(self, tag):
        while self.open and self.open.pop().split()[0] != tag:
            pass

    def handle_data(self, data):
        if "code command" in self.open:
            self.commands[-1] += data
        if "span nowrap" not in self.open and "style" not in self.open:
            self.loose += data
            self.between += data * ("code command" in self.open)


def test_long_lists_are_folded():
    """A phone shows the first rows; a check's rows of a comparison are one line until asked for."""
    rows = rows_of(regressed=60, unchanged=200)
    rows += [replace(r, check="md") for r in rows_of(unchanged=20)]
    seen = Lines(pages.html(only(comparison=comparison(rows))))
    assert seen.rows <= 4 + 2 * pages.SHOWN
    by_check = tables.rows_by_check(rows)
    assert [table.title.partition(":")[0] for table in by_check] == ["transpose", "md"]
    assert sum(len(table.rows) for table in by_check) == len(rows)
    assert all(table.folded for table in by_check)
    notes = [said(f"remark {n}") for n in range(40)]
    seen = Lines(pages.html(only(run=ran(case(), remarks=notes))))
    assert seen.items <= pages.SHOWN + 10


def test_a_command_is_broken_at_blanks_alone():
    """Also at neither hyphen of an option in a sentence."""
    bad = failure(hash="", reason=said("rerun it with --reruns=4 or -n NAME"))
    report = only(run=ran(bad), comparison=comparison(rows_of(regressed=2)))
    report.comparison.rerun = "bisection run --tier quick -n '^transpose%.*layout=mpi' --reruns=4"
    seen = Lines(pages.html(report))
    assert report.comparison.rerun in seen.commands
    assert len(seen.commands) == 2
    assert not seen.between.strip()
    assert not re.search(r"(?<![\w-])--?[a-z]", seen.loose)


def test_title_names_system_and_nodes_and_what_bisection_is():
    report = only(run=ran(case()))
    report.title, report.about = "lab on cn1", "session feedbeef; GNU 12.2.0; Open MPI v4.1.4"
    for text in (page(report).said, exports.markdown(report)):
        assert "lab on cn1" in text
        assert "GNU 12.2.0" in text
        assert "acceptance and regression tests" in text


def hostile():
    """Text that wants out, wherever data can hold text."""
    names = dict.fromkeys(("system", "partition", "environ", "check", "case", "layout"), HOSTILE)
    names |= {"method": HOSTILE}
    rows = [
        row(verdict=Verdict.REGRESSED, ratio=1.2, reason=said(HOSTILE), explained=said(HOSTILE),
            software=(HOSTILE, HOSTILE), against=Against.BELOW, metric="time", **names),
        row(**{**names, "metric": HOSTILE, "unit": HOSTILE}),
    ]  # fmt: skip
    change = Change(HOSTILE, HOSTILE, HOSTILE)
    compared = comparison(
        rows,
        advice=[said(HOSTILE)],
        unsafe=[said(HOSTILE)],
        rerun=HOSTILE,
        changes=[change],
        suspects=[Suspect([HOSTILE], 2.0, 3, HOSTILE), Suspect(["cn1"], 2.0, 3, HOSTILE)],
        expected=1.3,
    )
    compared.before[0] = dict.fromkeys(("uuid", "folder"), HOSTILE) | {"tags": {HOSTILE: HOSTILE}}
    bad = failure(
        reason=said(HOSTILE), hosts=[HOSTILE], name=HOSTILE, method=HOSTILE, files=HOSTILE
    )
    bad = replace(bad, name=HOSTILE, hash=HOSTILE)
    cases = [
        case(HOSTILE, HOSTILE, HOSTILE + m, f"{n}x2x1", layout=HOSTILE, environ=HOSTILE)
        for n in (1, 2)
        for m in ("a", "b")
    ]
    odd = pairs(8, slow=2)
    odd.matrix.nodes[2] = odd.bad[0].names[0] = odd.place = HOSTILE
    return Report(
        HOSTILE,
        MADE,
        compared,
        [event(change_point(**names), changes=[change], system=HOSTILE, session=HOSTILE)],
        [series([1.0, 2.0, 3.0], [1], **names)],
        pairs=[odd],
        run=ran(bad, *cases, troubles=[said(HOSTILE)]),
    )


def test_text_cannot_leave_its_place():
    content = hostile()
    text = pages.html(content)
    seen = page(content)
    assert "alert(1)" in seen.said  # told, as text
    assert "<b>&" not in text
    assert "{{ 7*7 }}" in seen.said
    for form in (
        text,
        exports.markdown(content),
        exports.junit(content),
        exports.nodecheck(content),
    ):
        assert not re.search("[\x00\x1b]", form)
    ET.fromstring(exports.junit(content))
    families(exports.prometheus(content))
    assert "<script" not in re.sub(r"(`+).*?\1", "", exports.markdown(content))  # but as code


def test_markdown_tables_keep_their_columns():
    lines = exports.markdown(hostile()).splitlines()
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
        row(case="a", low=value, high=value, p=value, communication=value, against=Against.UNCLEAR),
        replace(row(case="b"), ratio=value, before=side, after=side),
        replace(row(case="c", better="higher", unit="B/s", metric="rate"), ratio=value),
    ]
    strange = case(seconds=value, metrics={"exchange_share": (value, "share")})
    compared = comparison(rows, suspects=[Suspect(["cn1"], value, 1, "p")])
    compared.after[0]["start"] = value
    content = Report(
        "Numbers",
        value,
        compared,
        [event(change_point(value, at=value))],
        [series([1.0, value, 2.0, value]), series([value, value])],
        run=ran(strange, case(method="a"), case(method="b"), case(geometry="")),
    )
    page(content)
    exports.markdown(content)
    ET.fromstring(exports.junit(content))
    families(exports.prometheus(content))
    exports.nodecheck(content)


@pytest.mark.parametrize("geometry", ["", "x", "2x", "axb", "1x2x3x4", "-1x2", "9" * 20 + "x1"])
def test_strange_geometries_are_not_drawn(geometry):
    assert parsed(geometry) is None
    page(only(comparison=comparison([row(geometry=geometry)]), run=ran(case(geometry=geometry))))


def test_two_thousand_metrics_of_sixty_nights():
    content = large()
    text = pages.html(content)
    seen = page(content)
    assert len(text.encode()) < 1_000_000
    assert "more rows are not listed" in seen.said
    assert re.search(r"1,9\d\d more metrics have a history that is not drawn", seen.said)
    shown = text.count('<div class="name">')
    assert 20 <= shown <= pages.SPARKLINES


def test_files_are_replaced_as_a_whole(tmp_path, monkeypatch):
    folder = tmp_path / "a" / "b"
    files = gather.write(cluster(), folder)
    names = ["report.html", "report.md", "junit.xml", "bisection.prom", "nodecheck.txt"]
    assert list(files) == names
    assert sorted(path.name for path in folder.iterdir()) == sorted(names)
    umask = os.umask(0o077)
    try:
        files = gather.write(only(), folder)
    finally:
        os.umask(umask)
    assert {path.stat().st_mode & 0o777 for path in files.values()} == {0o600}
    assert all(os.access(path, os.R_OK) for path in files.values())
    before = files["report.html"].read_text()

    def refuse(*_):
        raise OSError("no space left")

    monkeypatch.setattr(paths.os, "replace", refuse)
    with pytest.raises(OSError, match="no space"):
        gather.write(hpcx(), folder)
    assert files["report.html"].read_text() == before
    assert sorted(path.name for path in folder.iterdir()) == sorted(names)
