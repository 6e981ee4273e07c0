"""Real faults of this host, after quiet nights: what a run reports."""

import argparse
import os
import subprocess
import sys

import pytest
from running import CHECKS

from bisection.core import paths
from bisection.core.verdicts import Exit
from workshop.commands import ladder as command
from workshop.testbed.faults import UnknownFault, named
from workshop.testbed.ladder import LADDER, Night, Outcome, judge

TCP = LADDER[0]


@pytest.mark.parametrize(
    ("exit_code", "text", "wrong", "withheld"),
    [
        (4, "MPI environment: OMPI_MCA_btl=tcp,self; slower: alltoallv", [], False),
        (0, "MPI environment: OMPI_MCA_btl=tcp,self; slower: alltoallv", ["exit 0, not 4"], False),
        (4, "slower: alltoallv", ["not said: MPI environment: .*btl=tcp,self"], False),
        (3, "NOT MEASURED: the times of 3 were disturbed", [], True),
        (3, "NOT MEASURED: 4 of 4 checks passed, 96 outliers not confirmed", [], True),
        (
            3,
            "NOT MEASURED: 3 of 4 checks passed",
            ["exit 3, not 4", "not said: MPI environment: .*btl=tcp,self"],
            False,
        ),
        (1, "Traceback (most recent call last)", ["a traceback", "exit 1, not 4"], False),
    ],
)
def test_what_a_run_does_not_report_is_wrong(exit_code, text, wrong, withheld):
    outcome = Outcome(TCP, "one")
    judge(outcome, Night(exit_code, text))
    assert outcome.wrong[:2] == wrong
    assert bool(outcome.withheld) == withheld


@pytest.mark.parametrize(
    ("wrong", "withheld", "code", "word"),
    [
        ([], "", 0, "PASS"),
        (["exit 0, not 4"], "", 1, "FAIL"),
        ([], "loud", 3, "NOT MEASURED"),
        (["a traceback"], "loud", 1, "FAIL"),
    ],
)
def test_the_last_line_begins_as_the_exit_code_says(
    monkeypatch, capsys, wrong, withheld, code, word
):
    outcome = Outcome(TCP, "one", withheld=withheld, wrong=wrong)
    monkeypatch.setattr(command, "Host", lambda folder: None)
    monkeypatch.setattr(command, "tried", lambda *_: outcome)
    given = {"names": ["tcp"], "list": False, "quick": True, "states": None, "keep": None}
    assert command.act(argparse.Namespace(**given)) == code
    assert capsys.readouterr().out.splitlines()[-1].startswith(f"{word}: 1 fault: ")


def test_an_unknown_fault_is_refused():
    with pytest.raises(UnknownFault, match="sunspot: no fault; there are tcp, eager-limit"):
        named(LADDER, ["sunspot"])
    assert all(fault.text for fault in LADDER)


@pytest.mark.testbed
def test_faults_of_this_host_are_reported_as_wanted(full):
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("needs two cores")
    if not (paths.home() / "build/built-with.json").exists():
        pytest.skip("no kernels: `make kernels` builds them")
    line = [sys.executable, "-m", "workshop", "ladder", *([] if full else ["--quick"])]
    done = subprocess.run(line, cwd=CHECKS, capture_output=True, text=True)
    print(done.stdout, done.stderr)
    if done.returncode == Exit.NOT_MEASURED:
        pytest.skip(done.stdout.splitlines()[-1])
    assert done.returncode == Exit.OK
