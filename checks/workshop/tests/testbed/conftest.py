"""What the clusters are made of, for `workshop met`."""

import json
import subprocess

import pytest

from bisection.core import paths
from workshop.testbed import unavailable


@pytest.fixture(scope="session", autouse=True)
def recorded(record_testsuite_property):
    """The scheduler's version and how the kernels were built, as properties of the JUnit file."""
    built = paths.home() / "build/built-with.json"
    if unavailable() or not built.exists():
        return
    version = subprocess.run(["slurmctld", "-V"], capture_output=True, text=True).stdout
    for name, value in {**json.loads(built.read_text()), "scheduler": version.strip()}.items():
        record_testsuite_property(name, value)
