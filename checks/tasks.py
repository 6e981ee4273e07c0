"""Dynamic load balance: every way to share out the tasks of a Fock build."""

import reframe as rfm
from reframe.core.builtins import fixture, parameter, run_before

from bisection.kernels import tables
from bisection.rfm.check import KernelCheck
from bisection.rfm.launch import Launch

SMALL = "gamess-uk-mini"


class TasksLaunch(Launch):
    """The ways to share out tasks, all in turn, beside the same work in equal parts."""

    kernel = "tasks"
    case = parameter(tables.cases("tasks"))
    cores_needed = {"gamess-uk": 32}


@rfm.simple_test
class tasks(KernelCheck):
    """Are tasks of unequal cost shared out evenly, and what does a task's number cost?"""

    launch = fixture(TasksLaunch, scope="environment")
    method = parameter(tables.methods("tasks"))
    metrics = ["time", "imbalance", "efficiency"]
    asserted = ["time", "ratio_ideal", "latency", "ratio_bare"]
    tiers = {
        "quick": {"case": [SMALL]},
        "nightly": {"case": [SMALL]},
        "interconnect": {"layout": ["mpi"]},
    }

    @run_before("sanity")
    def leave_out_spare(self) -> None:
        """One rank alone cannot be spared from the tasks."""
        if self.launch.num_tasks == 1 and self.method in ("counter-progress", "manager"):
            self.inapplicable = {self.method: [self.layout]}

    def _judged(self) -> list[str]:
        """Tasks that are dealt beforehand need no numbers."""
        dealt = ["latency", "ratio_bare"] if self.method == "static" else []
        return [name for name in super()._judged() if name not in dealt]
