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
from bisection.core.reasons import OUTER_FAULTS, launches
from bisection.core.reasons.base import Text
from bisection.report.probe_lines import TITLES, WIDTH
from bisection.schedulers.pbs import Pbs
from bisection.schedulers.slurm import STATES, Slurm
from bisection.schedulers.survey import OTHER_QUEUE
from bisection.sites.cluster import probe_runner, probes
from bisection.sites.cluster.jobs import StepEnd
from bisection.sites.cluster.probe_runner import REMEDIES, ProbeState, ok
from bisection.sites.site_files import Defect


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """The Machine, which the command finds in place of a real one."""
    machine = Machine(tmp_path / "lab.py")
    monkeypatch.setenv("BISECTION_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(site_check, "require_site", lambda name: machine.site.path)
    monkeypatch.setattr(site_check, "load_site", lambda name, reservation: machine.site)
    for scheduler in (Slurm, Pbs):
        monkeypatch.setattr(scheduler, "read", machine.read)
    monkeypatch.setattr(probes, "refusal", machine.refused)
    monkeypatch.setattr(probes, "try_queue", machine.try_queue)
    return machine


@pytest.fixture
def checked(machine, command_line, monkeypatch):
    """checked(): exit code, output, and {state: {probe: finding}} of `bisection site check lab`."""
    results = []
    lines = site_check.result_lines
    monkeypatch.setattr(site_check, "result_lines", lambda *r: results.append(r[0]) or lines(*r))

    def run(name="lab", *options):
        file = machine.site.path.with_suffix(".json")
        if machine.known:
            facts = {"version": 1, "written": "2026-11-22T07:00:00Z"}
            file.write_text(json.dumps({**facts, "partitions": {"standard": machine.known}}))
        results.clear()
        code, text, _ = command_line("site", "check", name, *options)
        findings = {state: {} for state in ProbeState}
        for finding in results:
            findings[finding.state][finding.probe] = finding
        return code, text, findings

    return run


def test_all_is_right(checked, tmp_path):
    code, text, findings = checked()
    assert (code, [*findings[ProbeState.OK]]) == (0, [*TITLES])
    lines = (f"  ok         {title}( {{2,}}|\n)" for title in TITLES.values())
    assert re.search(".*".join(lines), text, re.S)
    assert not list((tmp_path / "home" / "site-check").iterdir())


@pytest.mark.parametrize(("memory", "code"), [(16, 0), (8, 1)])
def test_json_has_each_finding(machine, checked, memory, code):
    second_node(memory=memory * 2**30)(machine)
    ended, text, findings = checked("lab", "--json")
    told = json.loads(text)
    states = {probe: state for state, group in findings.items() for probe in group}
    assert {result["probe"]: result["state"] for result in told["results"]} == states
    assert (ended, bool(told["output"])) == (code, bool(code))
    wrong = [result["remedy"] for result in told["results"] if result["state"] == "WRONG"]
    assert all(wrong)
    assert bool(wrong) == bool(code)


def test_memory_and_job_are_as_slurm_gives_them(machine, checked):
    """A job asks for a rank per core, and for no longer than the queue allows."""
    small()(machine)
    queue(max_time=1800)(machine)
    text = " ".join(checked()[1].split())
    assert "memory and time suffice 15 GiB per node, 1.25 GiB needed" in text
    assert (str(machine.asked.shape), machine.asked.max_time) == ("2x4x1", 1800)


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
    return change(attrgetter("trial.steps"), **{name: StepEnd(*ended[name]) for name in ended})


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
    text = Text("jobs need an account and me has no default one", next="Write it.")
    survey(decisions=[text])(machine)


def unbound(machine):
    survey(task_plugin="task/none")(machine)
    launch(1, fault=launches.Misplaced(seats=(SHARED,)))(machine)


def ports(state, *nodes):
    port = {"name": "mlx5_0", "kind": "infiniband", "rate": 100.0, "state": state}
    return lambda machine: [machine.trial.nodes[n]["networks"][0].update(port) for n in nodes]


SHARED = launches.CoreShared(host="n1", text="rank 1 on n1 (cpus 0) shares a core with rank 0")
DEFECT = Defect.of("lab.py", 3, "does not load: oops")
WORLDS = launches.Worlds(launcher="srun", worlds=8, size=1, asked=8)
THREE_SHARE = launches.Misplaced(seats=(SHARED,) * 3)
TWO_SHARE = f"INVALID placement (layout node2): {SHARED}; {SHARED}"
LINKS = [("n1", "n2", 2e-6, 2e10, 0.9), ("n1", "n3", 2e-6, 5e9, 0.01), ("n1", "n4", 9e-6, 2e10, 0)]
GROSS = [("n1", "n2", 2e-6, 2e10, 0.9), ("n1", "n3", 2e-6, 9e8, 0.9)]
BUSY_LINKS = [("n1", "n2", 2e-6, 2e10, 0.0), ("n1", "n3", 9e-6, 5e9, 0.4)]
NO_OMP = (2, 2.0, "-- x\nError: y\n")
FULL = (1, 2.0, "No space left on device\nError: x\n")
NO_MPICC = Text("no MPI program could be built", line="no mpicc", next="Load one.")
CLOSED = Text("queue x: only members of g can use it", next=OTHER_QUEUE)
TWO_CPUS = {**KNOWN["processor"], "num_cpus": 2}
WRONG = [  # what spoils it, the probe, and what its result says
    (lambda m: m.site.defects.append(DEFECT), "file", "lab.py:3: does not load: oops"),
    (lambda m: setattr(m, "silent", True), "scheduler", "is installed and does not answer"),
    (survey(accounting=False), "accounting", "sacct does not answer"),
    (no_account, "account", "me has no default one"),
    (survey(accounts=["chemistry"]), "account", "account physics is not one of this user"),
    (queue(name="express"), "account", "does not exist; there are express"),
    (queue(closed=CLOSED), "account", "only members of g can use it"),
    (drained, "nodes", "1 of 3 up, 2 needed; n1 (bad DIMM), n2 (bad DIMM)"),
    (change(lambda m: m, refusal="no"), "placement", "layout mpi, 2x4x1: no"),
    (job(fault=launches.Blocked(job="7", waited=9.0, reason="Priority")), "job", "BLOCKED: job 7"),
    (job(modules={"openmpi": "no"}), "modules", "openmpi (no)"),
    (job(build=NO_MPICC), "program", "no MPI program could be built: no mpicc"),
    (steps(configure=FULL), "kernels", "No space left on device: Error: x"),
    (steps(compile=NO_OMP), "kernels", "a kernel does not compile: Error: y"),
    (steps(kernel=(132, 2.0, "Illegal\n")), "kernels", "a kernel does not run"),
    # Its words name a signal and not the cause.
    (steps(kernel=(124, 60.0, "srun: CANCELLED\n")), "kernels", "does not run within 60 s"),
    (job(unseen={"n2": "no"}), "seen", "is not seen by n2 (no)"),
    (second_node(sees={sys.executable: False}), "seen", f"{sys.executable} is not seen by n2"),
    (second_node(processor=TWO_CPUS), "alike", "gives 4 cores, n2 has 2"),
    (second_node(governor="x"), "alike", "governor performance on n1, x on n2"),
    (second_node(memory=14 * GIB), "alike", "memory 16 GiB on n1, 14 GiB on n2"),
    (ports("down", 1), "alike", "mlx5_0 200 Gb/s on n1, not up on n2"),
    (known(microcode="0x0"), "facts", "microcode 0x0 -> 0x1 on n1, n2"),
    (ports("active", 0, 1), "facts", "mlx5_0 200 Gb/s -> 100 Gb/s on n1, n2"),
    (launch(0, fault=launches.NoWorld(launcher="x")), "world", "started no MPI world (layout mpi)"),
    (launch(0, fault=WORLDS), "world", "instead of one of 8 (layout mpi)"),
    (launch(2, fault=THREE_SHARE), "cores", TWO_SHARE),
    (launch(0, carried={"eth0": 1.01}), "network", "not through mlx5_0 (infiniband, 200 Gb/s)"),
    (launch(0, bandwidth=5e9, links=LINKS), "speed", "(n1 to n3); were"),
    (launch(0, latency=9e-6, links=LINKS), "speed", "(n1 to n4); were"),
    # So slow is no link because of other processes.
    (launch(0, bandwidth=9e8, links=GROSS), "speed", "(n1 to n3); were"),
    (steps(leave=(124, 30.0, "")), "exit", "did not end in 10 s, but in 30.0 s"),
    # A long start does not count.
    (steps(leave=(124, 45.0, "LEFT 80.0\n", 100.0)), "exit", "but in 20.0 s"),
    (unbound, "cores", "slurm.conf has TaskPlugin=task/none"),
    (steps(leave=(0, 0.5, "")), "exit", "a rank exited with 3, and"),
    (queue(max_time=300), "limits", "gives a job 5 min, a launch asks for 15 min"),
    (second_node(granted=GIB // 2), "limits", "0.5 GiB on n2, the largest launch needs 1.25 GiB"),
    (small("n2"), "limits", "a job has 0.5 GiB on n2"),
    # By Slurm's configuration, where nothing enforces it.
    (job(memory=GIB / 2), "limits", "a job has 0.5 GiB"),
]


@pytest.mark.parametrize(("spoil", "probe", "says"), WRONG)
def test_what_is_wrong_is_named_with_a_remedy(spoil, probe, says, machine, checked, tmp_path):
    spoil(machine)
    code, text, findings = checked()
    assert code == 1
    # A node that is unlike the others is also unlike the recorded one.
    assert list(findings[ProbeState.WRONG]) in ([probe], ["alike", "facts"])
    finding = findings[ProbeState.WRONG][probe]
    assert says in finding.text
    assert finding.remedy
    line = f"\n  WRONG      {TITLES[probe]}"
    assert f"{line:<{WIDTH + 14}}  " in text or f"{line}\n" in text
    assert f" -> {finding.remedy} " in " ".join(text.split())
    assert all(len(line) <= 80 for line in text.splitlines() if "/" not in line)
    # What rests on it is not tried, and all else is.
    rests = {probe}
    for each in probes.PROBES:
        rests |= {each.name} if rests & {*each.rests_on} else set()
    assert {probe, *findings[ProbeState.NOT_TRIED]} == rests
    # In one line, also if it is broken.
    assert text.count("\n  not tried  ") == (len(rests) > 1) + (probe in ("file", "scheduler"))
    if "job" not in findings[ProbeState.NOT_TRIED]:  # an empty folder is not named
        assert str(tmp_path / "home" / "site-check" / "lab") in text.splitlines()[-1]


def test_every_probe_is_made_wrong_after_those_that_it_rests_on():
    assert {probe for _, probe, _ in WRONG} == set(TITLES)
    for place, probe in enumerate(probes.PROBES):
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
    code, _, findings = checked()
    assert (code, set(findings[ProbeState.NOT_TRIED])) == (exit_code, untried)
    assert {*TITLES} - {probe for state in ProbeState for probe in findings[state]} == absent


def another(name, **changes):
    return {**copy.deepcopy(PARTITION), "name": name, "fullname": f"lab:{name}", **changes}


FAT = ["--partition=standard", "--constraint=fat", "--account=physics"]


@pytest.mark.parametrize(("changes", "builder"), [({}, "standard"), ({"access": FAT}, None)])
def test_partitions_of_alike_nodes_build_once(machine, checked, changes, builder):
    """Nodes of one model may still lack a library that others have."""
    machine.site.partitions.append(another("standard-2", **changes))
    code, _, findings = checked()
    same = f"as on {builder}, which is on the same nodes" if builder else "configured"
    assert (code, findings[ProbeState.OK]["kernels"].text.startswith(same)) == (0, True)
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
    assert machine.most == (probe_runner.AT_ONCE if option == "--exclusive" else 1)


def test_an_error_of_one_partition_ends_the_check(machine, checked, monkeypatch):
    machine.site.partitions.append(another("two"))
    monkeypatch.setattr(probes, "try_queue", Mock(side_effect=OSError("no such folder")))
    assert checked()[0] == 2


def test_who_closes_a_check_cancels_its_jobs(machine, tmp_path):
    stopped, running = [], threading.Barrier(2)

    def look(subject):
        running.wait(10)
        if subject.name == "two":
            stopped.append(subject.stop.wait(10))
        return ok("none")

    machine.partition["access"] = ["--exclusive"]
    two = another("two", access=["-p two", "--exclusive"])
    subjects = probe_runner.subjects(machine.site, [machine.partition, two], tmp_path, 1)
    results = probe_runner.run([probe_runner.SiteProbe("job", "a job runs", look)], subjects)
    next(results)
    results.close()
    assert stopped == [True]


def test_every_fault_of_a_job_has_a_remedy():
    assert {
        *STATES.values(),
        launches.Blocked,
        launches.Infrastructure,
        launches.NodeFault,
        launches.NotEnded,
    } < REMEDIES.keys()
    for kind in OUTER_FAULTS:
        assert kind in REMEDIES or kind is launches.NotStarted
    assert probe_runner.fault(launches.NotStarted(cause="x"), "p").remedy == probe_runner.LOOK
