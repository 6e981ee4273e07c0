"""Halo exchange of the upgrade report's mesh codes: turbulence, an ocean, multi-block flow."""

import reframe as rfm
from reframe.core.builtins import fixture, parameter

from bisection.kernels import tables
from bisection.kernels.layouts import LAYOUTS
from bisection.rfm.buffers import on_devices
from bisection.rfm.check import KernelCheck
from bisection.rfm.launch import Launch

CASES = tables.cases("halo")
SMALL = [case for case in CASES if case.endswith(("-24", "-48"))]
# A GiB and more: one step of each method takes a second on two cores.
LARGE = ["pchan", "polcoms"]
MIDDLE = ["pchan-120", "polcoms-12km", "thor"]


class HaloLaunch(Launch):
    """All ways to exchange the halo, in turn, beside the stencil alone and a copy."""

    kernel = "halo"
    case = parameter(CASES)
    sampling = {
        **dict.fromkeys(SMALL, "--repeats 20 --block 10"),
        **dict.fromkeys(LARGE, "--repeats 1 --block 2 --warmup 1"),
    }
    usual_sampling = "--repeats 5 --block 3"


@rfm.simple_test
class halo(KernelCheck):
    """Is each method right, and as fast beside isend and the stencil alone as it should be?"""

    launch = fixture(HaloLaunch, scope="environment")
    method = parameter(tables.methods("halo"))
    metrics = ["time", "points", "exchange_share", "halo_over_stencil"]
    asserted = ["time", "ratio_isend", "ratio_stencil"]
    tiers = {
        "quick": {"case": SMALL},
        "nightly": {"case": [*SMALL, *MIDDLE]},
        "interconnect": {"case": MIDDLE, "layout": ["mpi"]},
    }
    # On one rank; where the MPI library has no windows on the network.
    inapplicable = {name: list(LAYOUTS) for name in ("rma-fence", "rma-pscw")}


# The exchange alone, as the host computes the stencil whatever memory the fields lie in.
NO_STENCIL = ["overlap"]
NEED_HOST = [*NO_STENCIL, "shm", "partitioned"]
on_devices(
    halo,
    HaloLaunch,
    refused={"host": NO_STENCIL, "staged": [*NEED_HOST, "datatype"], "device": NEED_HOST},
    metrics=["time"],
    asserted=["time", "ratio_isend"],
    tiers={"nightly": {"case": MIDDLE}},
    options=["--exchange-only --baseline none"],
)
