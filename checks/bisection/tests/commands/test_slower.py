"""`bisection run` beside earlier sessions: slower than before, retested, confirmed or not."""

import functools
import json
import re
import shutil

import numpy as np
import pytest
from made_up import DAY
from running import ONE, SHM, run_in

from bisection.core import paths
from bisection.core.format import utc
from bisection.core.verdicts import Verdict
from bisection.store import sample_file, sync
from bisection.store.marks import Mark
from bisection.store.selection import SLOWER

EARLIER = 6
BOTH = (*ONE, "-n", SHM)  # methods of one launch


@pytest.fixture(scope="module")
def six_nights(fake, tmp_path_factory):
    """A home with six equal nights, of which the first was run."""
    home = tmp_path_factory.mktemp("six")
    first = run_in(home, fake, selected=BOTH)
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
    """night(faults=...): a Run after six equal nights."""
    shutil.copytree(six_nights, tmp_path, symlinks=True, dirs_exist_ok=True)
    return functools.partial(run_in, tmp_path, fake, selected=BOTH)


def stored(home):
    """The tag `slower` of every session of the store."""
    with sync.opened(home) as store:
        return [session.tags.get(SLOWER) for session in store.sessions()]


def test_a_slower_night_is_retested_and_has_its_own_exit_code(night, tmp_path):
    run = night(faults={"p2p": "slow-time"})
    assert run.code == 4, run.text
    assert "SLOWER THAN BEFORE: 2 of 2 checks passed" in run.said
    assert "slower than in all of 6 earlier sessions, confirmed by a retest:" in run.said
    assert "transpose cnt40 mpi p2p time 1 ms -> 8 ms 8.00 x" in run.said
    assert "Times are judged by 6 earlier nights: no references yet (7 of 10 nights)" in run.said
    assert (run.verdict["exit_code"], len(run.verdict["slower"])) == (4, 1)
    assert "Slower than before: 1 metric" in (run.folder / "report.html").read_text()
    assert len(list((run.folder / "retest" / "kernels").glob("transpose-*.json"))) == 2  # turns
    assert not (run.folder / "retest" / "stage").exists()
    # The retest is no night of its own, and a slow night is none that others are set beside.
    assert stored(tmp_path) == [None] * EARLIER + ["confirmed"]
    session, _ = next(sample_file.read_samples(run.folder / sample_file.SPOOLED))
    assert session["tags"][SLOWER] == "confirmed"
    assert len(list(sync.recorded(tmp_path))) == 2


def test_what_does_not_repeat_passes_with_a_note_and_is_stored_so(night, tmp_path):
    run = night(faults={"p2p": "slow-at-first", "shm": "slow-ratio-at-first"})
    assert run.code == 0, run.text
    note = "note: retested transpose cnt40 mpi: 1 metric, up to 8.00 times slower than in all"
    assert note in run.said
    remark = "ratio_alltoallv is 2.50, allowed is 0.55..1.61, in the retest 1.00; it did not repeat"
    assert (run.case("shm")["cause"], run.case("shm")["remark"]) == ("", remark)
    assert remark in run.said
    kept = json.loads((run.folder / "retest" / "report.json").read_text())
    judged = [test for turn in kept["runs"] for test in turn["testcases"] if not test["fixture"]]
    methods = [test["method"] for test in judged]
    assert (methods.count("p2p"), methods.count("shm")) == (2, 2)
    for rebuilt in (False, True):  # from the sample file
        if rebuilt:
            paths.store_db(tmp_path).unlink()
        with sync.opened(tmp_path) as store:
            last = store.sessions()[-1]
            assert store.tallies()[last.id].counts == {Verdict.PASS: 2}
            assert SLOWER not in last.tags


def test_a_suspect_that_is_not_measured_again_is_no_pass(night, tmp_path):
    run = night(faults={"p2p": "slow-then-preempted"})
    assert run.code == 3, run.text
    assert "1 outlier not confirmed" in run.said
    assert "outliers, slower than in all of 6 earlier sessions; the retest did not" in run.said
    assert stored(tmp_path)[-1] == "outlier"


def test_a_night_as_slow_as_the_last_ten_is_an_alarm_until_it_is_accepted(
    six_nights, night, tmp_path, monkeypatch, command_line
):
    """It is not slower than all of the last twenty: only the history shows it."""
    monkeypatch.setenv("BISECTION_HOME", str(tmp_path))
    (file,) = six_nights.glob(f"results/2*/{sample_file.SPOOLED}")
    session, cases = next(sample_file.read_samples(file))
    (timed,) = [case["metrics"] for case in cases if case["method"] == "p2p"]
    level, noise = timed["time"][0], np.random.default_rng(1)
    paths.store_db(tmp_path).unlink()
    with sync.opened(tmp_path) as store:
        for n in range(1, 40):
            timed["time"][0] = level * (1 if n < 10 else 0.7) * np.exp(noise.normal(0, 0.01))
            start = session["start"] - DAY * n
            store.add([({**session, "session": f"{n:08x}-earlier", "start": start}, cases)])
    run = night()
    assert run.code == 4, run.text
    day = utc(session["start"] - 9 * DAY)[:10]
    assert f"worse since {day}, session 00000009: transpose cnt40 mpi p2p time, 4" in run.said
    assert "retest" not in run.said
    assert f"1 metric worse since {day}" in (run.folder / "report.html").read_text()
    code, text, _ = command_line("verdict", str(run.folder))
    assert (code, text.splitlines()[0] in run.text) == (4, True)
    (accept,) = re.findall("to accept the new level: bisection (.*) REASON", run.said)
    assert command_line(*accept.split(), "newer libraries")[0] == 0
    assert night().code == 0


def test_a_new_network_beside_the_sessions_of_the_old_one(night, tmp_path):
    """They are of another tier, so that they are no earlier sessions of its kind."""
    with sync.opened(tmp_path) as store, store.marking() as marks:
        marks |= {session.uuid: Mark(tags={"network": "old"}) for session in store.sessions()}
    how = {"tier": "interconnect", "faults": {"p2p": "slow-time"}}
    run = night("--against", "network=old", **how)
    assert "Network: no-go" in run.said, run.text
    assert "no-go: transpose cnt40 mpi p2p time" in run.said
