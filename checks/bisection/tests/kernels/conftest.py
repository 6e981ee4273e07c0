"""What tests of Spack need of the machine."""

import pytest

from bisection.core import paths
from bisection.kernels.spack import externals
from bisection.kernels.spack import program as spack


@pytest.fixture
def spack_at_hand():
    """Skips a test where Spack and its recipes cannot be had."""
    pins = [spack.PACKAGES] if spack.find_spack() else [spack.SPACK, spack.PACKAGES]
    for pin in pins:
        cloned = paths.home() / "spack" / f"{pin.name}-{pin.release}"
        if not cloned.exists() and (why := spack.unreachable(pin, timeout=10)):
            pytest.skip(f"no Spack can be had: {pin.url}: {why}")


@pytest.fixture
def debian():
    """Versions of the system packages that debian12 takes; skips a test where any is missing."""
    survey = externals.survey_externals(externals.environment_file("debian12"))
    if survey.missing:
        pytest.skip(f"not the system packages of debian12: {', '.join(survey.missing)} missing")
    return survey.installed
