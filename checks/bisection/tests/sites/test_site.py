"""What the site files say of this machine."""

import os

import pytest
from running import load_site

from bisection.sites.cluster import node_facts
from bisection.sites.site_files import load_site as loaded_site


@pytest.fixture
def common():
    return load_site("common")


@pytest.fixture
def files(monkeypatch):
    """What /proc and /sys have, by path; nothing else is there."""
    texts = {}
    monkeypatch.setattr(node_facts, "read", lambda path: texts.get(path, "").strip())
    return texts


def test_cpulist():
    assert node_facts.cpulist("0-2,8") == {0, 1, 2, 8}
    assert node_facts.cpulist("") == set()


def test_this_machine_counts_what_may_be_used(common, monkeypatch):
    monkeypatch.setattr(common, "cpu_quota", lambda: None)
    machine = common.this_machine()
    cores = machine["topology"]["cores"]
    assert machine["num_cpus"] == len(cores) * machine["num_cpus_per_core"]
    allowed = sum(int(mask, 16) for mask in cores)
    assert allowed == sum(1 << cpu for cpu in os.sched_getaffinity(0))


@pytest.fixture
def cpus(common, files, monkeypatch):
    """cpus(siblings, count, quota): the CPUs of this process, of so many, and its quota."""

    def have(siblings, count, quota=None):
        folder = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"
        files.update({folder.format(cpu): text for cpu, text in enumerate(siblings)})
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: {*range(len(siblings))})
        monkeypatch.setattr(os, "cpu_count", lambda: count)
        monkeypatch.setattr(common, "cpu_quota", lambda: quota)

    return have


@pytest.mark.parametrize(
    ("quota", "cores", "count", "granted"),
    [
        (None, 2, 4, "2"),
        (None, 2, 8, "2 of 4: affinity mask"),
        (1.9, 1, 4, "1 of 2: CPU quota 1.9"),
        (0.5, 1, 8, "1 of 4: CPU quota 0.5"),
    ],
)
def test_two_threads_of_a_core_are_one_core(common, cpus, quota, cores, count, granted):
    cpus(["0,2", "1,3"] * 2, count, quota)
    machine = common.this_machine()
    assert (machine["num_cpus"], machine["num_cpus_per_core"]) == (2 * cores, 2)
    assert machine["topology"]["cores"] == ["0x5", "0xa"]
    assert common.granted() == granted


def test_no_mask_is_told_where_only_some_cores_have_two_threads(common, cpus):
    cpus(["0-1", "0-1", "2-3", "2-3", "4", "5"], 6)
    assert common.granted() == "4"


GROUPS = "3:cpu,cpuacct:/b/job_7/step\n5:memory:/m\n0::/a/user.slice/x\n"
V1, V2 = "/sys/fs/cgroup/cpu", "/sys/fs/cgroup"


def of_v1(group, quota):
    return {f"{V1}{group}/cpu.cfs_{n}_us": t for n, t in (("quota", quota), ("period", "100000\n"))}


@pytest.mark.parametrize(
    ("limits", "quota"),
    [
        ({f"{V2}/a/user.slice/x/cpu.max": "150000 100000\n"}, 1.5),
        ({f"{V2}/a/user.slice/x/cpu.max": "max 100000\n"}, None),
        ({f"{V2}/cpu.max": "400000 100000\n"}, 4.0),
        # the least of a group and of those above it
        ({f"{V2}/a/cpu.max": "50000 100000\n", f"{V2}/a/user.slice/x/cpu.max": "2 1"}, 0.5),
        ({f"{V2}/a/user.slice/cpu.max": "200000 100000\n"}, 2.0),
        (of_v1("/b/job_7/step", "200000\n"), 2.0),
        (of_v1("/b/job_7", "25000\n") | of_v1("/b/job_7/step", "-1\n"), 0.25),
        (of_v1("/b", "300000\n") | of_v1("", "-1\n"), 3.0),
        (of_v1("/b/job_7/step", "-1\n"), None),
        (of_v1("/m", "100000\n"), None),  # a group of another controller
        ({}, None),
    ],
)
def test_quota(common, files, limits, quota):
    files |= {"/proc/self/cgroup": GROUPS, **limits}
    assert common.cpu_quota() == quota


def test_memory_is_limited_by_groups_above_and_by_no_others(files):
    files |= {"/proc/self/cgroup": GROUPS, f"{V2}/memory/b/memory.limit_in_bytes": "5\n"}
    assert node_facts.granted(1000) == 1000
    files |= {f"{V2}/memory/m/memory.limit_in_bytes": "800", f"{V2}/a/memory.max": "900"}
    assert node_facts.granted(1000) == 800


@pytest.mark.parametrize("parts", [["0xd4f", "0xd4f"], ["0xd05", "0xd0b", "0xd05"]])
def test_a_processor_without_a_name(common, files, monkeypatch, parts):
    about = "processor\t: {}\nCPU implementer\t: 0x41\nCPU variant\t: 0x1\nCPU part\t: {}\n\n"
    files["/proc/cpuinfo"] = "".join(about.format(*cpu) for cpu in enumerate(parts))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {*range(len(parts))})
    kinds = [f"implementer 0x41, part {part}, variant 0x1" for part in dict.fromkeys(parts)]
    machine = common.this_machine()
    assert (machine["vendor"], machine["model"]) == ("0x41", "; ".join(kinds))
    files["/proc/cpuinfo"] = "processor\t: 0\nmodel name\t: Made-up @ 2 GHz\n"
    assert common.this_machine()["model"] == "Made-up @ 2 GHz"


def test_only_tests_that_a_pattern_selects_are_made(site):
    patterns = {"^transpose%.*method=shm%": "transpose shm", "case=mini1$": "mini1", "none": "none"}

    def named(test):
        words = f"{test['check']} {test['method']} {test['case']}".split()
        return [name for name, wanted in patterns.items() if set(wanted.split()) <= set(words)]

    selected = [{**test, "named": named(test)} for test in site.tests if named(test)]
    assert loaded_site("localhost", list(patterns)).tests == selected
