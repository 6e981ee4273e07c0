"""Reports: what each form says, that nothing in the data breaks it, and that it stays small."""

import html
import itertools
import math
import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
from reports import (
    HOSTILE,
    MADE,
    NIGHT,
    PLACE,
    case,
    change_point,
    cluster,
    comparison,
    event,
    failure,
    families,
    large,
    only,
    page,
    pairs,
    ran,
    row,
    rows_of,
    said,
    series,
    slow_node,
    words,
)
from results_made import changed
from running import joined

from bisection.analysis.model import Change, Side
from bisection.core.identity import parsed
from bisection.core.reasons.base import Text
from bisection.core.reasons.launches import TestFailed
from bisection.core.verdicts import COMPARED, Against, Verdict
from bisection.judge.alarms import alarms_of
from bisection.report import exports, gather, report_data, sections, text_tables, verdict_text
from bisection.report import page as pages
from bisection.report.opening import opening
from bisection.report.words import rerun_of
from bisection.store.database import Session


def section(report, name):
    (part,) = (part for part in sections.sections(report) if part.id == name)
    return part


def test_page_has_its_sections_in_order_and_leaves_out_what_has_no_data():
    seen = page(cluster())
    titles = [title for title, _ in sections.SECTIONS.values()]
    titles.remove("What the network explains")  # nothing was predicted
    titles.remove("Burn-in")
    titles.remove("Device memory")  # no partition has devices
    titles.remove("OSU benchmarks")  # nor were they run
    titles.remove("Every node")  # it is no campaign
    assert seen.headings == ["What to do", *titles, "How it was judged"]
    assert "2026-11-21 08:00:00 UTC" in seen.text
    assert page(only()).headings == ["What to do", "How it was judged"]
    assert pages.html(cluster()) == pages.html(cluster())


def test_bandwidths_and_operations_of_files_have_a_section():
    restart, small = section(cluster(), "files").tables
    written = restart.head.index("written")
    assert [row[written] for row in restart.rows] == ["3.3 GB/s", "1.65 GB/s"]
    assert small.rows[0][-1] == "12.3 k operations/s"


def test_every_figure_has_a_table_and_words_for_those_who_do_not_see_it():
    text = pages.html(cluster())
    figures = re.findall(r"<figure>.*?</figure>", text, re.S)
    assert len(figures) > 10
    for figure in figures:
        assert re.search(r'<svg role="img" aria-labelledby="\w+-t \w+-d"', figure)
        assert re.search(r"<desc [^>]*>[^<]{10,}</desc>", figure)
    for group in text.split('<div class="group">')[1:]:
        assert re.search("<details><summary>.*<table>", group, re.S)


CONTROL = {"unsafe": [said("the control changed")]}
BELOW = comparison([row(against=Against.BELOW)] * 2, expected=1.31)
OUTLIERS = [replace(r, outlier=True, seen=0.03) for r in rows_of(inconclusive=2)]
UNSURE = comparison(rows_of(inconclusive=2))
ALARM, ACCEPTED = event(change_point()), event(change_point(), accepted="new disks")


@pytest.mark.parametrize(
    ("content", "state", "words"),
    [
        ({}, "unmeasured", "No verdict"),
        ({"run": ran(case())}, "good", "PASS: 1 of 1 checks passed"),
        (
            {"run": ran(troubles=[said("no")])},
            "unmeasured",
            "NOT MEASURED: no check ran; 1 trouble",
        ),
        ([], "unmeasured", "Nothing was compared"),
        (rows_of(regressed=3, missing=1, unchanged=5), "bad", "3 regressed, 1 missing"),
        (
            rows_of(missing=1, not_measured=2, new=5),
            "unmeasured",
            "1 missing, 2 not measured, 5 new",
        ),
        (rows_of(inconclusive=4, new=2), "unmeasured", "4 inconclusive, 2 new"),
        (rows_of(unchanged=4, improved=2), "good", "Nothing regressed, 2 improved"),
        ({"comparison": BELOW}, "bad", "2 below the expected 1.31"),
        (
            [*OUTLIERS, row()],
            "unmeasured",
            "2 inconclusive, 2 metrics slower than before, not retested",
        ),
        (
            {"comparison": UNSURE, "events": [ALARM]},
            "bad",
            "1 metric worse since 2026-11-18",
        ),
        ({"comparison": UNSURE, "events": [ACCEPTED]}, "unmeasured", "2 inconclusive"),
        (
            {"comparison": comparison(rows_of(regressed=1), **CONTROL)},
            "unsafe",
            "Not to be trusted: 1 regressed",
        ),
        (
            {"comparison": comparison(rows_of(regressed=1), **CONTROL), "run": ran(failure())},
            "bad",
            "FAIL: 0 of 1 checks passed, 1 failed, 1 regressed",
        ),
    ],
)
def test_banner(content, state, words):
    if isinstance(content, list):
        content = {"comparison": comparison(content)}
    assert report_data.headline(only(**content)) == (state, words)


def test_the_banner_is_in_page_and_markdown_with_all_counts_and_advice():
    content = cluster()
    content.title, content.about = "lab on cn1", "session feedbeef; GNU 12.2.0; Open MPI v4.1.4"
    content.comparison.unsafe = [said("the control changed as well")]
    assert f'<div class="banner {report_data.headline(content)[0]}"' in pages.html(content)
    texts = [
        report_data.headline(content)[1],
        "the control changed as well",
        "Repeat what failed or was not measured",
        "Look at cn017 first.",
        "Open MPI 5.0.5",
        "-n /1eea43dd",
        "rank 3 on cn017 aborted with code 1",
        "lab on cn1",
        "GNU 12.2.0",
        "acceptance and regression tests",
    ]
    for form in (page(content).text, exports.markdown(content)):
        assert [text for text in texts if text not in form] == []
    content.comparison.changes = []
    assert "Nothing that is recorded" in page(content).text
    assert "Nothing that is recorded" in exports.markdown(content)
    assert {*COMPARED} <= report_data.MARKS.keys()


def beginning(report):
    """The opening of a report, and that of its Markdown, which has the same."""
    start = opening(report)
    markdown = html.unescape(exports.markdown(report).replace("\\", ""))
    for text in (start.since, *start.news, *(step.text for step in start.steps)):
        assert text in markdown
    return start


def test_the_first_screen_says_what_is_new_since_the_last_night():
    """One test fails as before, one fails now, one passes again, one is new."""
    names = ("old", "new", "mended", "first", "same")
    bad = ("old", "new")
    cases = [failure(method=n) if n in bad else case(method=n) for n in names]
    was = dict.fromkeys(("old", "mended"), Verdict.FAIL) | dict.fromkeys(("new", "same"), "pass")
    last = {each.identity: Verdict(was[each.method]) for each in cases if each.method in was}
    fact = Change("MPI", "4.1", "5.0")
    before = [Session("0", MADE - NIGHT, {}, {})]
    evidence = {"last": last, "nights": 9, "since": MADE - NIGHT, "before": before}
    alarm, late = event(change_point()), {"raised": MADE + 3 * NIGHT}
    report = only(run=ran(*cases), changes=[fact], **evidence)
    report.of_run = True
    assert beginning(report).since == "New since the night of 2026-11-20 08:00 UTC"
    assert beginning(report).news == [
        "1 test fails, new tonight: transpose cnt40 mpi (system)",
        "2 tests pass, and did not before: transpose cnt40 mpi (system)",
        "1 test fails, as then: transpose cnt40 mpi (system)",
        "Changed: MPI: 4.1 -> 5.0",
    ]
    for seen, more in ((True, late), (False, {})):
        alarms = tuple(alarms_of([replace(alarm, **more)]))
        night = replace(only(run=ran(case(), alarms=alarms), **evidence), of_run=True)
        assert any("worse since 2026-11-18" in text for text in beginning(night).news) == seen
    # A test that was not there before fails; tests of that night are gone.
    for added, more, text in (
        ([failure(method="added")], {}, "1 test fails, new tonight: "),
        (
            [],
            {"vanished": ("transpose cnt40",)},
            "1 test of that night did not run: transpose cnt40",
        ),
    ):
        cases = [case(method="same"), *added]
        night = only(
            run=ran(*cases), **{**evidence, "last": {cases[0].identity: Verdict.PASS}, **more}
        )
        (news,) = beginning(replace(night, of_run=True)).news
        assert news.startswith(text)
    evidence["last"] = {case().identity: Verdict.PASS}
    for more, text in (
        (evidence, "Nothing: "),
        ({"nights": 1}, "This is the first night"),
        ({"nights": 2}, "No earlier night is comparable."),
    ):
        (news,) = beginning(replace(only(run=ran(case()), **more), of_run=True)).news
        assert news.startswith(text)
    assert beginning(replace(only(run=ran(case())), of_run=True)).since == ""  # nothing is stored


def test_the_first_screen_says_why_and_what_to_do():
    reason = Text(text="no memory", next="give it more memory")
    bad = [failure(reason=reason, method=m, hash=m) for m in "ab"]
    alarms = tuple(alarms_of([event(change_point())]))
    contents = [
        (ran(case()), "", "Nothing."),
        (ran(*bad), "transpose cnt40 mpi (system): a, b: no memory", "Give it more memory"),
        (ran(*bad), "", " -n /a -n /b"),
        (ran(case(), slow_nodes=[slow_node("cn7")]), "node cn7", "Take node cn7 out of service"),
        (ran(case(), alarms=alarms), "worse since 2026-11-18", "compare both levels"),
    ]
    for run, why, what in contents:
        start = beginning(replace(only(run=run), of_run=True))
        assert any(why in sentence for sentence in start.sentences), start
        assert not any("checks passed" in sentence for sentence in start.sentences)
        assert any(what in f"{text} {command}" for text, command in start.steps), start
    rows = comparison(rows_of(regressed=1), advice=[said("Measure more.")])
    start = beginning(only(comparison=rows))  # of two groups of sessions
    assert "Measure more." in start.sentences
    assert [step.command for step in start.steps] == [rerun_of(rows)]


def test_a_night_of_which_earlier_ones_decide_nothing_has_no_figure_of_it():
    """A night beside twenty leaves every metric open."""
    report = replace(only(run=ran(case()), comparison=UNSURE), of_run=True)
    assert "Speed-up" not in page(report).headings
    assert not any("inconclusive" in text for text in beginning(report).sentences)
    report = only(comparison=comparison(rows_of(inconclusive=2, unchanged=1)))
    assert "Speed-up" in page(report).headings


def test_failures_are_grouped_as_in_the_terminal_and_followers_counted():
    gone, layouts = said("the network is gone"), ("node", "node2", "domain", "socket")
    bad = [failure(reason=gone, method=m, layout=x) for x in ("mpi", *layouts) for m in ("a", "b")]
    follower = failure(reason=TestFailed(test="Launch"), method="c")
    report = only(run=ran(*bad, failure(reason=said("slow"), method="c"), follower))
    part = section(report, "failures")
    rows = [dict(zip(part.tables[0].head, row, strict=True)) for row in part.tables[0].rows]
    first, second = rows
    assert first["where"] == "transpose cnt40 mpi (system)"
    assert second["where"].startswith("transpose cnt40 node (system), transpose cnt40 node2 ")
    assert second["where"].endswith("domain (system) and 1 more")
    assert first["cause"] == "a, b: the network is gone\nc: slow"
    assert second["cause"] == "a, b: the network is gone"
    assert part.notes == ["1 test only followed another one's failure."]
    lines = joined("\n".join(verdict_text.failures(report.run))).splitlines()
    heads = [line for line in lines if line.startswith("FAIL")]
    assert heads == [f"FAIL: {row['where']}" for row in rows]
    assert all(f"    rerun: {row['rerun']}" in lines for row in rows)


def test_files_of_a_failure_are_links_from_where_the_page_is(tmp_path):
    (tmp_path / "kernels").mkdir()
    for name in ("x y.out", "x y.json"):
        (tmp_path / "kernels" / name).touch()
    bad = failure(files=str(tmp_path / "kernels" / "x y.*"))
    files = gather.write(only(run=ran(bad)), tmp_path)
    names = ["report.html", "report.md", "junit.xml", "bisection.prom", "nodecheck.txt"]
    assert [files[name] for name in files] == [tmp_path / name for name in names]
    text = files["report.html"].read_text()
    links = re.findall('<a href="(kernels[^"]*)">', text)
    assert links == ["kernels/x%20y.json", "kernels/x%20y.out"]


def test_what_all_rows_have_is_listed_once():
    report = only(comparison=comparison(rows_of(inconclusive=20, unchanged=2)))
    table = text_tables.rows_table(report.rows)
    assert not {"where", "metric"} & set(table.head)
    assert {"before", "after", "after / before"} <= set(table.head)
    assert "where: localhost:default system" in table.alike
    for text in (pages.html(report), exports.markdown(report)):
        assert "where: localhost:default" in text
    assert "where" in text_tables.rows_table(report.rows[:2]).head  # of two rows, nothing is


@pytest.mark.parametrize(
    ("hosts", "shown"), [(None, False), (["vm"] * 3, False), (["n1", "n2", "n3"], True)]
)
def test_a_column_without_content_is_left_out(hosts, shown):
    """Nothing is in it, or the one host of a machine without a scheduler."""
    bad = [failure(reason=said(f"cause {n}"), name=f"c{n}") for n in range(3)]
    if hosts:
        bad = [changed(test, hosts=[host]) for test, host in zip(bad, hosts, strict=True)]
    assert ("nodes" in section(only(run=ran(*bad)), "failures").tables[0].head) == shown


def test_long_lists_are_folded():
    """A phone shows the first rows; a check's rows of a comparison are one line until asked for."""
    rows = rows_of(regressed=60, unchanged=200)
    rows += [replace(r, check="md") for r in rows_of(unchanged=20)]
    assert page(only(comparison=comparison(rows))).unfolded("tr") <= 4 + 2 * pages.SHOWN
    by_check = text_tables.rows_by_check(rows)
    assert [table.title.partition(":")[0] for table in by_check] == ["transpose", "md"]
    assert sum(len(table.rows) for table in by_check) == len(rows)
    assert all(table.folded for table in by_check)
    notes = [said(f"remark {n}") for n in range(40)]
    assert page(only(run=ran(case(), remarks=notes))).unfolded("li") <= pages.SHOWN + 10


def test_a_command_is_broken_at_blanks_alone():
    """Also at neither hyphen of an option in a sentence, nor in one between backquotes."""
    bad = failure(hash="", reason=said("rerun it with --reruns=4 or `run -n NAME`"))
    report = only(run=ran(bad), comparison=comparison(rows_of(regressed=2)))
    again = rerun_of(report.comparison)
    assert "--reruns=4" in again
    seen = page(report)
    commands = seen.root.findall(".//code[@class='command']")
    assert again in map(words, commands)
    assert "run -n NAME" in map(words, seen.root.iter("code"))
    for span in seen.root.iterfind(".//span[@class='nowrap']"):
        span.text = ""
    assert not any(map(words, commands))
    assert not re.search(r"(?<![\w-])--?[a-z]", words(seen.root))


def hostile():
    """Text that wants out, wherever data can hold text."""
    names = dict.fromkeys((*PLACE, "check", "case", "layout", "method"), HOSTILE)
    why = {"reason": said(HOSTILE), "explained": said(HOSTILE), "software": (HOSTILE, HOSTILE)}
    worse = {"verdict": Verdict.REGRESSED, "ratio": 1.2, "against": Against.BELOW}
    rows = [row(**worse, **why, **names), row(**{**names, "metric": HOSTILE, "unit": HOSTILE})]
    change = Change(HOSTILE, HOSTILE, HOSTILE)
    suspects = [slow_node(node, jobs=3, where=HOSTILE) for node in (HOSTILE, "cn1")]
    words = {"advice": [said(HOSTILE)], "unsafe": [said(HOSTILE)]}
    compared = comparison(rows, **words, changes=[change], suspects=suspects, expected=1.3)
    compared.before[0]["uuid"] = HOSTILE
    text = dict.fromkeys(("name", "method", "files"), HOSTILE)
    bad = replace(failure(reason=said(HOSTILE), hosts=[HOSTILE], **text), name=HOSTILE)
    tests = itertools.product((1, 2), (f"{HOSTILE}a", f"{HOSTILE}b"))
    where = {"layout": HOSTILE, "environ": HOSTILE}
    cases = [case(HOSTILE, HOSTILE, method, f"{n}x2x1", **where) for n, method in tests]
    odd = pairs(8, slow=2)
    odd.matrix.nodes[2] = odd.place = HOSTILE
    odd.bad = [replace(odd.bad[0], names=(HOSTILE,))]
    events = [event(change_point(**names), changes=[change], system=HOSTILE, session=HOSTILE)]
    past = [series([1.0, 2.0, 3.0], [1], **names)]
    run = ran(bad, *cases, troubles=[said(HOSTILE)])
    hostile = only(comparison=compared, events=events, series=past, blames=[odd], run=run)
    return replace(hostile, title=HOSTILE)


def test_text_cannot_leave_its_place():
    content = hostile()
    text, seen, markdown = pages.html(content), page(content), exports.markdown(content)
    assert "alert(1)" in seen.text  # told, as text
    assert "<b>&" not in text
    assert "{{ 7*7 }}" in seen.text
    junit = exports.junit(content)
    for form in (text, markdown, junit, exports.nodecheck(content)):
        assert not re.search("[\x00\x1b]", form)
    ET.fromstring(junit)
    families(exports.prometheus(content))
    assert "<script" not in re.sub(r"(`+).*?\1", "", markdown)  # but as code
    rows = itertools.groupby(markdown.splitlines(), lambda line: line[:1] == "|")
    listed = [list(group) for is_row, group in rows if is_row]
    assert len(listed) >= 5
    for lines in listed:  # tables keep their columns
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in lines}) == 1, lines


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
    compared = comparison(rows, suspects=[slow_node("cn1", value)])
    compared.after[0]["start"] = value
    content = only(
        comparison=compared,
        events=[event(change_point(1.2, at=value))],
        series=[series([1.0, value, 2.0, value]), series([value, value])],
        run=ran(strange, case(method="a"), case(method="b"), case(geometry="")),
    )
    content.written = value
    page(content)
    texts = {name: form(content) for name, form in gather.FORMS.items()}
    ET.fromstring(texts["junit.xml"])
    families(texts["bisection.prom"])


def test_strange_geometries_are_not_drawn():
    strange = ["", "x", "2x", "axb", "1x2x3x4", "-1x2", "9" * 20 + "x1"]
    assert not any(map(parsed, strange))
    rows = [row(case=f"c{n}", geometry=geometry) for n, geometry in enumerate(strange)]
    cases = [case(method=f"m{n}", geometry=geometry) for n, geometry in enumerate(strange)]
    headings = page(only(comparison=comparison(rows), run=ran(*cases))).headings
    assert "Speed-up" in headings
    assert "Methods" not in headings


def test_three_thousand_metrics_of_sixty_nights():
    seen = page(large())  # less than a megabyte
    assert "more rows are not listed" in seen.text
    assert re.search(r"2,9\d\d more metrics have a history that is not drawn", seen.text)
    assert 20 <= seen.values("class").count("name") <= pages.SPARKLINES
