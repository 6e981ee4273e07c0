"""One run has one verdict: exit code, first line, banner, verdict.json, JUnit and Prometheus agree,
for a fault per ruling and for combinations. A report changes no verdict. The forms of a report on
stored sessions agree as well, and so do `run`, `verdict`, `report`, `history` and `compare`."""

import json
import xml.etree.ElementTree as ET
from copy import deepcopy
from dataclasses import FrozenInstanceError, fields, replace
from typing import NamedTuple

import numpy as np
import pytest
from made_up import case as stored_case
from made_up import series, store, tables, with_case
from made_up_network import World
from reports import change_point, event, families, slow_node
from reports import row as compared
from results_made import SLOW_MEMORY, changed, launched, noise_run, outlier, outside
from running import on_one_line
from validated import valid

from bisection.analysis.comparison import compare
from bisection.analysis.model import Change, Comparison
from bisection.analysis.retest_plan import plan
from bisection.core.reasons.base import Text
from bisection.core.reasons.launches import Blocked, KernelDied, ReframeText, TestFailed
from bisection.core.reasons.machines import AdapterErrors, SlowClock, SlowWriter, Throttled
from bisection.core.reasons.performance import Unlike
from bisection.core.verdicts import Exit, Grade, KernelExit, Verdict
from bisection.judge import alarms, decision, evidence, network, rule
from bisection.judge.evidence import DisturbedRerun, Evidence, Retest
from bisection.kernels.local import Estimate
from bisection.night import night as steps
from bisection.report import exports, gather, opening, verdict_text
from bisection.report.documents import VerdictDocument
from bisection.report.report_data import CODES, STATES, UNCERTAIN, Report, headline
from bisection.runs.run_verdict import Request, RunVerdict
from bisection.store.selection import SLOWER, select
from interconnect.blame import Blame, HopLevel, Judged
from interconnect.impact import Impact
from interconnect.pairs import KINDS
from interconnect.reasons import Part, SlowComponent, Symptom

# ---- parts of runs ----


def run(*pairs, **more):
    """A run of a launch that passed, and of these."""
    cases = [case for pair in (launched(case="good"), *pairs) for case in pair]
    return RunVerdict(cases, session="feedbeef", **more)


def became(verdict, reason):
    """A run of two launches, whose last test has another verdict."""
    return with_case(run(launched()), -1, verdict=verdict, reason=reason)


SLOW_CLOCK = SlowClock(host="n2", rank=1, cpus="0", ghz=1.0, median=3.0)
ERRORS = AdapterErrors(host="n1", adapter="mlx5_0", errors=(("crc", 9),))


def clocks(slow, of=3):
    """A run of launches, of which in some a node had a slow clock."""
    return run(*(launched(case=f"{n}", faults=[SLOW_CLOCK] * (n < slow)) for n in range(of)))


# ---- evidence ----

TONIGHT = {"uuid": "feedbeef", "start": 0.0, "tags": {}}


def retested(first, *second, rows=(), budget=900.0):
    agenda = plan(rows, rule(first), budget)
    cases = [case for part in second for case in part.cases]
    return Evidence(retest=Retest(agenda, rule(RunVerdict(cases)) if second else None))


def slower(*second, check="transpose", budget=900.0, first=None):
    """Evidence of a time that looks slow, and of its retest: each part of it twice."""
    rows = [outlier(check=check)]
    beside = retested(first or run(launched(check)), *second * 2, rows=rows, budget=budget)
    return replace(beside, comparison=Comparison([], [TONIGHT], rows), nights=9)


SLOW_PAIRS = run(launched("pairs", time=8e-3))
SLOWER_PAIRS = slower(SLOW_PAIRS, check="pairs")
SLOW, FAST = run(launched(time=8e-3)), run(launched(time=1e-3))
LOUD = run(launched(time=8e-3, disturbed=0.2))
LATE, SLOWED = Symptom("latency", "", 1.3, 9.0), Symptom("bandwidth", "", 0.5, 9.0)
COMPONENT = SlowComponent(part=Part.NODE, names=("n5",), symptoms=(LATE,))
LINK = SlowComponent(part=Part.PATH, names=("n5", "n6"), symptoms=(SLOWED,))
MATRIX = World(8, 8, 1).matrix()


def blamed(part=COMPONENT, rate=0.0, **more):
    """Evidence of what pairs of nodes say."""
    kinds = [Judged(kind, 0.01, [HopLevel(0, 2e10, 28)]) for kind in KINDS]
    parts = {name: [part] for name, there in more.items() if there is True}
    if more.get("withheld"):
        why = "pairs measured at the same time slow each other down"
        kinds, parts = [replace(kind, withheld=why) for kind in kinds], {}
    return Evidence(blames=(Blame(replace(MATRIX, rate=rate), "lab:cpu", kinds, **parts),))


def traffic(mean, withheld=None):
    """Evidence of what a victim suffers."""
    ratio = Estimate(mean, mean - 0.1, mean + 0.1)
    return Evidence(impacts=(Impact("apart", "halo", "incast", ratio, ratio, 0.9, withheld),))


WITHHELD = traffic(2.5, Text("1 cycles were measured; 5 are needed"))
VOTED = Evidence(nodes=(slow_node("n2", 1.4, 12, "lab:cpu"),))


def alarmed(system="lab", verdict=Verdict.REGRESSED, **more):
    """Evidence of a change of level in the history."""
    point = change_point(1.3, verdict=verdict)
    return Evidence(events=(event(point, system=system, partition="cpu", **more),))


ALARM = alarmed()
WORSE = compared("pairs", "sampled", "tournament", Verdict.REGRESSED, 1.4)
REGRESSED = Evidence(comparison=Comparison([], [TONIGHT], [WORSE]))
UNLIKE = replace(outlier(), outlier=False, reason=Unlike(what="geometry", values=("1x1", "2x1")))
OTHER_RANKS = Evidence(
    comparison=Comparison([], [TONIGHT], [replace(UNLIKE, verdict=Verdict.NOT_MEASURED)]),
    changes=(Change("cores", "2", "1 of 2: CPU quota 0.24"),),
)


def both(first, second):
    return replace(first, **{name: value for name, value in vars(second).items() if value})


def triage(verdict):
    """The run as one of a tier that asks about the network."""
    return replace(verdict, request=Request("triage"))


def writer_run(*faults):
    """A run of restart files and of another launch."""
    return run(launched("restart", "restart", faults=faults), launched())


WRITER = writer_run(SlowWriter(host="n2", rank=1, ratio=9.0))
LOST, SUSPECT = run(launched(disturbed=0.5)), noise_run(SLOW_MEMORY)
FELL = Throttled(host="n1", kept=(("dgemm", 0.7),), clock=(2.6, 1.8), temperature=97.0)
THROTTLED = run(launched("burn", "burn", faults=(FELL,), hosts=["n1"]))
FAILED = became(Verdict.FAIL, Text("verification did not pass"))
UNMEASURED = became(Verdict.NOT_MEASURED, Blocked(job="7"))
SLOW_AND_BLOCKED = RunVerdict([*SLOW.cases, UNMEASURED.cases[-1]])


def rerun(second):
    """Evidence of launches that were rerun, as other processes had their cores."""
    return Evidence(disturbed=(DisturbedRerun((LOST.cases[2],), rule(second)),))


class Case(NamedTuple):
    """A made-up run, what it is judged by, and its exit code."""

    run: RunVerdict
    code: Exit
    evidence: Evidence = Evidence()
    grade: Grade | None = None  # of its network


OK, FAIL, MISSING, WORSE_NOW = Exit.OK, Exit.FAILED, Exit.NOT_MEASURED, Exit.SLOWER
GO, LOOK, NO_GO = Grade.GO, Grade.LOOK, Grade.NO_GO
SOUND, NEW = run(), triage(run())
NOT_APPLICABLE = [launched(verdict=Verdict.NOT_APPLICABLE)[1]]
JOBS_LEFT = Text("left in the queue: 7; cancel with scancel 7")
GONE = Text("tests of the last session are gone: eigen fock-256 mpi elpa1")  # left out of the build
INTERRUPTED = ReframeText(text="run session stopped: keyboard interrupt", ended=True)
UNRUN = with_case(run(launched()), -1, verdict=Verdict.NOT_MEASURED, reason=INTERRUPTED, ran=False)
UNRUN = replace(UNRUN, troubles=[INTERRUPTED])
# A launch that its kernel refused: its scratch folder has no room. Its test follows it.
FULL = KernelDied(kernel="restart", exit_code=KernelExit.RESOURCES, line="no room")
FULL = launched("restart", "restart", verdict=Verdict.NOT_MEASURED, reason=FULL)
FULL = (FULL[0], changed(FULL[1], reason=TestFailed(test=FULL[0].name)))
BAD, LOUD_BAD = outside(), outside(waited=0.2)
SUSPECT_LINK = blamed(LINK, suspects=True)
RUNS = {
    # launches
    "all passes": Case(SOUND, OK),
    "a wrong answer": Case(FAILED, FAIL),
    "a blocked job": Case(UNMEASURED, MISSING),
    "a known failure": Case(became(Verdict.KNOWN, Text()), OK),
    "nothing ran": Case(RunVerdict(troubles=(Text("no check was selected"),)), MISSING),
    "nothing applies": Case(RunVerdict(NOT_APPLICABLE), MISSING),
    "a job that is left": Case(run(troubles=[JOBS_LEFT]), MISSING),
    "a kernel that is left out since": Case(run(troubles=[GONE]), MISSING),
    "an interrupted run": Case(UNRUN, MISSING),
    "an interrupted run that was wrong": Case(replace(FAILED, troubles=[INTERRUPTED]), FAIL),
    "a scratch folder that is too small": Case(run(FULL), MISSING),
    "a wrong answer that no test is about": Case(run(launched(wrong=["shm"])), FAIL),
    "a disturbed launch": Case(LOST, MISSING),
    "a launch that was rerun": Case(LOST, OK, rerun(run(launched()))),
    "a launch that was disturbed again": Case(LOST, MISSING, rerun(LOST)),
    "a launch that was wrong the second time": Case(LOST, FAIL, rerun(FAILED)),
    "outside its bounds, of a disturbed launch": Case(outside(disturbed=0.2), MISSING),
    # hosts
    "a suspect node": Case(SUSPECT, MISSING),
    "a node alone that does not keep its rate": Case(THROTTLED, MISSING),
    "a slow node": Case(SUSPECT, WORSE_NOW, retested(SUSPECT, SUSPECT)),
    "a node that was slow once": Case(SUSPECT, OK, retested(SUSPECT, noise_run())),
    "a slow writer": Case(WRITER, WORSE_NOW, retested(WRITER, WRITER)),
    "a writer that was slow once": Case(WRITER, OK, retested(WRITER, writer_run())),
    "a suspect writer": Case(WRITER, MISSING),
    "a slow clock": Case(clocks(2), WORSE_NOW),
    "a clock that was slow once": Case(clocks(1), OK),
    "a slow node by many nights": Case(SOUND, WORSE_NOW, VOTED),
    "a faulty adapter": Case(noise_run(ERRORS), OK),
    "a faulty adapter of a new network": Case(triage(noise_run(ERRORS)), MISSING, grade=LOOK),
    "a suspect node of a new network": Case(triage(SUSPECT), MISSING, grade=LOOK),
    "a slow node of a new network": Case(NEW, WORSE_NOW, VOTED, LOOK),
    # pairs
    "a bad component": Case(SOUND, FAIL, blamed(bad=True)),
    "a worse component": Case(SOUND, WORSE_NOW, blamed(worse=True)),
    "a suspect component": Case(SOUND, MISSING, blamed(suspects=True)),
    "a bad link": Case(SOUND, FAIL, blamed(LINK, bad=True)),
    "a suspect link": Case(SOUND, MISSING, SUSPECT_LINK),
    "a matrix that cannot be read": Case(SOUND, MISSING, Evidence(unreadable=(Text("no"),))),
    "a bad link of a new network": Case(NEW, FAIL, blamed(LINK, bad=True), NO_GO),
    "a worse link of a new network": Case(NEW, WORSE_NOW, blamed(LINK, worse=True), LOOK),
    "a suspect link of a new network": Case(NEW, MISSING, SUSPECT_LINK, LOOK),
    # bounds
    "outside its bounds, not retested": Case(BAD, FAIL, retested(BAD, budget=0.0)),
    "outside its bounds, twice": Case(BAD, FAIL, retested(BAD, BAD)),
    "outside its bounds, once": Case(BAD, OK, retested(BAD, outside(1.0))),
    "outside its bounds, in a disturbed retest": Case(BAD, MISSING, retested(BAD, LOUD_BAD)),
    "outside its bounds, then wrong": Case(BAD, FAIL, retested(BAD, FAILED)),
    "outside its bounds, in a retest that did not end": Case(BAD, FAIL, retested(BAD)),
    # earlier nights, and their retest
    "slower twice": Case(SLOW, WORSE_NOW, slower(SLOW)),
    "slower once": Case(SLOW, OK, slower(FAST)),
    "slower, not retested": Case(SLOW, MISSING, slower(budget=0.0)),
    "slower, in a retest that did not end": Case(SLOW, MISSING, slower()),
    "slower, in a disturbed retest": Case(SLOW, MISSING, slower(LOUD)),
    "slower, then wrong": Case(SLOW, FAIL, slower(FAILED)),
    "on other ranks than before": Case(SOUND, MISSING, OTHER_RANKS),
    "a new network that is slower twice": Case(triage(SLOW_PAIRS), WORSE_NOW, SLOWER_PAIRS, NO_GO),
    # alarms
    "worse since a session": Case(SOUND, WORSE_NOW, ALARM),
    "worse since a session that was accepted": Case(SOUND, OK, alarmed(accepted="new disks")),
    "worse on another system": Case(SOUND, OK, alarmed(system="elsewhere")),
    "better since a session": Case(SOUND, OK, alarmed(verdict=Verdict.IMPROVED)),
    "worse since a session, of a new network": Case(NEW, WORSE_NOW, ALARM, GO),
    # network
    "a new network": Case(NEW, OK, grade=GO),
    "an impact": Case(NEW, FAIL, traffic(2.5), NO_GO),
    "a small impact": Case(NEW, MISSING, traffic(1.5), LOOK),
    "an impact that is withheld": Case(NEW, OK, WITHHELD, GO),
    "an impact that nobody asked for": Case(SOUND, OK, traffic(2.5)),
    "a level below the old network": Case(NEW, FAIL, REGRESSED, NO_GO),
    "pairs below half of the adapters": Case(NEW, MISSING, blamed(rate=1e11), LOOK),
    "pairs too noisy to judge": Case(NEW, MISSING, blamed(withheld=True), LOOK),
    "a wrong answer on a new network": Case(triage(FAILED), FAIL, grade=NO_GO),
    "a blocked job on a new network": Case(triage(UNMEASURED), MISSING, grade=LOOK),
    # combinations
    "a bad link, and slower": Case(SLOW, FAIL, both(slower(SLOW), blamed(LINK, bad=True))),
    "slower, and blocked": Case(SLOW_AND_BLOCKED, MISSING, slower(SLOW)),
    "a slow node, and a suspect link": Case(SOUND, WORSE_NOW, both(VOTED, SUSPECT_LINK)),
    "a slow node, and a blocked job": Case(UNMEASURED, MISSING, VOTED),
    "a slow node, and a job that is left": Case(run(troubles=[JOBS_LEFT]), MISSING, VOTED),
    "a suspect node and a suspect link": Case(SUSPECT, MISSING, SUSPECT_LINK),
    "an alarm, and not retested": Case(SLOW, WORSE_NOW, both(slower(budget=0.0), ALARM)),
    "an alarm, and a wrong answer": Case(FAILED, FAIL, ALARM),
    "an alarm, and an interrupted run": Case(UNRUN, MISSING, ALARM),
    "an alarm, and a kernel that is left out since": Case(run(troubles=[GONE]), MISSING, ALARM),
    "an impact, and slower": Case(triage(SLOW), FAIL, both(slower(SLOW), traffic(2.5)), NO_GO),
    "a small impact, and a slow node": Case(NEW, WORSE_NOW, both(VOTED, traffic(1.5)), LOOK),
    "a metric that regressed, of a run that passed": Case(SOUND, OK, REGRESSED),
}


def check_junit(text, code):
    counts = ET.fromstring(text)
    failures, errors = (int(counts.get(name)) for name in ("failures", "errors"))
    assert (failures > 0) >= (code in (FAIL, WORSE_NOW))
    assert (errors > 0) >= (code == MISSING)
    assert (failures + errors > 0) == (code != OK)


def check_forms(report, code):
    """Banner, JUnit and Prometheus of a report say the same as its exit code."""
    banner = opening.opening(report)
    assert banner.state == headline(report)[0]
    assert banner.state == CODES[code] or (code == OK and banner.state == UNCERTAIN)
    assert f"**{STATES[banner.state]} " in exports.markdown(report)
    check_junit(exports.junit(report), code)
    samples = families(exports.prometheus(report))
    assert {value for _, value in samples["bisection_exit_code"]} == {code}
    return banner


@pytest.mark.parametrize("name", RUNS)
def test_every_form_says_the_same(name):
    case = RUNS[name]
    before = deepcopy(case)
    verdict = rule(case.run, case.evidence)
    assert not any("not judged: " in str(trouble) for trouble in verdict.troubles)
    assert decision.of_run(verdict) == case.code
    assert (verdict.interconnect and verdict.interconnect.grade) == case.grade
    assert case.code != OK or case.grade != NO_GO
    word = verdict_text.NAMES[case.code] + ": "
    first = verdict_text.text(verdict)[0]
    assert first.startswith(word)
    for node in {reason.host for reason in verdict.suspect_nodes} | {
        name for reason in verdict.slow_nodes for name in getattr(reason, "nodes", ())
    }:  # whatever else decides
        assert node in first

    kept = valid(VerdictDocument.of(verdict).text())
    assert (kept["exit_code"], kept["grade"]) == (case.code, case.grade)
    assert kept["verdict"].startswith(first)
    copy = RunVerdict.from_dict(kept)
    assert (decision.of_run(copy), copy.interconnect) == (case.code, verdict.interconnect)
    stored = network.rule(copy, Evidence(impacts=case.evidence.impacts))  # without its pairs
    assert decision.of_run(stored) == case.code
    assert (stored.interconnect and stored.interconnect.grade) == case.grade
    assert verdict_text.text(copy)[0] == verdict_text.text(verdict)[0]

    report = Report("A report", 0.0, case.evidence, run=verdict, of_run=True)
    assert headline(report)[1].startswith(word)
    banner = check_forms(report, case.code)
    if case.grade:
        assert banner.headline.startswith(verdict.interconnect.headline)
        assert f"Network: {case.grade}" in banner.headline

    exports.nodecheck(report)
    assert case.run == before.run  # which neither a ruling nor a report changes
    assert verdict == rule(before.run, before.evidence)


def test_what_is_slower_is_measured_again_on_a_network_that_is_no_go(tmp_path, monkeypatch):
    monkeypatch.setattr(steps, "measure_again", lambda *_: rule(RunVerdict(SLOW.cases * 2)))
    known = replace(traffic(2.5), comparison=Comparison([], [TONIGHT], [outlier(), WORSE]))
    night = steps.Night(triage(SLOW), tmp_path, tmp_path, known)
    assert decision.of_run(night.verdict) == FAIL
    steps.retest(night, 900.0, [], None)
    assert (len(night.verdict.slower), decision.of_run(night.verdict)) == (1, FAIL)


def test_a_verdict_is_frozen():
    verdict = rule(SLOW, slower(SLOW))
    for record in (verdict, verdict.cases[1].metrics[0], SLOW_CLOCK):
        for field in fields(record):
            with pytest.raises(FrozenInstanceError):
                setattr(record, field.name, None)
    assert all(isinstance(getattr(verdict, name), tuple) for name in ("cases", *verdict.REASONS))


# ---- reports on stored sessions ----

NIGHTS, METRICS = 20, 30


def nights(slower=1.0, tags=None, night=NIGHTS, worse=1.0):
    """Twenty nights of thirty metrics and a count, and one more; from then on, ten are worse."""
    times = 1e-3 * np.exp(np.random.default_rng(5).normal(0, 0.03, (METRICS, night + 1)))
    times[:, night] *= slower
    times[:10, NIGHTS:] *= worse
    contents = tables({"transpose": times})
    for _, cases in contents:
        cases.append(stored_case("m0", {"bytes": [512, "B", "lower"]}, check="sizes"))
    contents[-1][0]["tags"] |= tags or {}
    return contents


def report_on(tmp_path, contents, run=None, of_run=False):
    with store(tmp_path / "store.db", contents) as filled:
        after = select("latest", filled)
        before = select("earlier:20", filled, after)
        known = Evidence(comparison=compare(filled, before, after))
        known = evidence.of_history(known, filled, after, run if of_run else None)
        if run and of_run:
            run = alarms.rule(run, known)
        return gather.gather(filled, after, run, known, of_run)


@pytest.mark.parametrize(
    ("how", "beside", "code"),
    [
        ({}, {}, OK),
        ({"slower": 10.0}, {}, MISSING),
        ({"slower": 10.0, "tags": {SLOWER: "confirmed"}}, {}, WORSE_NOW),
        ({"slower": 0.1}, {}, OK),
        ({"worse": 1.3, "night": 30}, {}, WORSE_NOW),  # since a session
        ({}, {"run": FAILED}, FAIL),  # nothing is slower
        ({"slower": 10.0}, {"run": SOUND, "of_run": True}, OK),  # by no comparison
    ],
)
def test_a_night_beside_twenty(tmp_path, how, beside, code):
    """A night ten times slower in all is not exit 0; one like all others is."""
    report = report_on(tmp_path, nights(**how), **beside)
    assert report.exit_code == code
    check_forms(report, code)
    skipped = ET.fromstring(exports.junit(report)).get("skipped")
    assert skipped == "0"  # 2,008 a night in Jenkins once


def test_a_person_may_ask_for_no_failure(tmp_path):
    contents = nights(slower=10.0, worse=1.3, night=30)
    report = report_on(tmp_path, contents)
    assert replace(report, fail_on=()).exit_code == OK


def test_a_history_that_cannot_be_judged_does_not_lose_the_verdict(tmp_path, monkeypatch, capsys):
    def fails(*_, **__):
        raise ZeroDivisionError("of 8 nights")

    monkeypatch.setattr(evidence, "histories", fails)
    with store(tmp_path / "store.db", nights()) as filled:
        now = select("latest", filled)
        night = steps.Night(replace(SOUND, session=now[0].uuid), tmp_path, tmp_path)
        steps.look_back(night, filled)
        steps.reported(night, filled)
    assert "ZeroDivisionError: of 8 nights" in capsys.readouterr().err
    (trouble,) = night.verdict.troubles
    assert str(trouble) == "history not judged: ZeroDivisionError('of 8 nights')"
    assert decision.of_run(night.verdict) == MISSING


def test_a_ruling_that_fails_does_not_lose_the_verdict(capsys):
    verdict = rule(SOUND, Evidence(events=[None]))
    assert "AttributeError" in capsys.readouterr().err
    assert str(verdict.troubles[0]).startswith("alarms not judged: AttributeError(")
    assert decision.of_run(verdict) == MISSING


# ---- one night by every command ----

LEVEL = 1e-3  # s


def tonight(time=LEVEL, **more):
    return [*launched(case="cnt40", geometry="2x1", time=time, **more)]


def without_time(reason, verdict=Verdict.NOT_MEASURED):
    """A night whose test has no time, for this reason."""
    launch, test = tonight()
    return [launch, changed(test, verdict=verdict, reason=reason, metrics=())]


class Tonight(NamedTuple):
    """A kind of finding: a night that has it, and the exit codes of each command."""

    cases: list
    run: Exit  # also of `verdict` and `report`
    compare: Exit  # which knows no run, and no history
    history: Exit = OK
    troubles: tuple = ()
    retest: list | None = None
    before: float = 1.0  # the level of the nights before the last ten


SLOW_NIGHT, LEFT = tonight(8 * LEVEL), (JOBS_LEFT,)
WRONG_NIGHT = without_time(Text("verification did not pass"), Verdict.FAIL)
FINDINGS = {
    "passed": Tonight(tonight(), OK, OK),
    "failed": Tonight(WRONG_NIGHT, FAIL, MISSING),
    "slower by an alarm": Tonight(tonight(), WORSE_NOW, OK, WORSE_NOW, before=0.7),
    "slower by an outlier": Tonight(SLOW_NIGHT, MISSING, MISSING),
    "slower by a retest": Tonight(SLOW_NIGHT, WORSE_NOW, WORSE_NOW, retest=SLOW_NIGHT),
    "not measured": Tonight(without_time(Text("not in this run")), MISSING, MISSING),
    "disturbed": Tonight(tonight(disturbed=0.5), MISSING, MISSING),
    "blocked": Tonight(without_time(Blocked()), MISSING, MISSING),
    "a trouble": Tonight(tonight(), MISSING, OK, troubles=LEFT),
    "nothing to judge": Tonight([], MISSING, MISSING, troubles=(Text("no check was selected"),)),
    "an alarm, and failed": Tonight(WRONG_NIGHT, FAIL, MISSING, WORSE_NOW, before=0.7),
    "an alarm, and an outlier": Tonight(SLOW_NIGHT, WORSE_NOW, MISSING, WORSE_NOW, before=0.7),
    "an alarm, and a trouble": Tonight(tonight(), MISSING, OK, WORSE_NOW, LEFT, before=0.7),
}


def check_files(folder, code):
    """JUnit says the same as the exit code; so do banner and Prometheus of a report."""
    check_junit((folder / "junit.xml").read_text(), code)
    if (folder / "report.md").exists():
        assert f"\n**{STATES[CODES[code]]} " in (folder / "report.md").read_text()
        samples = families((folder / "bisection.prom").read_text())
        assert {value for _, value in samples["bisection_exit_code"]} == {code}


@pytest.mark.parametrize("name", FINDINGS)
def test_every_command_says_the_same(name, home, command_line, monkeypatch, capsys, rng):
    """A night goes through all of `run` that follows its launches; then each command is asked."""
    asked = FINDINGS[name]
    times = LEVEL * np.repeat([asked.before, 1.0], [30, 9]) * np.exp(rng.normal(0, 0.005, 39))
    earlier = series(times)
    store(home / "store.db", earlier).close()
    last, again = earlier[-1][0], asked.retest and rule(RunVerdict(asked.retest * 2))
    monkeypatch.setattr(steps, "measure_again", lambda *_: again)
    known = {"session": "tonight", "started": last["start"] + 86400, "tags": last["tags"]}
    run = RunVerdict(asked.cases, asked.troubles, request=Request("nightly", "lab"), **known)
    results = home / "results" / "2026-07-10T000000Z"
    results.mkdir(parents=True)
    night = steps.Night(run, home, results)
    steps.conclude(night, 900.0 if again else 0.0)
    assert decision.of_run(night.verdict) == asked.run
    check_files(results, asked.run)
    word = verdict_text.NAMES[asked.run] + ": "
    assert (results / "verdict.txt").read_text().startswith(word)
    assert json.loads((results / "verdict.json").read_text())["exit_code"] == asked.run

    capsys.readouterr()
    code, text, _ = command_line("verdict", str(results))
    assert (code, text.startswith(word)) == (asked.run, True)
    code, text, errors = command_line("report", "-o", str(home / "report"))
    is_alarm = asked.history == WORSE_NOW
    assert (code, text.startswith("worse since 2026-07-0")) == (asked.run, is_alarm), errors
    check_files(home / "report", asked.run)
    unsure = "slower than before, not retested" in (home / "report" / "report.md").read_text()
    assert unsure == (asked.compare == MISSING and asked.cases is SLOW_NIGHT)
    kept = json.loads(command_line("compare", "earlier:20", "latest", "--json")[1])
    code, text, _ = command_line("compare", "earlier:20", "latest")
    assert (code, kept["exit_code"]) == (asked.compare, asked.compare)
    assert on_one_line(text).startswith(kept["sentence"])
    code, text, _ = command_line("history")
    assert (code, ": 1 metric worse" in text) == (asked.history, is_alarm)
    assert text.startswith("new tonight: nothing\n")
    assert ("\nworse since 2026-07-0" in text) == is_alarm
