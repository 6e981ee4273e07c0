"""Faults made on a virtual cluster, and the table that shows them."""

import dataclasses
import signal
import subprocess
import sys

import pytest
from running import CHECKS

from bisection.core import paths
from bisection.core.reasons.launches import Blocked, Timeout
from bisection.core.reasons.performance import SlowNode
from bisection.core.verdicts import Exit
from workshop.testbed import Cluster, unavailable
from workshop.testbed.faults import FAULTS, Fault, Outcome, UnknownFault, faults_of, judge
from workshop.testbed.hosts import cpuset_root, until
from workshop.testbed.scene import Ran
from workshop.testbed.text import as_line, ending, listing


def fan(scene):
    """A fan stands still."""
    return scene


FAN = Fault(fan, Blocked.code, ("node2",), Exit.NOT_MEASURED, within=10)
REASON = Blocked(reason="down: node2")
RAN = Ran(3, 5.0, "", [REASON.dumps()], ["BLOCKED: node2 is down"], verdict="NOT MEASURED")
NODE2 = "node2 bisection: slow\n"  # a line of nodecheck.txt
QUIET = {"reasons": [], "causes": []}
SLOW = {"code": SlowNode.code, "exit_code": Exit.OK}
SHOWN = {"reasons": [SlowNode.code], "exit_code": 0}
NOTHING = {"code": None, "names": (), "exit_code": Exit.OK}


@pytest.mark.parametrize(
    ("wanted", "changed", "texts"),
    [
        ({}, {}, []),
        ({}, {"exit_code": 0}, ["exit 0, not 3"]),
        ({}, {"after": 11.0}, ["11 s after it, not 10 s at most"]),
        ({}, {"verdict": ""}, ["no verdict"]),
        ({}, {"output": "Traceback (most recent call last):"}, ["a traceback"]),
        ({}, QUIET, ["nothing, not BLOCKED"]),
        ({}, {"reasons": [Timeout().dumps()]}, ["BLOCKED: node2 is down, not BLOCKED"]),
        ({}, {"causes": ["BLOCKED: node21 is down"]}, ["node2 is not named"]),
        # nodes that a passing run names are those in nodecheck.txt
        (SLOW, {**SHOWN, "named": NODE2}, []),
        (SLOW, SHOWN, ["node2 is not in nodecheck.txt"]),
        (
            SLOW,
            {**SHOWN, "named": f"{NODE2}node1 bisection: slow\n"},
            ["node1 is in nodecheck.txt"],
        ),
        (NOTHING, {**QUIET, "exit_code": 0, "named": NODE2}, ["node2 is in nodecheck.txt"]),
        (NOTHING, {**QUIET, "exit_code": 0}, []),
    ],
)
def test_what_differs_from_what_is_wanted_is_wrong(wanted, changed, texts):
    outcome = Outcome(dataclasses.replace(FAN, **wanted), "squeue", 1.0)
    judge(outcome, dataclasses.replace(RAN, **changed))
    assert outcome.wrong == texts


def test_faults_are_chosen_by_name_and_each_has_its_own_and_a_description():
    assert [fault.name for fault in faults_of(["node-lost"], quick=False)] == ["node-lost"]
    assert 0 < len(faults_of([], quick=True)) < len(faults_of([], quick=False)) == len(FAULTS)
    with pytest.raises(UnknownFault, match="sunspot: no fault; there are node-lost, "):
        faults_of(["sunspot"], quick=False)
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)
    assert all(fault.text for fault in FAULTS)


def test_the_table_shows_the_words_of_the_run_and_what_is_wrong():
    outcome = Outcome(FAN, "squeue", 12.3, RAN, "BLOCKED: node2 is down", ["exit 0, not 3"])
    first, second = as_line(outcome, [FAN])
    assert first == "WRONG  fan  squeue       12 s  BLOCKED: node2 is down"
    assert second.strip() == "wanted BLOCKED node2: exit 0, not 3"
    assert ending([outcome], "12 s") == "FAIL: 1 of 1 fault not as wanted, in 12 s"
    assert listing([FAN]) == ["fan  BLOCKED node2  A fan stands still"]


def faults(*arguments):
    """The command line of `workshop faults`; skips where it cannot run."""
    if why := unavailable(accounting="squeue" not in arguments):
        pytest.skip(why)
    for build in ("build", "build-portable"):
        if not list((paths.home() / build).glob("*/bisection-*")):
            pytest.skip(f"no kernels in {build}/: `make test-kernels test-portable` builds them")
    return [sys.executable, "-m", "workshop", "faults", *arguments]


@pytest.mark.testbed
def test_faults_are_reported_as_wanted(full):
    line = faults(*([] if full else ["--quick", "--backend", "squeue"]))
    done = subprocess.run(line, cwd=CHECKS, capture_output=True, text=True, timeout=3600)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.testbed
def test_sigterm_ends_the_run_and_the_cluster(tmp_path_factory):
    kept = tmp_path_factory.mktemp("bed")  # a short name: sockets are in it
    folder = kept / "squeue"
    line = faults("--backend", "squeue", "--keep", str(kept), "segv-srun")
    process = subprocess.Popen(line, cwd=CHECKS, stdout=subprocess.PIPE, text=True)
    assert any((folder / "output.txt").exists() for _ in until(60))  # the run has begun
    cluster = Cluster(folder)
    running = [each for host in cluster.hosts for each in cluster.processes(host)]
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert len(running) > len(cluster.hosts)
    assert not [each.command() for each in running if each.alive]
    assert not list(cpuset_root().glob(f"{cluster.prefix}*"))
