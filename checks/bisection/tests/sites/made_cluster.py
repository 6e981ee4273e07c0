"""A made-up cluster in which all is right, as `site check` sees it."""

import copy
import time

from bisection.core.identity import Geometry
from bisection.schedulers.survey import Group, Node, QueueInfo, SchedulerError, SchedulerSurvey
from bisection.sites.cluster.jobs import StepEnd
from bisection.sites.cluster.trial import Launcher, LauncherResult, Trial
from bisection.sites.site_files import Site

GIB = 2**30


def node(host):
    """The facts of a node as node_facts.py writes them."""
    cores = {"num_cpus": 4, "num_cpus_per_core": 1, "num_sockets": 1}
    topology = {"cores": ["0x1", "0x2", "0x4", "0x8"]}
    return {
        "host": host,
        "node": "",
        "processor": {"model": "EPYC", **cores, "topology": topology},
        "memory": 16 * GIB,
        "granted": 16 * GIB,
        "networks": [
            {"name": "mlx5_0", "kind": "infiniband", "rate": 200.0, "state": "active"},
            {"name": "eth0", "kind": "ethernet", "rate": 1.0, "state": "up"},
        ],
        "governor": "performance",
        "smt": "off",
        "microcode": "0x1",
        "kernel": "6.1",
        "sees": {},
    }


def outcome(shape, **more):
    ranks = [(f"n{rank // shape.ranks_per_node + 1}", str(rank)) for rank in range(shape.ranks)]
    launcher = Launcher("srun", ["--cpu-bind=cores"])
    return LauncherResult(launcher, shape, ranks, "Open MPI", **more)


def trial():
    """A job in which all was right."""
    links = [("n1", "n2", 2e-6, 2e10, 0.0)]
    sent = {"latency": 2e-6, "bandwidth": 2e10, "links": links, "carried": {"mlx5_0": 1.0}}
    outcomes = [outcome(Geometry(2, 4, 1), **sent)]
    outcomes += [outcome(Geometry(2, 1, 4)), outcome(Geometry(2, 2, 2))]
    steps = {name: StepEnd(0, 4.0, "") for name in ("configure", "compile", "kernel")}
    steps |= {"build": StepEnd(0, 0.3, "/usr/bin/mpicc"), "leave": StepEnd(3, 0.5, "")}
    seen = {"nodes": [node("n1"), node("n2")], "hosts": ["n1", "n2"]}
    return Trial("7", steps, **seen, outcomes=outcomes)


KNOWN = {
    "queue": "standard",
    **{name: value for name, value in node("n1").items() if name not in ("host", "node", "sees")},
    "carried": {"mlx5_0": 1.0},
    "latency": 2e-6,
    "bandwidth": 2e10,
}
PARTITION = {
    "name": "standard",
    "fullname": "lab:standard",
    "scheduler": "slurm",
    "launcher": "srun",
    "access": ["--partition=standard", "--account=physics"],
    "modules": ["openmpi"],
    "variables": {},
    "cores": 4,
    "topology": {},
    "detected": False,
    "extras": {"nodes": 2, "binding": ["--cpu-bind=cores"]},
    "environs": ["system"],
}


class Machine:
    """A cluster in which all is right, until a test spoils it."""

    def __init__(self, path):
        environ = {"features": ["kernels"], "extras": {}, "modules": [], "variables": {}}
        self.partition = copy.deepcopy(PARTITION)
        self.site = Site("lab", path, [self.partition], {"system": environ})
        nodes = [Node(f"n{number}", 4, 1, 1) for number in (1, 2, 3)]
        self.queue = QueueInfo("standard", [Group(nodes)], max_time=3600)
        known = {"version": "24.05", "cluster": "lab", "accounts": ["physics"]}
        known |= {"account_needed": True, "queues": [self.queue]}
        self.survey = SchedulerSurvey("Slurm", "slurm", **known)
        self.trial, self.known = trial(), copy.deepcopy(KNOWN)
        self.refusal, self.silent = "", False
        self.running, self.most, self.seconds = [], 0, 0.0  # jobs at once, and how long each takes

    def try_queue(self, request, *where, **how):
        self.asked = request
        self.running.append(1)
        time.sleep(self.seconds)
        self.most = max(self.most, len(self.running))
        self.running.pop()
        return self.trial

    def refused(self, request, seconds):
        request.file("sh").touch()
        return self.refusal if request.scheduler.name == "slurm" else None

    def read(self, account, reservation):
        if self.silent:
            raise SchedulerError("Slurm", "scontrol: refused")
        return self.survey
