"""Burn-in: each node under full load for minutes, with its sensors."""

from typing import Any

import reframe as rfm
from reframe.core.builtins import fixture, parameter

from bisection.kernels import tables
from bisection.rfm.check import KernelCheck
from bisection.rfm.launch import Launch


class BurnLaunch(Launch):
    """Every core of every node multiplies, streams and exchanges within the node."""

    kernel = "burn"
    simulates = False  # nothing gets hot
    case = parameter(["node"])
    layout = parameter(["mpi"])
    sampling = {"node": "--repeats 3 --block 5"}  # steps of a second; minutes in the tier burn
    time_limit: Any = "40m"  # a node that throttles takes several times as long


@rfm.simple_test
class burn(KernelCheck):
    """Does each node keep the rate of its first minute under full load?"""

    launch = fixture(BurnLaunch, scope="environment")
    method = parameter(tables.methods("burn"))
    metrics = ["time", "rate"]
    asserted = ["sustained"]
    tiers = {"burn": {}}
    inapplicable = {"alltoall": ["mpi"]}  # where a node has one core
