"""The schedulers that are read and submitted to, by ReFrame's names of them."""

from collections.abc import Callable

from bisection.sites.cluster import flux, jobs, pbs, slurm
from bisection.sites.cluster.survey import Survey

SCHEDULERS = {**jobs.SCHEDULERS, "pbs": pbs.Pbs, "flux": flux.Flux}

# Each takes the account that jobs will use, "" for the user's own.
READERS: dict[str, Callable[[str], Survey]] = {
    "slurm": slurm.read,
    "squeue": slurm.read,
    "pbs": lambda account: pbs.read(),
    "flux": lambda account: flux.read(),
}

# The options by which a job names its queue and its account.
QUEUE = {
    "slurm": ("-p", "--partition"),
    "squeue": ("-p", "--partition"),
    "pbs": ("-q",),
    "flux": ("-q", "--queue"),
}
ACCOUNT = {
    "slurm": ("-A", "--account"),
    "squeue": ("-A", "--account"),
    "pbs": ("-A",),
    "flux": ("-B", "--bank"),
}
