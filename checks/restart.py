"""Restart files: every way to write what the ranks hold, read back by other ranks."""

import shlex

import reframe as rfm

from bisection.kernels import tables
from bisection.rfm.check import KernelCheck
from bisection.rfm.launch import Launch

CASES = tables.cases("restart")
SMALL = ["waves-mini", "atoms-27k", "fields-mini"]


class RestartLaunch(Launch):
    """The ways to write a restart file, all in turn."""

    kernel = "restart"
    case = parameter(CASES)
    sampling = dict.fromkeys(SMALL, "--repeats 5 --block 2 --warmup 1")
    simulates = False  # there are no disks
    usual_sampling = "--repeats 3 --block 1 --warmup 0"

    @run_after("setup")
    def choose_folder(self) -> None:
        """On the partition's scratch file system, where its site file names one."""
        if folder := self.current_partition.extras.get("scratch"):
            self.options = [*self.options, f"--directory {shlex.quote(folder)}"]


@rfm.simple_test
class restart(KernelCheck):
    """Does the file system return what was written, and how fast does it write and read?"""

    launch = fixture(RestartLaunch, scope="environment")
    method = parameter(tables.methods("restart"))
    metrics = ["time", "bandwidth_write", "bandwidth_read", "time_write_p99", "cached_share"]
    asserted = ["bandwidth_write", "bandwidth_read"]
    tiers = {"quick": {"case": SMALL[:1]}, "nightly": {"case": SMALL}}
