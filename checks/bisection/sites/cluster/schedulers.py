"""The schedulers to which a trial job can be submitted, by ReFrame's name."""

from bisection.sites.cluster import jobs
from bisection.sites.cluster.flux import Flux
from bisection.sites.cluster.pbs import Pbs

SCHEDULERS = {**jobs.SCHEDULERS, "pbs": Pbs, "flux": Flux}
