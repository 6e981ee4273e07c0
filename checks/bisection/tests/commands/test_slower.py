"""`bisection run` beside earlier sessions: slower than before, retested, confirmed or not."""

import json
import re
import shlex

import numpy as np
import pytest
from made_up import case as stored_case
from made_up import nights, session, sessions, store
from results_made import launched
from running import ONE, install_cmake, run_command

from bisection.analysis.histories import histories
from bisection.core import paths
from bisection.core.thresholds import LIMITS
from bisection.core.verdicts import Exit, Grade, Verdict
from bisection.judge import decision, rule
from bisection.night import night as steps
from bisection.runs.run_verdict import Request, RunVerdict
from bisection.store import sample_file, sync
from bisection.store.selection import SLOWER

EARLIER = 6
SELECTED = (*ONE, "-n", ONE[1].replace("p2p", "shm"), "-n", ONE[1].replace("=mpi", "=node"))


@pytest.fixture(scope="session")
def night(first, fake, gallery):
    """Real for the retest, a second process, and for the kept build of the run before: a Run after
    six equal nights, made of that one's. A method is slower, another one is outside its bounds
    once, and in another launch one is slower once."""
    faults = {"mpi/cnt40": "slow-time", "node/cnt40": "slow-at-first", "shm": "slow-ratio-at-first"}
    home = first.folder.parents[1]
    line, cases = next(sample_file.read_samples(first.folder / sample_file.SPOOLED))
    tags = {"tier": "quick", "system": "localhost", "environ": "system"}
    tags["arguments"] = shlex.join(SELECTED).replace(",", ";")
    cases = [c for c in cases if (c["case"], c["run"]) == ("cnt40", 0) and c["layout"] != "node2"]
    cases += [{**c, "method": "shm"} for c in cases if (c["layout"], c["method"]) == ("mpi", "p2p")]
    lines = ({**line, "session": f"{n:08x}-earlier", "tags": tags} for n in range(1, EARLIER + 1))
    earlier = [({**line, "start": line["start"] - 60 * n}, cases) for n, line in enumerate(lines)]

    def run(_):
        with pytest.MonkeyPatch.context() as patch, sync.opened(home) as stored:
            stored.add(earlier)
            install_cmake(patch, home / "tools", fake)
            return run_command(home, "quick", "--verbose", *SELECTED, faults=faults)

    return gallery("night", run)


def test_kernels_of_an_equal_build_are_kept_and_the_run_says_so(night):
    (kept,) = [c["remark"] for c in night.verdict["cases"] if c["check"] == "Build"]
    assert re.fullmatch(r"as built 20\d\d-\d\d-\d\d \d\d:\d\d UTC", kept)
    assert f"kernels: {kept}" in night.text.splitlines()
    assert (night.folder.parents[1] / "builds").read_text() == "built\n"


def test_a_slower_night_is_retested_and_has_its_own_exit_code(night):
    assert night.code == 4, night.text
    assert "SLOWER THAN BEFORE: 3 of 3 checks passed" in night.said
    assert "slower than in all of 6 earlier sessions, confirmed by a retest:" in night.said
    assert "transpose cnt40 mpi p2p time 1 ms -> 8 ms 8.00 x" in night.said
    assert "Times are judged by earlier nights: no references yet (6 of 10 nights)" in night.said
    assert (night.verdict["exit_code"], len(night.verdict["slower"])) == (4, 1)
    assert f" -n /{night.case('p2p')['hash']} " in night.said  # to rerun it
    banner = "SLOWER THAN BEFORE: 3 of 3 checks passed; 1 metric slower than before"
    assert banner in (night.folder / "report.html").read_text()
    kept = json.loads((night.folder / "retest" / "report.json").read_text())
    judged = [test for turn in kept["runs"] for test in turn["testcases"] if not test["fixture"]]
    methods = [test["method"] for test in judged if test["layout"] == "mpi"]
    assert (methods.count("p2p"), methods.count("shm")) == (2, 2)  # turns
    assert not (night.folder / "retest" / "stage").exists()


def test_what_does_not_repeat_passes_with_a_note(night):
    note = "note: retested transpose cnt40 node: 1 metric, up to 8.00 times slower than in all"
    assert note in night.said
    remark = "ratio_alltoallv is 2.50, allowed is 0.55..1.61, in the retest 1.00; it did not repeat"
    assert (night.case("shm")["cause"], night.case("shm")["remark"]) == ("", remark)
    assert remark in night.said


def test_a_slower_night_is_stored_so_and_its_retest_is_no_night(night):
    """A slow night is none that others are set beside."""
    home = night.folder.parents[1]
    for rebuilt in (False, True):  # from the sample files
        if rebuilt:
            paths.store_db(home).unlink()
        with sync.opened(home) as stored:
            *earlier, last = stored.sessions()
            assert [each.tags.get(SLOWER) for each in earlier] == [None] * len(earlier)
            assert len(earlier) == (1 if rebuilt else 1 + EARLIER)
            assert stored.tallies()[last.id].counts == {Verdict.PASS: 3}
            assert last.tags[SLOWER] == "confirmed"
            launches = {
                1 + len(each.again[0])
                for each in histories(stored, [last], repeats=True)
                if each.test.method == "p2p" and each.test.layout == "mpi"
            }
            assert launches == {1 + LIMITS.retest_turns}


# ---- judged by made-up sessions ----


def judged(run, home, stored, against=None):
    """The night of a run, with its comparison, its history and its retest."""
    night = steps.Night(run, home, home)
    steps.compare(night, stored, against)
    steps.look_back(night, stored)
    steps.retest(night, 900.0, [], stored)
    return night


def test_a_night_as_slow_as_the_last_ten_is_an_alarm_until_it_is_accepted(home, command_line, rng):
    """It is not slower than all of the last twenty: only the history shows it."""
    times = 1e-3 * np.repeat([0.7, 1.0], [30, 10]) * np.exp(rng.normal(0, 0.01, 40))
    times[-1] = times[-2]  # no worse than the other nights since then
    stored = store(home / "store.db", nights({"p2p": times}))

    def ended():
        run = RunVerdict([*launched(case="cnt40", time=times[-1])], session="00000027-made-up")
        night = judged(run, home, stored)
        steps.reported(night, stored)
        assert not night.evidence.retest.plan.chosen
        return night.verdict

    verdict = ended()
    assert (decision.of_run(verdict), len(verdict.alarms)) == (Exit.SLOWER, 1), verdict
    assert "1 metric worse since 2026-07-01" in (home / "report.html").read_text()
    code, text, _ = command_line("verdict", str(home))
    assert code == Exit.SLOWER
    said = " ".join(text.split())
    where = "on lab:cpu, session 0000001e: transpose cnt40 mpi p2p"
    assert re.search(rf"worse since 2026-07-01, 10 nights, alarm since 2026-07-0\d, {where}", said)
    (accept,) = [line.split("bisection ")[1] for line in text.splitlines() if "--accept" in line]
    accept = accept.removesuffix(" REASON").split()
    assert command_line(*accept, "newer libraries")[0] == 0
    assert decision.of_run(ended()) == Exit.OK


def test_news_are_what_the_newest_earlier_night_does_not_have(home):
    """Of several launches of a test, one that failed makes it fail; older nights do not count."""
    words = ["FAIL"], ["FAIL", "pass"], ["pass"]  # of a launch, then of its repeat
    stored = store(
        home / "store.db",
        sessions(0, [[stored_case("p2p", verdict="FAIL")]]),
        sessions(
            1,
            [[
                stored_case(f"m{n}", run=run, verdict=word)
                for n, of_test in enumerate(words)
                for run, word in enumerate(of_test)
            ]],
        ),
        sessions(2, [[stored_case(verdict="pass")]]),
    )  # fmt: skip
    night = steps.Night(RunVerdict([], session="00000002-made-up"), home, home)
    steps.compare(night, stored, None)
    last = {identity[-1]: verdict for identity, verdict in night.evidence.last.items()}
    assert last == {"m0": "FAIL", "m1": "FAIL", "m2": "pass"}


def test_what_may_have_got_worse_is_repeated_and_the_history_has_its_repeats(home, monkeypatch):
    """It is worse by less than makes an outlier of it, and not so again."""
    rng = np.random.default_rng(1)
    times = {f"m{n}": 1e-3 * np.exp(rng.normal(0, 0.003, 20)) for n in range(30)}
    times["p2p"] = times.pop("m0")
    times["p2p"][-2:] = 1.09e-3, 1.085e-3
    stored = store(home / "store.db", nights(times))
    last = stored.sessions()[-1]
    session = {"session": last.uuid, "started": last.start, "tags": last.tags}
    tonight = {"case": "cnt40", "geometry": "2x1"}
    run = RunVerdict([*launched(time=1.085e-3, **tonight)], **session)
    monkeypatch.setattr(steps, "measure_again", lambda *_: rule(RunVerdict([*launched(**tonight)])))
    night = judged(run, home, stored)
    steps.keep_repeats(night, stored)
    remarks = "\n".join(map(str, night.verdict.remarks))
    assert "1 metric may have got worse lately; 1 repeat of 1 launch" in remarks
    histories_of = histories(stored, stored.sessions(), repeats=True)
    (history,) = (each for each in histories_of if each.test.method == "p2p")
    assert dict(history.again) == {19: [1e-3]}


def test_a_new_network_beside_the_sessions_of_the_old_one(home, monkeypatch):
    """They are of another tier, so that they are no earlier sessions of its kind."""
    old, new = ({**session(0)["tags"], **of} for of in ({"network": "old"}, {"tier": "triage"}))
    contents = [*nights({"p2p": [1e-3] * 6}, tags=old), *nights({"p2p": [8e-3]}, 6, tags=new)]
    stored = store(home / "store.db", contents)
    slow = [*launched(case="cnt40", time=8e-3)]
    monkeypatch.setattr(steps, "measure_again", lambda *_: rule(RunVerdict(slow * 2)))
    for against, grade in ((None, Grade.GO), (steps.named("network=old"), Grade.NO_GO)):
        run = RunVerdict(slow, request=Request("triage"), session="00000006-made-up")
        night = judged(run, home, stored, against)
        assert night.verdict.interconnect.grade == grade
