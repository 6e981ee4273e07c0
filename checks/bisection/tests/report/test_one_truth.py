"""Banner, exit code, JUnit and Prometheus of a report say the same."""

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from made_up import case as stored
from made_up import store, tables
from reports import case, failure

from bisection.analysis.compare import compare
from bisection.commands import run as command
from bisection.core.verdicts import Exit
from bisection.judge import alarms, evidence, rule
from bisection.judge.evidence import Evidence
from bisection.report import exports, gather, model
from bisection.runs.model import RunVerdict
from bisection.store.selection import SLOWER, select

NIGHTS, METRICS = 20, 30


def nights(slower=1.0, tags=None, night=NIGHTS):
    """Twenty nights of thirty metrics and a count, and one more."""
    times = 1e-3 * np.exp(np.random.default_rng(5).normal(0, 0.03, (METRICS, night + 1)))
    times[:, night] *= slower
    contents = tables({"transpose": times})
    for _, cases in contents:
        cases.append(stored("m0", {"bytes": [512, "B", "lower"]}, check="sizes"))
    contents[-1][0]["tags"] |= tags or {}
    return contents


def report_on(tmp_path, contents, run=None, of_run=False, **options):
    with store(tmp_path / "store.db", contents) as filled:
        after = select("latest", filled)
        before = select("earlier:20", filled, after)
        known = Evidence(comparison=compare(filled, before, after, **options))
        known = evidence.of_history(known, filled, after, run if of_run else None)
        if run and of_run:
            run = alarms.rule(run, known)
        return gather.gather(filled, after, run, known, of_run)


def check_one_truth(report):
    """The exit code, which all forms agree with."""
    code, state = model.exit_code(report), model.headline(report)[0]
    gauge = re.search(r"^bisection_exit_code\{.*\} (\d)", exports.prometheus(report), re.M)
    junit = ET.fromstring(exports.junit(report))
    assert int(gauge[1]) == code
    assert (int(junit.get("failures")) + int(junit.get("errors")) > 0) == (code != Exit.OK)
    assert (state == model.BAD) <= (code in (Exit.FAILED, Exit.SLOWER))
    assert (state in (model.GOOD, model.UNCERTAIN)) == (code == Exit.OK)
    assert junit.get("skipped") == "0"  # 2,008 a night in Jenkins once
    return code


PASSED = {"run": RunVerdict(cases=[case()]), "of_run": True}


@pytest.mark.parametrize(
    ("how", "beside", "code"),
    [
        ({}, {}, Exit.OK),
        ({"slower": 10.0}, {}, Exit.NOT_MEASURED),
        ({"slower": 10.0, "tags": {SLOWER: "confirmed"}}, {}, Exit.SLOWER),
        ({"slower": 0.1}, {}, Exit.OK),
        ({}, {"run": RunVerdict(cases=[case(), failure()])}, Exit.FAILED),  # nothing is slower
        ({"slower": 10.0}, PASSED, Exit.OK),  # no comparison changes the report of a run
    ],
)
def test_a_night_beside_twenty(tmp_path, how, beside, code):
    """A night ten times slower in all is not exit 0; one like all others is."""
    assert check_one_truth(report_on(tmp_path, nights(**how), **beside)) == code


def test_metrics_that_are_worse_since_a_session_are_no_exit_0(tmp_path):
    contents = nights(night=30)
    for _, cases in contents[20:]:
        for stored_case in cases[:10]:
            stored_case["metrics"]["time"][0] *= 1.3
    report = report_on(tmp_path, contents)
    assert any(event.alarm for event in report.history)
    assert check_one_truth(report) == Exit.FAILED


def test_a_person_may_ask_for_no_failure(tmp_path):
    report = report_on(tmp_path, nights(slower=10.0), fail_on=())
    assert model.exit_code(report) == Exit.OK


def test_a_history_that_cannot_be_judged_does_not_lose_the_verdict(tmp_path, monkeypatch, capsys):
    def fails(*_):
        raise ZeroDivisionError("of 8 nights")

    monkeypatch.setattr(evidence, "histories", fails)
    with store(tmp_path / "store.db", nights()) as filled:
        now = select("latest", filled)
        run = RunVerdict(cases=[case()], session=now[0].uuid)
        night = command.Night(run, tmp_path, tmp_path)
        command.reported(night, filled)
    assert not (tmp_path / "report.html").exists()
    assert "ZeroDivisionError: of 8 nights" in capsys.readouterr().err
    assert [str(trouble.values["error"]) for trouble in night.verdict.troubles] == [
        "no report: ZeroDivisionError('of 8 nights')"
    ]
    assert night.verdict.exit_code == Exit.NOT_MEASURED


def test_a_ruling_that_fails_does_not_lose_the_verdict(capsys):
    run = rule(RunVerdict(cases=[case()]), Evidence(events=[None]))
    assert "AttributeError" in capsys.readouterr().err
    assert str(run.troubles[0]["error"]).startswith("alarms not judged: AttributeError(")
    assert run.exit_code == Exit.NOT_MEASURED
