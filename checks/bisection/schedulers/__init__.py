"""Batch systems: each is a class, in a file of its own."""

from bisection.schedulers.flux import Flux
from bisection.schedulers.pbs import Pbs
from bisection.schedulers.scheduler import Local, Scheduler
from bisection.schedulers.slurm import Slurm

# In the order in which they are looked for. ReFrame's `slurm` asks sacct; its `squeue` sees jobs
# leave the queue.
SCHEDULERS = (
    Slurm("slurm", needs_accounting=True),
    Slurm("squeue", needs_accounting=False),
    Pbs("pbs"),
    Flux("flux"),
    Scheduler("lsf", "LSF", ["bsub"], "bsub", "bkill", ["bjobs"]),
    Scheduler("oar", "OAR", ["oarsub"], "oarsub", "oardel", ["oarstat"]),
    Scheduler("sge", "Grid Engine", ["qconf"], "qsub", "qdel", ["qstat"]),
    Scheduler("torque", "TORQUE", (), "qsub", "qdel", ["qselect", "qstat"]),
    Local("local"),
)


def of(name: str) -> Scheduler:
    """A scheduler by ReFrame's name of it."""
    return next((each for each in SCHEDULERS if each.name == name), Scheduler(name))


def with_command(program: str) -> Scheduler | None:
    """The first scheduler that has this command; None if none does."""
    return next((each for each in SCHEDULERS if each.has_command(program)), None)


def here() -> Scheduler:
    """The scheduler of this host; `local` where there is none."""
    return next(each for each in SCHEDULERS if each.is_here())
