"""The distributed 3D FFT of plane-wave codes: every way to transpose, on every case and layout."""

import reframe as rfm
from reframe.core.builtins import fixture, parameter

from bisection.core.identity import Geometry
from bisection.kernels import tables
from bisection.kernels.layouts import ON_DEVICES
from bisection.rfm.buffers import on_devices
from bisection.rfm.check import KernelCheck
from bisection.rfm.launch import Launch

CASES = tables.cases("transpose")
SMALL = ["cnt40", "cpmd-mini"]


class TransposeLaunch(Launch):
    """The transpose, all methods in turn."""

    kernel = "transpose"
    simulated_options = ["--planner estimate"]
    case = parameter(CASES)
    # A step of cnt40 takes a millisecond on two cores, the others more: seconds a launch for all.
    # Many short rounds, as ratios are taken in each and neighbours come and go.
    work = {case: "--bands 2" for case in CASES if case != "cnt40"}
    sampling = {
        "cnt40": "--repeats 40 --block 4",
        "cpmd-mini": "--repeats 20 --block 2",
        "tin-8k": "--repeats 20 --block 2 --warmup 0",
    }

    def place(self, shape: Geometry, ranks: int) -> None:
        """On devices without a library of FFTs, exchanges alone are measured: other work."""
        extras = self.current_partition.extras
        if self.layout in ON_DEVICES and not extras.get("device_ffts", True):
            alone = "--transpose-only"
            self.work = {case: f"{self.work.get(case, '')} {alone}".strip() for case in CASES}
        super().place(shape, ranks)


@rfm.simple_test
class transpose(KernelCheck):
    """Is each method right, and as fast beside alltoallv and serial FFTW as it should be?"""

    launch = fixture(TransposeLaunch, scope="environment")
    method = parameter(tables.methods("transpose"))
    asserted = ["time", "ratio_alltoallv", "ratio_serial", "exchange_share"]
    tiers = {
        "quick": {"case": SMALL},
        "nightly": {"case": [*SMALL, "silicon", "tin-8k"]},
        "triage": {"case": ["silicon"], "layout": ["mpi", "node"]},
        "interconnect": {},
    }


# No window of shared memory has memory of a device, and no host packs it.
NEED_HOST = ["shm", "shm-padded", "leaders", "direct", "gather-scatter"]
on_devices(
    transpose,
    TransposeLaunch,
    refused={"staged": NEED_HOST, "device": NEED_HOST},
    asserted=["time", "ratio_alltoallv", "exchange_share"],
    options=["--baseline none"],
)
