"""What the site files say of this machine."""

import os

import pytest
from running import load_site


@pytest.fixture
def common():
    return load_site("common")


def test_cpulist(common):
    assert common.cpulist("0-2,8\n") == {0, 1, 2, 8}
    assert common.cpulist("") == set()


def test_this_machine_counts_what_may_be_used(common, monkeypatch):
    monkeypatch.setattr(common, "cpu_quota", lambda: None)
    machine = common.this_machine()
    cores = machine["topology"]["cores"]
    assert machine["num_cpus"] == len(cores) * machine["num_cpus_per_core"]
    allowed = sum(int(mask, 16) for mask in cores)
    assert allowed == sum(1 << cpu for cpu in os.sched_getaffinity(0))


@pytest.mark.parametrize(("quota", "cores"), [(None, 2), (1.9, 1), (0.5, 1)])
def test_two_threads_of_a_core_are_one_core(common, monkeypatch, quota, cores):
    cpus = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"
    siblings = {cpus.format(cpu): f"{cpu % 2},{cpu % 2 + 2}" for cpu in range(4)}
    monkeypatch.setattr(common.os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
    monkeypatch.setattr(common, "cpu_quota", lambda: quota)
    monkeypatch.setattr(common, "_read", lambda path: siblings.get(str(path), ""))
    machine = common.this_machine()
    assert (machine["num_cpus"], machine["num_cpus_per_core"]) == (2 * cores, 2)
    assert machine["topology"]["cores"] == ["0x5", "0xa"]


V1 = "/sys/fs/cgroup/cpu/b/cpu.cfs_"


@pytest.mark.parametrize(
    ("files", "quota"),
    [
        ({"/sys/fs/cgroup/a/cpu.max": "150000 100000\n"}, 1.5),
        ({"/sys/fs/cgroup/a/cpu.max": "max 100000\n"}, None),
        ({"/sys/fs/cgroup/cpu.max": "400000 100000\n"}, 4.0),
        ({f"{V1}quota_us": "200000\n", f"{V1}period_us": "100000\n"}, 2.0),
        ({f"{V1}quota_us": "-1\n", f"{V1}period_us": "100000\n"}, None),
        ({}, None),
    ],
)
def test_quota(common, monkeypatch, files, quota):
    files = {"/proc/self/cgroup": "3:cpu,cpuacct:/b\n0::/a\n", **files}
    monkeypatch.setattr(common, "_read", lambda path: files.get(str(path), ""))
    assert common.cpu_quota() == quota
