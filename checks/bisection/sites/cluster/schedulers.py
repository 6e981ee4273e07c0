"""The schedulers that are read and submitted to, by ReFrame's names of them."""

from bisection.sites.cluster.jobs import Scheduler
from bisection.sites.cluster.pbs import Pbs
from bisection.sites.cluster.slurm import Slurm

SCHEDULERS: dict[str, type[Scheduler]] = {
    "slurm": Slurm,
    "squeue": Slurm,
    "pbs": Pbs,
    "local": Scheduler,
}
