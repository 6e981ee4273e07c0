"""What the clusters are made of, for `workshop met`."""

import json
import subprocess

import pytest

from bisection.core import paths
from workshop.testbed import unavailable


@pytest.fixture(scope="session")
def made_of():
    """The scheduler's version and how the kernels were built."""
    built = paths.home() / "build/built-with.json"
    if unavailable() or not built.exists():
        return {}
    version = subprocess.run(["slurmctld", "-V"], capture_output=True, text=True).stdout
    return {**json.loads(built.read_text()), "scheduler": version.strip()}


@pytest.fixture(autouse=True)
def recorded(made_of, record_property):
    """Properties of each test in the JUnit file: xdist's workers have none of their suite."""
    for name, value in made_of.items():
        record_property(name, value)
