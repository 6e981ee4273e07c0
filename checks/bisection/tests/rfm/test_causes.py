"""What is taken for the cause where several things went wrong."""

import types

import pytest
from test_rank_faults import OPEN_MPI_5, OTHERS, SRUN

from bisection.core import slurm as core_slurm
from bisection.core.reasons import clause
from bisection.rfm import causes

WRONG = f"srun: error: node2: task 1: Exited with exit code 1\n{OTHERS}"


@pytest.mark.parametrize(
    ("exit_code", "state", "words", "says", "accepted"),
    [
        (0, "COMPLETED", "", "", 0),
        (143, "COMPLETED", SRUN, "md was killed by SIGSEGV, rank 1 on node2", 139),
        # srun ended ranks that were about to end by themselves
        (143, "COMPLETED", WRONG, "", 1),
        (
            143,
            "COMPLETED",
            f"bisection-md: no room\n{WRONG.replace('code 1', 'code 3')}",
            "md exited with 3 (it cannot run here): bisection-md: no room",
            3,
        ),
        (None, "TIMEOUT", SRUN, "md was killed by SIGSEGV, rank 1 on node2", None),
        (None, "TIMEOUT", OTHERS, "TIMEOUT: job 7 ran to its time limit of 15 min", None),
        (None, "NODE_FAIL", SRUN, "NODE_FAIL: job 7 lost a node", None),
        (None, "COMPLETED", "", "the job did not run to its end", None),
        (
            143,
            "COMPLETED",
            SRUN + OPEN_MPI_5,
            "MPI_ABORT: rank 3 aborted with code 5",
            139,
        ),
    ],
)
def test_cause_of_a_launch(monkeypatch, tmp_path, exit_code, state, words, says, accepted):
    monkeypatch.setattr(core_slurm, "job_record", lambda jobid: ({}, "scontrol: gone"))
    job = types.SimpleNamespace(jobid="7", state=state, is_cancelling=False, time_limit=900)
    ended = causes.Ended("md", str(tmp_path), "squeue", "srun", exit_code, words, "")
    code, reason = causes.of_launch(job, ended)
    assert (code, clause(reason)) == (accepted, says)
