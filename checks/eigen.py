"""Parallel eigensolvers: every solver on every size and layout, and codes that are made of them."""

import reframe as rfm
from reframe.core.builtins import fixture, parameter, run_after

from bisection.kernels import layouts, tables
from bisection.rfm.check import KernelCheck
from bisection.rfm.launch import Launch

SMALL = ["fock-256", "fock-512", "aimpro-mini", "crystal-mini"]
# Of large matrices, the fastest solvers alone: the others take minutes a solution.
LARGE = [case for case in tables.cases("eigen") if case not in SMALL]
FASTEST = ["pdsyevd", "pdsyevr", "elpa1"]
OF_A_MACHINE = ["pdsyevd-7194", "aimpro", "crystal", "crambin"]
GUESSED = "fock-512"


class EigenLaunch(Launch):
    """The eigensolvers, all in turn, beside LAPACK on one core."""

    kernel = "eigen"
    simulates = False  # ScaLAPACK is built for other MPI libraries
    case = parameter(tables.cases("eigen"))
    methods = {case: ",".join(FASTEST) for case in LARGE}
    cores_needed = dict.fromkeys(OF_A_MACHINE, 32)
    usual_sampling = "--repeats 3 --block 1 --warmup 0"


class EigenGuess(Launch):
    """Method jacobi from eigenvectors that are wrong by a thousandth."""

    kernel = "eigen"
    case = parameter([GUESSED])
    work = {GUESSED: "--guess-error 1e-3"}
    methods = {GUESSED: "jacobi"}
    usual_sampling = "--repeats 3 --block 1 --warmup 0"


@rfm.simple_test
class eigen(KernelCheck):
    """Is each solver right, and as fast beside LAPACK on one core as it should be?"""

    launch = fixture(EigenLaunch, scope="environment")
    method = parameter(tables.methods("eigen"))
    metrics = ["time", "matrices", "messages", "bytes"]
    asserted = ["time", "ratio_dsyevd", "sweeps"]
    tiers = {
        "quick": {"case": ["fock-256"]},
        "nightly": {"case": SMALL},
        "interconnect": {"case": ["fock-512"], "layout": ["mpi"]},
    }
    inapplicable = {name: list(layouts.LAYOUTS) for name in ("elpa1", "elpa2")}  # some grids

    @run_after("init")
    def leave_unmeasured(self) -> None:
        """Skips what no launch measures: AIMPRO's products need blocks, jacobi has columns."""
        columns = self.method == "jacobi" and self.case.startswith("aimpro")
        if columns or (self.case in LARGE and self.method not in FASTEST):
            self.valid_systems = []

    def _judged(self) -> list[str]:
        """Sweeps are of the iterative solver alone."""
        judged = super()._judged()
        return [name for name in judged if name != "sweeps" or self.method == "jacobi"]


@rfm.simple_test
class eigen_guess(KernelCheck):
    """Does a guess of the eigenvectors spare sweeps, within the same memory?"""

    launch = fixture(EigenGuess, scope="environment")
    method = parameter(["jacobi"])
    metrics = ["time", "sweeps", "matrices"]
    asserted = ["ratio_dsyevd", "sweeps"]
    tiers = {"nightly": {}}
