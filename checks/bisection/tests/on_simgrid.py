"""The kernels themselves under SimGrid's MPI. Messages take time there and computing none: the
machine that runs a test does not matter, and a launch gives the same each time."""

import importlib
import sys

import pytest

from bisection.core import paths

SOURCES, FOLDER = paths.ROOT / "src/tests", paths.ROOT / ".bisection/build/simulated"
sys.path.append(str(SOURCES))
simulated = importlib.import_module("simulated")  # of no package


def needs(*kernels):
    """Skips tests where `make test-kernels` found no SimGrid."""
    missing = simulated.missing(FOLDER, *kernels)
    return pytest.mark.skipif(bool(missing), reason=str(missing))


def launched(kernel, leaves, hosts, spines, cables, *options):
    """What a kernel gives on a tree of so many leaf switches, with these cables."""
    tree = simulated.Tree(leaves, hosts, spines)
    outcome = simulated.simulate(FOLDER, kernel, tree, *options, cables=cables)
    assert outcome.code == 0, outcome.stdout + outcome.stderr
    return outcome
