"""`site check`: each probe that can be wrong, made wrong by made-up surveys and trial jobs."""

import copy
import dataclasses
import json
import re
import sys
import threading
from functools import partial
from operator import attrgetter
from unittest.mock import Mock

import pytest
from made_cluster import GIB, KNOWN, PARTITION, Machine

from bisection.commands import site_check
from bisection.core.reasons.base import Reason
from bisection.core.reasons.launches import (
    Blocked,
    CoreShared,
    Infrastructure,
    Misplaced,
    NotEnded,
    NoWorld,
    Worlds,
)
from bisection.core.slurm import STATES
from bisection.report.site import OTHERWISE, REMEDIES, TITLES, WIDTH, remedy
from bisection.sites.cluster import check, check_probes
from bisection.sites.cluster.check import State, ok
from bisection.sites.cluster.jobs import Ended
from bisection.sites.cluster.pbs import Pbs
from bisection.sites.cluster.slurm import Slurm
from bisection.sites.site import Defect


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """The Machine, which the command finds in place of a real one."""
    machine = Machine(tmp_path / "lab.py")
    monkeypatch.setenv("BISECTION_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(site_check, "require_site", lambda name: machine.site.path)
    monkeypatch.setattr(site_check, "load_site", lambda name: machine.site)
    for scheduler in (Slurm, Pbs):
        monkeypatch.setattr(scheduler, "read", machine.read)
    monkeypatch.setattr(Slurm, "refusal", lambda self, script: machine.refusal)
    monkeypatch.setattr(check_probes, "try_queue", machine.try_queue)
    return machine


@pytest.fixture
def checked(machine, command_line, monkeypatch):
    """checked(): exit code, output, and {state: {probe: reason}} of `bisection site check lab`."""
    results = []
    lines = site_check.result_lines
    monkeypatch.setattr(site_check, "result_lines", lambda *r: results.append(r[0]) or lines(*r))

    def run(name="lab"):
        file = machine.site.path.with_suffix(".json")
        if machine.known:
            facts = {"version": 1, "written": "2026-11-22T07:00:00Z"}
            file.write_text(json.dumps({**facts, "partitions": {"standard": machine.known}}))
        results.clear()
        code, text, _ = command_line("site", "check", name)
        reasons = {state: {} for state in State}
        for finding in results:
            reasons[finding.state][finding.probe] = finding.reason
        return code, text, reasons

    return run


def test_all_is_right(checked, tmp_path):
    code, text, reasons = checked()
    assert (code, [*reasons[State.OK]]) == (0, [*TITLES])
    lines = (f"  ok         {title}( {{2,}}|\n)" for title in TITLES.values())
    assert re.search(".*".join(lines), text, re.S)
    assert not list((tmp_path / "home" / "site-check").iterdir())


def test_a_node_has_the_memory_that_slurm_gives_of_it(machine, checked):
    small()(machine)
    text = " ".join(checked()[1].split())
    assert "memory and time suffice 15 GiB per node, 1.25 GiB needed" in text


def test_job_asks_for_a_rank_per_core_and_no_longer_than_the_queue_allows(machine, checked):
    queue(max_time=300)(machine)
    checked()
    assert str(machine.asked.shape) == "2x4x1"
    assert machine.asked.max_time == 300


def change(part, /, **values):
    """change(part, **values)(machine) changes values of a part of the Machine."""

    def spoil(machine):
        place = part(machine)
        (place if isinstance(place, dict) else vars(place)).update(values)

    return spoil


survey = partial(change, attrgetter("survey"))
queue = partial(change, attrgetter("queue"))
job = partial(change, attrgetter("trial"))
known = partial(change, attrgetter("known"))
second_node = partial(change, lambda machine: machine.trial.nodes[1])


def launch(index, **values):
    return change(lambda machine: machine.trial.outcomes[index], **values)


def steps(**ended):
    return change(attrgetter("trial.steps"), **{name: Ended(*ended[name]) for name in ended})


def drained(machine):
    for node in machine.queue.groups[0].nodes[:2]:
        vars(node).update(down="bad DIMM")


def small(*names):
    """Nodes that have less memory to Slurm than they show."""

    def spoil(machine):
        for node in machine.queue.groups[0].nodes:
            vars(node).update(memory=GIB / 2 if node.name in names else 15.0 * GIB)

    return spoil


def no_account(machine):
    machine.partition.update(access=["-p", "standard"])
    survey(decisions=[Code.ACCOUNT_OPEN(user="me", accounts=["a"])])(machine)


def unbound(machine):
    survey(task_plugin="task/none")(machine)
    launch(1, fault=Misplaced(seats=[SHARED]))(machine)


def ports(state, *nodes):
    port = {"name": "mlx5_0", "kind": "infiniband", "rate": 100.0, "state": state}
    return lambda machine: [machine.trial.nodes[n]["networks"][0].update(port) for n in nodes]


def differ(name, first, second):
    return {"differences": [[name, [[str(first), ["n1"]], [str(second), ["n2"]]]]]}


def changed(name, before, after):
    return {"changes": [[name, before, after, ["n1", "n2"]]]}


SHARED = CoreShared(rank=1, host="n1", thread=None, cpus="0", other=[0, None, "0"])
DEFECT = Defect.of("lab.py", 3, Code.NOT_LOADING(error="oops"))
SEATS = [SHARED.as_dict()]
WORLDS = Worlds(launcher="srun", worlds=8, size=1, asked=8)
THREE_SHARE = Misplaced(seats=[SHARED] * 3)
DOWN = [["n1", "bad DIMM"], ["n2", "bad DIMM"]]
MLX = [["mlx5_0", "infiniband", 200.0]]
LINKS = [
    ("n1", "n2", 2e-6, 2e10, 0.9),
    ("n1", "n3", 2e-6, 5e9, 0.01),
    ("n1", "n4", 9e-6, 2e10, 0.0),
]
GROSS = [("n1", "n2", 2e-6, 2e10, 0.9), ("n1", "n3", 2e-6, 9e8, 0.9)]
BUSY_LINKS = [("n1", "n2", 2e-6, 2e10, 0.0), ("n1", "n3", 9e-6, 5e9, 0.4)]
NO_OMP = (2, 2.0, "-- x\nError: y\n")
FULL = (1, 2.0, "No space left on device\nError: x\n")
TWO_CPUS = {**KNOWN["processor"], "num_cpus": 2}
WRONG = [  # what spoils it, the probe, the code of its reason, and some of its values
    (lambda m: m.site.defects.append(DEFECT), "file", "SITE_DEFECTS", {"line": 3}),
    (lambda m: setattr(m, "silent", True), "scheduler", "SCHEDULER_SILENT", {}),
    (survey(accounting=False), "accounting", "NO_ACCOUNTING", {}),
    (no_account, "account", "ACCOUNT_OPEN", {}),
    (survey(accounts=["chemistry"]), "account", "ACCOUNT_UNKNOWN", {"account": "physics"}),
    (queue(name="express"), "account", "QUEUE_UNKNOWN", {"known": ["express"]}),
    (queue(closed=Code.QUEUE_GROUPS(queue="x", groups=["g"])), "account", "QUEUE_GROUPS", {}),
    (drained, "nodes", "NODES_UP", {"up": 1, "asked": 2, "down": DOWN}),
    (change(lambda m: m, refusal="no"), "placement", "NOT_PLACED", {"geometry": "2x4x1"}),
    (job(fault=Blocked(job="7", waited=9.0, reason="Priority")), "job", "BLOCKED", {}),
    (job(modules={"openmpi": "no"}), "modules", "MODULES_FAIL", {"modules": [["openmpi", "no"]]}),
    (job(build=Code.PROBE_NOT_BUILT(last="no mpicc")), "program", "PROBE_NOT_BUILT", {}),
    (steps(configure=FULL), "kernels", "NO_SPACE", {"build": "Error: x"}),
    (steps(compile=NO_OMP), "kernels", "KERNELS_FAIL", {"step": "compile", "last": "Error: y"}),
    (steps(kernel=(132, 2.0, "Illegal\n")), "kernels", "KERNELS_FAIL", {"exit_code": 132}),
    # Its words name a signal and not the cause.
    (steps(kernel=(124, 60.0, "srun: CANCELLED\n")), "kernels", "KERNELS_LATE", {"limit": 60.0}),
    (job(unseen={"n2": "no"}), "seen", "FOLDER_UNSEEN", {"hosts": [["n2", "no"]]}),
    (second_node(sees={sys.executable: False}), "seen", "PATH_UNSEEN", {"hosts": ["n2"]}),
    (second_node(processor=TWO_CPUS), "alike", "CORES_CLAIMED", {"cores": 2, "host": "n2"}),
    (second_node(governor="x"), "alike", "NODES_DIFFER", differ("governor", "performance", "x")),
    (second_node(memory=14 * GIB), "alike", "NODES_DIFFER", differ("memory", 16 * GIB, 14 * GIB)),
    (ports("down", 1), "alike", "NODES_DIFFER", differ("mlx5_0", "200 Gb/s", None)),
    (known(microcode="0x0"), "facts", "FACTS_CHANGED", changed("microcode", "0x0", "0x1")),
    (ports("active", 0, 1), "facts", "FACTS_CHANGED", changed("mlx5_0", "200 Gb/s", "100 Gb/s")),
    (launch(0, fault=NoWorld(launcher="x")), "world", "NO_WORLD", {"layout": "mpi"}),
    (launch(0, fault=WORLDS), "world", "WORLDS", {"layout": "mpi"}),
    (launch(2, fault=THREE_SHARE), "cores", "MISPLACED", {"layout": "node2", "seats": SEATS * 2}),
    (launch(0, carried={"eth0": 1.01}), "network", "NETWORK_UNUSED_BY", {"expected": MLX}),
    (launch(0, bandwidth=5e9, links=LINKS), "speed", "LINK_SLOW", {"pair": ["n1", "n3"]}),
    (launch(0, latency=9e-6, links=LINKS), "speed", "LINK_SLOW", {"pair": ["n1", "n4"]}),
    # So slow is no link because of other processes.
    (launch(0, bandwidth=9e8, links=GROSS), "speed", "LINK_SLOW", {"pair": ["n1", "n3"]}),
    (steps(leave=(124, 30.0, "")), "exit", "RANK_EXIT_HANGS", {"seconds": 30.0}),
    # A long start does not count.
    (steps(leave=(124, 45.0, "LEFT 80.0\n", 100.0)), "exit", "RANK_EXIT_HANGS", {"seconds": 20.0}),
    (unbound, "cores", "SRUN_UNBOUND", {"plugin": "task/none"}),
    (steps(leave=(0, 0.5, "")), "exit", "RANK_EXIT_LOST", {"left": 3}),
    (queue(max_time=300), "limits", "TIME_SHORT", {"limit": 300, "asked": 900}),
    (second_node(granted=GIB // 2), "limits", "MEMORY_SHORT", {"host": "n2", "needed": 1.25 * GIB}),
    (small("n2"), "limits", "MEMORY_SHORT", {"memory": GIB / 2, "host": "n2"}),
    # By Slurm's configuration, where nothing enforces it.
    (job(memory=GIB / 2), "limits", "MEMORY_SHORT", {"memory": GIB / 2}),
]


@pytest.mark.parametrize(("spoil", "probe", "kind", "values"), WRONG)
def test_what_is_wrong_is_named_with_a_remedy(
    spoil, probe, kind, values, machine, checked, tmp_path
):
    spoil(machine)
    code, text, reasons = checked()
    assert code == 1
    # A node that is unlike the others is also unlike the recorded one.
    assert list(reasons[State.WRONG]) in ([probe], ["alike", "facts"])
    reason = reasons[State.WRONG][probe]
    assert type(reason) == getattr(Code, kind)
    assert {name: reason[name] for name in values} == values
    mend = remedy(reason, "lab", "standard")
    assert re.search(
        f"\n  WRONG      {TITLES[probe]}({' ' * (WIDTH - len(TITLES[probe]))}  |\n)", text
    )
    assert f" -> {mend} " in " ".join(text.split())
    assert all(len(line) <= 80 for line in text.splitlines() if "/" not in line)
    assert (mend == OTHERWISE) == (kind == "QUEUE_GROUPS")
    # What rests on it is not tried, and all else is.
    rests = {probe}
    for each in check_probes.PROBES:
        rests |= {each.name} if rests & {*each.rests_on} else set()
    assert {probe, *reasons[State.NOT_TRIED]} == rests
    # In one line, also if it is broken.
    assert text.count("\n  not tried  ") == (len(rests) > 1) + (probe in ("file", "scheduler"))
    if "job" not in reasons[State.NOT_TRIED]:  # an empty folder is not named
        assert str(tmp_path / "home" / "site-check" / "lab") in text.splitlines()[-1]


def test_every_probe_is_made_wrong_after_those_that_it_rests_on():
    assert {probe for _, probe, _, _ in WRONG} == set(TITLES)
    for place, probe in enumerate(check_probes.PROBES):
        assert {*probe.rests_on} <= {*[*TITLES][:place]}


def pbs(machine):
    machine.partition.update(scheduler="pbs", access=["-q standard", "-A physics"])


def on_this_host(machine):
    machine.partition.update(scheduler="local", access=[], extras={"nodes": 1, "binding": []})
    machine.trial.outcomes = machine.trial.outcomes[:1]
    machine.known = None


OF_SLURM = {"accounting", "account", "nodes", "placement"}


@pytest.mark.parametrize(
    ("change", "exit_code", "untried", "absent"),
    [
        (lambda m: setattr(m, "known", None), 3, {"facts", "speed"}, set()),
        (launch(0, carried={"eth0": 0.03}), 3, {"network"}, set()),  # no device counts the bytes
        # Other processes had the cores of the link that looks slow.
        (launch(0, latency=9e-6, bandwidth=5e9, links=BUSY_LINKS), 3, {"speed"}, set()),
        (launch(0, links=BUSY_LINKS), 0, set(), set()),
        (steps(leave=(3, 30.0, "LEFT 99.500\n", 100.0)), 0, set(), set()),  # a long start-up
        (lambda m: m.partition.update(scheduler="lsf"), 3, {*TITLES} - {"file"}, set()),
        (pbs, 0, set(), {"accounting", "placement"}),
        (lambda m: m.site.environs["system"]["features"].append("spack"), 3, {"kernels"}, set()),
        (on_this_host, 0, set(), {*OF_SLURM, "network", "speed", "facts"}),
    ],
)
def test_what_is_not_tried_or_not_there(machine, checked, change, exit_code, untried, absent):
    change(machine)
    code, _, reasons = checked()
    assert (code, set(reasons[State.NOT_TRIED])) == (exit_code, untried)
    assert {*TITLES} - {probe for state in State for probe in reasons[state]} == absent


def another(name, **changes):
    return {**copy.deepcopy(PARTITION), "name": name, "fullname": f"lab:{name}", **changes}


FAT = ["--partition=standard", "--constraint=fat", "--account=physics"]


@pytest.mark.parametrize(("changes", "builder"), [({}, "standard"), ({"access": FAT}, None)])
def test_partitions_of_alike_nodes_build_once(machine, checked, changes, builder):
    """Nodes of one model may still lack a library that others have."""
    machine.site.partitions.append(another("standard-2", **changes))
    code, _, reasons = checked()
    assert (code, reasons[State.OK]["kernels"]["partition"]) == (0, builder)
    code, text, _ = checked("lab:standard-2")  # whose facts are those of standard
    assert code == 0
    assert "lab:standard\n" not in text
    assert checked("lab:fast")[0] == 2  # there is none


@pytest.mark.parametrize("option", ["--exclusive", "--mem=0"])
def test_jobs_are_in_the_queue_at_once_where_they_share_no_node(machine, checked, option):
    names = ("standard", "fat", "long", "gpu", "debug")
    queues = [dataclasses.replace(machine.queue, name=name) for name in names]
    survey(queues=queues)(machine)
    machine.site.partitions[:] = [
        another(name, access=[f"--partition={name}", option, "--account=physics"]) for name in names
    ]
    machine.seconds = 0.5
    text = checked()[1]
    shown = [line.removeprefix("lab:") for line in text.splitlines() if line.startswith("lab:")]
    assert shown == list(names)
    assert machine.most == (check.AT_ONCE if option == "--exclusive" else 1)


def test_an_error_of_one_partition_ends_the_check(machine, checked, monkeypatch):
    machine.site.partitions.append(another("two"))
    monkeypatch.setattr(check_probes, "try_queue", Mock(side_effect=OSError("no such folder")))
    assert checked()[0] == 2


def test_who_closes_a_check_cancels_its_jobs(machine, tmp_path):
    stopped, running = [], threading.Barrier(2)

    def look(subject):
        running.wait(10)
        if subject.name == "two":
            stopped.append(subject.stop.wait(10))
        return ok(Code.NO_SCHEDULER())

    machine.partition["access"] = ["--exclusive"]
    two = another("two", access=["-p two", "--exclusive"])
    subjects = check.subjects(machine.site, [machine.partition, two], tmp_path, 1)
    results = check.run([check.Probe("job", "a job runs", look)], subjects)
    next(results)
    results.close()
    assert stopped == [True]


def test_every_remedy_is_of_a_code_that_can_come():
    of_jobs = {Blocked, Infrastructure, Code.OUTPUT_UNSEEN, NotEnded}
    assert {*STATES.values(), *of_jobs} < REMEDIES.keys()
    for code in REMEDIES:
        assert "{" not in remedy(Reason(code, {"environ": "spack"}), "lab", "standard")
