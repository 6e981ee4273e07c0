"""The commands by which jobs are submitted and cancelled."""

import pytest

from bisection import schedulers
from bisection.core.reasons.launches import jobs_left


@pytest.mark.parametrize(
    ("name", "submits", "cancels"),
    [
        ("slurm", "sbatch", "scancel"),
        ("squeue", "sbatch", "scancel"),
        ("pbs", "qsub", "qdel"),
        ("torque", "qsub", "qdel"),
        ("sge", "qsub", "qdel"),
        ("lsf", "bsub", "bkill"),
        ("oar", "oarsub", "oardel"),
        ("flux", "", "flux cancel"),
    ],
)
def test_a_job_is_submitted_and_cancelled_by(name, submits, cancels):
    scheduler = schedulers.of(name)
    assert (scheduler.submits, scheduler.cancels) == (submits, cancels)
    assert jobs_left(["7", "8"], scheduler.cancels).endswith(f"; cancel with {cancels} 7 8")
    assert schedulers.with_command(cancels.split()[0]).cancels == cancels


@pytest.mark.parametrize("program", ["", "make", "mpirun"])
def test_other_programs_are_no_scheduler(program):
    assert schedulers.with_command(program) is None
