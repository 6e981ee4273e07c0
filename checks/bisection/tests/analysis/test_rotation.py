"""Other nodes each night, and the slow node that this names."""

import re
from collections import Counter

import numpy as np
import pytest
from made_up import case, noise, session, store
from running import SITES

from bisection.analysis.nodes import recent, suspects
from bisection.analysis.rotation import choose, largest, next_set, sweep_of, usage
from bisection.core.commands import Answer
from bisection.core.thresholds import LIMITS
from bisection.rfm.queue import nodelist
from bisection.runs import command
from bisection.runs.run_verdict import Request
from bisection.schedulers import slurm as slurm_module

FOUR = ["n1", "n2", "n3", "n4"]
QUAD = {"fullname": "lab:cpu", "access": ["--partition=quad"], "extras": {"nodes": 2}}
QUAD["scheduler"] = "slurm"
METHODS = ["alltoallv", "p2p", "padded", "shm"]


@pytest.fixture
def slurm(monkeypatch):
    """slurm(*lines): what sinfo prints; by default four idle nodes. A line without the host has the
    node's own name for it."""
    asked = []

    def print_nodes(*lines):
        whole = [n if n.count("|") == 4 else re.sub(r"^(\w+)", r"\1|\1", n) for n in lines]
        whole = [f"{line}|none" for line in whole]

        def ask(*command):
            asked.append(command)
            assert not {"-p", "--all"} <= set(command)  # sinfo does not take both
            return Answer("sinfo", 0, "\n".join(whole), "")

        monkeypatch.setattr(slurm_module, "ask", ask)
        return asked

    print_nodes(*(f"{node}|idle|quad|fast,ib" for node in FOUR))
    return print_nodes


def night(rng, number, sets, slow, sigma=0.03):
    """A session with a launch on each set of nodes; those with `slow` take 1.5 times as long."""
    level = 1e-3 * np.exp(rng.normal(0, sigma))
    cases = [
        case(method, {"time": time * (1.5 if slow in nodes else 1)}, hosts=list(nodes), run=run)
        for run, nodes in enumerate(sets)
        for method, time in zip(METHODS, level * noise(rng, 4, sigma / 3, 0), strict=True)
    ]
    # A night that was slower than all before has this tag, and is none that others are set beside.
    tags = {**session(0)["tags"], **({"slower": "confirmed"} if slow in sets[0] else {})}
    return session(number, tags=tags), cases


def accused(nights_store):
    named = suspects(nights_store, recent(nights_store, nights_store.sessions()[-1]))
    return [" or ".join(suspect.nodes) for suspect in named]


def test_ten_nights_name_the_slow_one_of_four_nodes(rng, slurm, tmp_path):
    nights_store = store(tmp_path / "store.db")
    for number in range(10):  # each on two of four nodes
        sets = choose([QUAD], [], nights_store)["lab:cpu"].sets
        nights_store.add([night(rng, number, sets, "n2")])
        pairs = usage(nights_store, "lab:cpu", {})
        assert max(pairs.values()) == 1 + number // 6  # all six before one returns
    assert Counter(node for p in pairs.elements() for node in p) == dict.fromkeys(FOUR, 5)
    assert accused(nights_store) == ["n2"]
    (suspect,) = suspects(nights_store, nights_store.sessions())
    assert suspect.ratio == pytest.approx(1.5, rel=0.1)
    assert suspect.where == "lab:cpu"


def serial(line):
    """A baseline is of the slowest rank alone: it hides no slow link."""
    baseline = case("serial", {"time": 1e-3}, hosts=line["hosts"][:1], run=line["run"])
    return baseline if line["method"] == "p2p" else None


def disturbed(line):
    """What takes the cores of one node again and again is that node's fault."""
    line["disturbed"] = 0.9 * ("n3" in line["hosts"])


def now_and_then(line):
    """What takes the cores of a few launches is nobody's fault."""
    if line["run"] in (2, 5):
        line |= {"disturbed": 0.9, "metrics": {"time": [9.0, "s", "lower"]}}


@pytest.mark.parametrize(
    ("slow", "change"),
    [("n3", lambda line: None), ("n3", serial), ("n3", disturbed), (None, now_and_then)],
)
def test_a_sweep_names_a_slow_node_in_one_run(rng, tmp_path, slow, change):
    """A change of a line of a launch, or a further one."""
    sets = sweep_of(FOUR, 2, {})
    assert len(sets) == 14
    line, cases = night(rng, 0, sets, slow)
    cases += filter(None, [change(each) for each in cases])
    assert accused(store(tmp_path / "store.db", [(line, cases)])) == [slow] * bool(slow)


def test_nodes_of_a_large_machine_are_chosen_at_once_the_least_used_first(tmp_path):
    nodes = [f"n{number:04}" for number in range(2000)]
    sets = sweep_of(nodes, 2, {tuple(nodes[:100]): 1})
    assert len(sets) <= LIMITS.sweep_sets
    swept = Counter(node for pair in sets for node in pair)
    assert sorted(swept) == nodes[100:166]  # three launches of each
    assert min(swept.values()) >= LIMITS.node_votes
    first = next_set(nodes, 1000, {})
    assert first == tuple(nodes[:1000])
    assert next_set(nodes, 1000, {first: 1}) == tuple(nodes[1000:])
    sets = {"lab:cpu": [first] * 50}  # longer than a variable of the environment may be
    request = Request(command=["true"], nodes=sets)
    assert command.watch(request, tmp_path, print) == (0, "")


def test_repeated_launches_ask_for_the_sets_in_turn(monkeypatch, tmp_path):
    request = Request(nodes={"lab:cpu": [("n1", "n2"), ("n3", "n4")]}, reruns=1)
    assert "--reruns=1" in command.command(request, SITES / "localhost.py", SITES)
    request.command = ["sh", "-c", "echo $BISECTION_NODES"]
    code, text = command.watch(request, tmp_path, print)
    assert code == 0
    monkeypatch.setenv("BISECTION_NODES", text.strip())
    for launch in ("a", "b"):
        asked = [nodelist("lab:cpu", launch) for _ in range(3)]
        assert asked == [["--nodelist=n1,n2"], ["--nodelist=n3,n4"], ["--nodelist=n1,n2"]]
    assert nodelist("lab:gpu", "a") == []


@pytest.mark.parametrize("hosts", [["h1.lab.org", "h2.lab.org"], ["h1", "h2"]])
def test_hosts_have_other_names_than_nodes_or_their_domain(slurm, tmp_path, hosts):
    slurm(*(f"n{number}|h{number}|idle|quad|ib" for number in range(1, 5)))
    night_before = (session(0), [case("p2p", {"time": 1.0}, hosts=hosts)])
    nights_store = store(tmp_path / "store.db", [night_before])
    assert choose([QUAD], [], nights_store)["lab:cpu"].sets == [("n3", "n4")]


def test_idle_nodes_of_the_jobs_own_queue(slurm):
    asked = slurm("n1|idle|quad|ib", "n2|alloc|quad|ib", "n3|idle|quad|ib", "n4|idle|quad|eth")
    where = {**QUAD, "access": ["--partition=quad", "--constraint=ib"]}
    for options in ([], ["-J", "exclusive", "-J", "mem=0"]):  # which name no nodes
        assert choose([where], options, None)["lab:cpu"] == ([("n1", "n3")], 2, 3)
    assert asked[0] == ("sinfo", "-h", "-N", "-p", "quad", "-o", "%N|%n|%t|%P|%f|%E")
    slurm(*(f"{line}|(null)" for line in ("n1|idle|batch*", "n1|idle|debug", "n2|idle|batch*")),
          "n3|idle|batch*|x")  # fmt: skip
    assert choose([{**QUAD, "access": []}], [], None)["lab:cpu"].sets == [("n1", "n2")]


@pytest.mark.parametrize(
    ("access", "arguments", "states"),
    [
        (["-p quad", "--constraint=ib|eth"], [], "iiii"),
        (["--partition=quad", "--reservation=night"], [], "iiii"),
        (["--partition=quad", "-w n[1-2]"], [], "iiii"),
        (["--partition=quad"], ["-J", "nodelist=n1,n2"], "iiii"),
        (["--partition=quad"], ["--job-option=-x n1"], "iiii"),
        (["--partition=quad"], [], "ia"),  # as many as a launch uses
        (["--partition=quad"], [], "iaaaaa"),
        (["--partition=quad"], [], ""),
    ],
)
def test_slurm_chooses(slurm, access, arguments, states):
    names = {"i": "idle", "a": "alloc"}
    slurm(*(f"n{i}|{names[state]}|quad|ib" for i, state in enumerate(states)))
    assert choose([{**QUAD, "access": access}], arguments, None) == {}


def part(name, nodes, queue="quad", scheduler="squeue"):
    where = {"access": [f"--partition={queue}"], "extras": {"nodes": nodes}}
    return {"name": name, "fullname": f"lab:{name}", "scheduler": scheduler, **where}


def test_a_network_is_judged_on_the_largest_launches_alone(slurm):
    parts = [part("cpu-1", 1), part("cpu-4", 4), part("cpu-2", 2), part("same", 3, "other")]
    assert [*largest(parts)] == [("lab:cpu-4", 4, 4, ["cpu-1", "cpu-2", "same"])]
    there = [part("a", 2, "x", "local"), part("b", 1, "x", "local"), part("c", 1, "y", "local")]
    assert [*largest(there)] == [("lab:a", 2, None, ["b"]), ("lab:c", 1, None, [])]


@pytest.mark.parametrize("partitions", [["lab:cpu-4", "lab:gpu-2"], []])
def test_the_left_out_partitions_are_none_of_reframes(partitions):
    request = Request("triage", "lab", partitions=partitions)
    line = command.command(request, SITES / "lab.py", SITES)
    asked = [argument for argument in line if "valid_systems" in argument]
    assert asked == ["valid_systems=lab:cpu-4,lab:gpu-2"] * bool(partitions)
