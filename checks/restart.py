"""Restart files and small files: what is written and created, other ranks read and list."""

import shlex
from typing import Any

import reframe as rfm
from reframe.core.builtins import fixture, parameter, run_after
from reframe.core.runtime import runtime

from bisection.core.reasons.base import Text
from bisection.kernels import tables
from bisection.rfm.check import KernelCheck
from bisection.rfm.launch import Launch


def scratch(partition: Any) -> list[str]:
    """The folders that a partition's files are written to; "": the launch's own."""
    folders = partition.extras.get("scratch") or [""]
    return [folders] if isinstance(folders, str) else folders


FOLDERS = list(dict.fromkeys(f for p in runtime().system.partitions for f in scratch(p)))


def in_folders(cases: list[str]) -> list[str]:
    """Each case in each folder of the system's partitions: CASE, or CASE@FOLDER."""
    return [f"{case}@{folder}" if folder else case for folder in FOLDERS for case in cases]


CASES = in_folders(tables.cases("restart"))
SMALL = in_folders(["waves-mini", "atoms-27k", "fields-mini"])
FEW = in_folders(["files-50"])
PHASES = ("create", "stat", "rename", "list", "read", "remove")


class FilesLaunch(Launch):
    """Writes to a folder on a file system that all nodes share."""

    simulates = False  # there are no disks
    usual_sampling = "--repeats 3 --block 1 --warmup 0"

    @run_after("setup")
    def choose_folder(self) -> None:
        """Skips a folder of other partitions."""
        self.kernel_case, _, folder = self.case.partition("@")
        if folder not in scratch(self.current_partition):
            self.skip_for(Text(f"{folder} is scratch of other partitions"))
        if folder:
            self.options = [*self.options, f"--directory {shlex.quote(folder)}"]


class RestartLaunch(FilesLaunch):
    """The ways to write a restart file, all in turn, beside a copy in memory."""

    kernel = "restart"
    case = parameter(CASES)
    sampling = dict.fromkeys(SMALL, "--repeats 6 --block 1 --warmup 0")


class MetadataLaunch(FilesLaunch):
    """Small files in folders of each rank's own, and in a common one."""

    kernel = "metadata"
    case = parameter(in_folders(tables.cases("metadata")))
    sampling = dict.fromkeys(FEW, "--repeats 5 --block 2 --warmup 1")


@rfm.simple_test
class restart(KernelCheck):
    """Does the file system return what was written, and how fast does it write and read?"""

    launch = fixture(RestartLaunch, scope="environment")
    method = parameter(tables.methods("restart"))
    metrics = ["time", "bandwidth_write", "bandwidth_read", "time_write_p99", "cached_share"]
    asserted = [
        "bandwidth_write", "bandwidth_read",
        "ratio_copy", "ratio_file_per_node", "ratio_mpi_io_independent",
    ]  # fmt: skip
    tiers = {"quick": {"case": in_folders(["waves-mini"])}, "nightly": {"case": SMALL}}


@rfm.simple_test
class restart_metadata(KernelCheck):
    """Are small files where other ranks look for them, and how many are there per second?"""

    launch = fixture(MetadataLaunch, scope="environment")
    method = parameter(tables.methods("metadata"))
    metrics = [f"operations_{phase}" for phase in PHASES]
    asserted = ["time", "operations_create", "operations_remove", "ratio_own_folder"]
    tiers = {"quick": {"case": FEW}, "nightly": {"case": FEW}}
