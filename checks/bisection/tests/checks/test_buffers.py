"""Tests with buffers in memory of devices: where they are, and with which ranks."""

import re

import pytest

from bisection.core.identity import Geometry
from bisection.kernels import layouts
from bisection.sites.rules import partition_faults
from bisection.sites.site_files import load_site

SITE = """
from pathlib import Path
from reframe.utility import import_module_from_file
common = import_module_from_file({common!r})
like = dict(scheduler="local", launcher="mpirun", environs=["system"],
            processor=dict(num_cpus=8, num_cpus_per_core=1, num_cpus_per_socket=8, num_sockets=1))
site_configuration = common.configuration(systems=[dict(
    name="made", hostnames=[".*"], partitions=[
        dict(name="cpus", extras=dict(nodes=2), **like),
        dict(name="gpus", devices=[dict(type="gpu", num_devices=4)], extras=dict(nodes=2), **like),
        dict(name="staged", devices=[dict(type="gpu")], extras=dict(buffers=["staged"]), **like),
        dict(name="other", devices=[dict(type="fpga")], extras={{}}, **like),
    ])])
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Partitions with devices and without."""
    from bisection.core import paths

    file = tmp_path_factory.mktemp("made") / "made.py"
    file.write_text(SITE.format(common=str(paths.ROOT / "site-configs" / "common.py")))
    site = load_site(str(file))
    assert site.defects == []
    return site


def test_partitions_with_devices_have_the_tests_in_each_memory(site):
    cases = site.cases
    there = {
        (c["$partition"], m[1])
        for c in cases
        if (m := re.search("_(host|staged|device)$", c["check"]))
    }
    assert there == {("made:gpus", each) for each in ("host", "staged", "device")} | {
        ("made:staged", "staged")
    }
    checks = {c["check"] for c in cases if c["$partition"] == "made:cpus"}
    kernels = {c["check"].removesuffix("_device") for c in cases if c["check"].endswith("_device")}
    assert kernels <= checks
    for kernel in kernels:  # the same tests, but of one layout
        own, other = (
            {
                (c["case"], c["method"])
                for c in cases
                if c["check"] == name and c["$partition"] == "made:gpus"
            }
            for name in (kernel, f"{kernel}_device")
        )
        assert own == other
    on_devices = {c["geometry"] for c in cases if c["check"].endswith("_device")}
    assert on_devices == {"2x4x2"}


def test_halos_are_compared_by_their_exchange(site):
    """The host computes the stencil in all three; what needs it, or the host, is not applicable."""
    away = {}
    for buffers in ("host", "staged", "device"):
        check = site.checks[f"halo_{buffers}"]
        assert check["tiers"] == {"nightly": {"case": ["pchan-120", "polcoms-12km", "thor"]}}
        assert {"exchange_share", "halo_over_stencil"}.isdisjoint(check["metrics"])
        layout = [f"gpu-{buffers}"]
        away[buffers] = {n for n, where in check["inapplicable"].items() if where == layout}
    assert away["host"] == {"overlap", "rma-fence", "rma-pscw"}
    assert away["device"] == away["host"] | {"shm", "partitioned"}
    assert away["staged"] == away["device"] | {"datatype"}


def test_congestion_is_in_no_tier_of_a_night(site):
    for buffers in ("host", "staged", "device"):
        assert site.checks[f"congestion_{buffers}"]["tiers"] == {"interconnect": {}}


def test_without_devices_there_is_none():
    site = load_site("localhost")
    assert not [name for name in site.checks if re.search("_(host|staged|device)$", name)]


@pytest.mark.parametrize(
    ("cores", "nodes", "devices", "shape"),
    [
        (64, 2, 4, Geometry(2, 4, 16)),
        (64, 2, 1, Geometry(2, 1, 64)),
        (64, 1, 1, Geometry(1, 2, 32)),  # a lone rank exchanges nothing
        (2, 1, 4, Geometry(1, 2, 1)),  # fewer cores than devices
        (1, 1, 1, Geometry(1, 1, 1)),
    ],
)
def test_ranks_of_devices(cores, nodes, devices, shape):
    assert layouts.geometry("gpu-staged", cores, nodes, None, devices) == shape


@pytest.mark.parametrize(
    ("extra", "value", "right"),
    [
        ("buffers", ["staged", "device"], True),
        ("buffers", [], True),
        ("buffers", ["gpu"], False),
        ("buffers", "device", False),
        ("device_ffts", False, True),
        ("device_ffts", "no", False),
        ("device_order", "3,2,1,0", True),
        ("device_order", "3,", False),
        ("device_order", [0, 1], False),
    ],
)
def test_extras_of_devices(extra, value, right):
    partition = {
        "fullname": "a:b",
        "cores": 4,
        "detected": False,
        "environs": [],
        "extras": {extra: value},
    }
    wrong = [text for _, text in partition_faults(partition, {})]
    assert (wrong == []) == right
    assert right or "allowed" in wrong[0]
