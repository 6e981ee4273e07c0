"""`bisection run` beside earlier sessions: slower than before, retested, confirmed or not."""

import json
import re
import shutil
import sys
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from made_up import DAY
from running import run_in, start

from bisection.core import paths
from bisection.core.format import duration, utc
from bisection.core.verdicts import Verdict
from bisection.store import sample_file, sync
from bisection.store.marks import Mark
from bisection.store.selection import SLOWER

EARLIER = 6
SHM = "^transpose%method=shm%launch.layout=mpi%launch.case=cnt40"


@pytest.fixture(scope="module")
def six_nights(fake, tmp_path_factory):
    """A home with six equal nights."""
    home = tmp_path_factory.mktemp("six")
    first = run_in(home, fake)
    assert "Run times not checked yet: reference values need 10 nights, 1 recorded" in first.said
    session, cases = next(sample_file.read_samples(first.folder / sample_file.SPOOLED))
    with sync.opened(home) as store:
        store.add(
            ({**session, "session": f"{n:08x}-earlier", "start": session["start"] - 60 * n}, cases)
            for n in range(1, EARLIER)
        )
    return home


@pytest.fixture
def night(fake, six_nights, tmp_path):
    """night(*arguments, faults=...): a Run after six equal nights."""
    shutil.copytree(six_nights, tmp_path, symlinks=True, dirs_exist_ok=True)

    def run(*arguments, **how):
        return run_in(tmp_path, fake, *arguments, **how)

    return run


def stored(home):
    """The tag `slower` of every session of the store."""
    with sync.opened(home) as store:
        return [session.tags.get(SLOWER) for session in store.sessions()]


def start_command(arguments, home):
    """(exit code, output) of `bisection` with these arguments."""
    return start([sys.executable, "-m", "bisection", *arguments], home)


def test_a_slower_night_is_retested_and_has_its_own_exit_code(night, tmp_path):
    run = night(faults={"p2p": "slow-time"})
    assert run.code == 4, run.text
    took = duration(run.verdict["seconds"])
    assert f"SLOWER THAN BEFORE: 1 of 1 checks passed, in {took}\n    1 metric " in run.text
    assert "slower than in all of 6 earlier sessions, confirmed by a retest:" in run.said
    assert "transpose cnt40 mpi p2p time 1 ms -> 8 ms 8.00 x" in run.said
    assert "Times are judged by 6 earlier nights: no references yet (7 of 10 nights)" in run.said
    assert (run.verdict["exit_code"], len(run.verdict["slower"])) == (4, 1)
    suite = ET.parse(run.folder / "junit.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    gauges = (run.folder / "bisection.prom").read_text()
    assert re.search(r"^bisection_exit_code\{.*\} 4.0$", gauges, re.M)
    for name in ("report.html", "report.md"):
        assert "Slower than before: 1 metric" in (run.folder / name).read_text()
    again = run.folder / "retest"
    assert len(list((again / "kernels").glob("transpose-*.json"))) == 2  # in two turns
    assert not (again / "stage").exists()
    # The retest is no night of its own, and a slow night is none that others are set beside.
    assert stored(tmp_path) == [None] * EARLIER + ["confirmed"]
    session, _ = next(sample_file.read_samples(run.folder / sample_file.SPOOLED))
    assert session["tags"][SLOWER] == "confirmed"
    assert len(list(sync.recorded(tmp_path))) == 2


def test_what_does_not_repeat_passes_with_a_note(night, tmp_path):
    run = night(faults={"p2p": "slow-at-first"})
    assert run.code == 0, run.text
    assert "PASS: 1 of 1 checks passed, in" in run.said
    note = "note: retested transpose cnt40 mpi: 1 metric, up to 8.00 times slower than in all"
    assert note in run.said
    assert stored(tmp_path) == [None] * (EARLIER + 1)


def test_what_is_outside_its_bounds_once_passes_and_is_stored_so(bisection, tmp_path):
    """On the first night, too: references need no earlier one."""
    run = bisection("-n", SHM, faults={"p2p": "slow-ratio-at-first"})
    assert run.code == 0, run.text
    assert "retest: 1 launch, outside its limits, in about" in run.said
    remark = "ratio_alltoallv is 2.50, allowed is 0.61..1.79, in the retest 1.00; it did not repeat"
    assert remark in run.said
    assert (run.case("p2p")["cause"], run.case("p2p")["remark"]) == ("", remark)
    kept = json.loads((run.folder / "retest" / "report.json").read_text())
    judged = [test for again in kept["runs"] for test in again["testcases"] if not test["fixture"]]
    assert [test["method"] for test in judged] == ["p2p", "p2p"]
    for again in (False, True):  # made again from the sample file
        if again:
            paths.store_db(tmp_path).unlink()
        with sync.opened(tmp_path) as store:
            (tally,) = store.tallies().values()
            assert dict(tally.counts) == {Verdict.PASS: 2}


def test_what_is_outside_its_bounds_again_fails(bisection):
    run = bisection("-n", SHM, faults={"p2p": "slow"})
    assert run.code == 1, run.text
    cause = "ratio_alltoallv is 2.50, allowed is 0.61..1.79, in the retest 2.50"
    assert run.case("p2p")["cause"] == cause


def test_a_suspect_that_is_not_measured_again_is_no_pass(night, tmp_path):
    run = night(faults={"p2p": "slow-then-preempted"})
    assert run.code == 3, run.text
    assert "NOT MEASURED: 1 of 1 checks passed, in" in run.said
    assert "\n    1 outlier not confirmed\n" in run.text
    assert "outliers, slower than in all of 6 earlier sessions; the retest did not" in run.said
    assert stored(tmp_path)[-1] == "outlier"


def test_a_night_as_slow_as_the_last_ten_is_an_alarm_until_it_is_accepted(fake, tmp_path):
    """It is not slower than all of the last twenty: only the history shows it."""
    first = run_in(tmp_path, fake)
    session, cases = next(sample_file.read_samples(first.folder / sample_file.SPOOLED))
    (timed,) = [case["metrics"] for case in cases if case["method"] == "p2p"]
    level, noise = timed["time"][0], np.random.default_rng(1)
    with sync.opened(tmp_path) as store:
        for n in range(1, 40):
            timed["time"][0] = level * (1 if n < 10 else 0.7) * np.exp(noise.normal(0, 0.01))
            start = session["start"] - DAY * n
            store.add([({**session, "session": f"{n:08x}-earlier", "start": start}, cases)])
    run = run_in(tmp_path, fake)
    assert run.code == 4, run.text
    day = utc(session["start"] - 9 * DAY)[:10]
    assert "SLOWER THAN BEFORE: 1 of 1 checks passed, in" in run.said
    assert f"\n    1 metric worse since {day}\n" in run.text
    assert f"worse since {day}, session 00000009: transpose cnt40 mpi p2p time, 4" in run.said
    assert "retest" not in run.said
    assert run.verdict["exit_code"] == 4
    suite = ET.parse(run.folder / "junit.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    gauges = (run.folder / "bisection.prom").read_text()
    assert re.search(r"^bisection_exit_code\{.*\} 4.0$", gauges, re.M)
    for name in ("report.html", "report.md"):
        assert f"1 metric worse since {day}" in (run.folder / name).read_text()
    code, text = start_command(["verdict", str(run.folder)], tmp_path)
    assert (code, text.splitlines()[0] in run.text) == (4, True)
    (accept,) = re.findall("to accept the new level: bisection (.*) REASON", run.said)
    assert start_command([*accept.split(), "newer libraries"], tmp_path)[0] == 0
    assert run_in(tmp_path, fake).code == 0


def test_a_new_network_beside_the_sessions_of_the_old_one(fake, six_nights, tmp_path):
    """They are of another tier, so that they are no earlier sessions of its kind."""
    shutil.copytree(six_nights, tmp_path, symlinks=True, dirs_exist_ok=True)
    with sync.opened(tmp_path) as store, store.marking() as marks:
        marks |= {session.uuid: Mark(tags={"network": "old"}) for session in store.sessions()}
    new = {"tier": "interconnect", "selected": ("-n", SHM.replace("=shm", "=p2p"))}
    run = run_in(tmp_path, fake, "--against", "network=old", faults={"p2p": "slow-time"}, **new)
    assert "Network: no-go" in run.said, run.text
    assert "no-go: transpose cnt40 mpi p2p time" in run.said
    run = run_in(tmp_path, fake, "--against", "network=older", **new)
    assert run.code == 2
    assert "'network=older' names no session" in run.said
