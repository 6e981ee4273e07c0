"""The virtual cluster: its description, and one that is built, disturbed and taken down."""

import dataclasses
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bisection.cli import parser
from workshop.cli import WORKSHOP, main
from workshop.testbed import Blueprint, Cluster, Node, Partition, TestbedError, unavailable
from workshop.testbed.cluster import topology
from workshop.testbed.hosts import Process, cpuset_root, until

PAIR = Blueprint((Node(), Node(features=("fast",))), (Partition("duo", 1, 2),))


@pytest.fixture
def cluster(tmp_path_factory):
    if why := unavailable():
        pytest.skip(why)
    built = Cluster(tmp_path_factory.mktemp("bed"))
    yield built
    built.down()


def test_nodes_and_partitions_are_read_from_short_words():
    assert Node.parsed("2") == [Node(1)] * 2
    assert Node.parsed("1:2:1:big,fast") == [Node(2, 1, ("big", "fast"))]
    assert Node.parsed("1:1:0::2") == [Node(gpus=2)]
    assert Node.parsed("c[08-09]:1x2") == [Node(threads=2, name=name) for name in ("c08", "c09")]
    assert Partition.parsed("duo=2:30") == Partition("duo", 1, 2, minutes=30)
    assert Partition.parsed("q=2-4:whole") == Partition("q", 2, 4, whole=True)
    assert Partition.parsed("4.fat-long=2") == Partition("4.fat-long", 1, 2)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        *((Node, text) for text in ["", "0", "c[1", "2:0", "1:1x0", "1:1:1", "1:2:2", "1:2:0:"]),
        *((Partition, f"d{text}") for text in ["", "=", "=0", "=3-2", "=2:half", "=0-2"]),
    ],
)
def test_what_cannot_be_is_rejected_by_its_words(kind, text):
    with pytest.raises(ValueError, match=re.escape(repr(text))):
        kind.parsed(text)


def test_what_the_machine_cannot_hold_is_named():
    blueprint = Blueprint((Node(2, threads=2),), (Partition("duo", 1, 2), Partition("duo", 1, 1)))
    assert blueprint.faults(cpus=2) == [
        "partition duo: node 2 of 1 nodes",
        "partition duo: twice",
        "a node of 4 hardware threads: this machine has 2 CPUs",
    ]
    assert not blueprint.faults(4)[2:]
    odd = dataclasses.replace(PAIR, nodes=(Node(name="head"), Node()), policies=("/my.lua",))
    assert [fault.partition(":")[0] for fault in odd.faults(4)] == ["node head", "policy /my.lua"]
    lone = dataclasses.replace(PAIR, nodes=(*PAIR.nodes, Node(name="lone")))
    assert lone.faults(4) == ["node lone: in no partition"]
    assert dataclasses.replace(lone, options=("PartitionName=q Nodes=ALL",)).faults(4) == []


def test_a_folder_with_a_blank_is_refused_before_anything_is_built(tmp_path):
    with pytest.raises(TestbedError, match="my bed': a blank, which the configuration files of Sl"):
        Cluster(tmp_path / "my bed").up(PAIR)
    assert list(tmp_path.iterdir()) == []


def test_a_line_of_slurm_conf_takes_the_place_of_ours(tmp_path):
    lines = ("MpiDefault=none", "PartitionName=vip Nodes=a1", "PartitionName=two Nodes=node2")
    blueprint = Blueprint((Node(name="a1"), Node(threads=2)), PAIR.partitions, options=lines)
    conf = blueprint.slurm_conf(tmp_path, 1000).splitlines()
    assert [line for line in conf if line.startswith("MpiDefault")] == ["MpiDefault=none"]
    assert conf[-2:] == [*lines[1:]]
    assert any(line.startswith("PartitionName=duo Nodes=a1,node2 ") for line in conf)


def test_nodes_share_cpus_only_where_they_must():
    blueprint = Blueprint((Node(2), Node(1), Node(1), Node(1)), ())
    seats = [blueprint.cpus_of(number, [4, 5, 6, 7]) for number in range(1, 5)]
    assert seats == [[4, 5], [6], [7], [4]]


def test_slurmd_counts_a_nodes_own_cores_first():
    """It takes cores in ascending order, and none with a number that is not below their count."""
    for threads, cpus in ((1, [0]), (1, [1]), (1, [0, 3]), (1, [5]), (2, [2, 3]), (2, [1, 2])):
        text = topology(cpus, threads)
        indexes = [int(index) for index in text.rpartition("=")[2].rstrip(")").split(",")]
        assert indexes == sorted(indexes)
        assert indexes[: len(cpus)] == cpus
        assert cpus[-1] < len(indexes)
        assert f"core:{len(indexes) // threads} pu:{threads}(" in text


def test_a_long_folder_is_rejected():
    with pytest.raises(TestbedError, match=r"xx: its path is too long .*, by 1 character$"):
        Cluster(Path("/" + "x" * 71)).up(PAIR)


@pytest.mark.testbed
def test_a_cluster_runs_jobs_loses_a_node_and_leaves_nothing(cluster):
    cluster.up(PAIR)
    ran = cluster.output(
        "srun", "-N2", "--mpi=none", "--cpu-bind=cores", "sh", "-c", "echo $(hostname) $(nproc)"
    )
    assert sorted(ran.splitlines()) == ["node1 1", "node2 1"]
    assert "fast" in cluster.output("sinfo", "-h", "-n", "node2", "-o", "%f")

    # Another process finds it by its folder.
    again = Cluster(cluster.folder)
    assert again.running
    assert again.blueprint == PAIR

    again.shape("node2", "1mbit")
    again.shape("node2", None)
    again.lose("node2", 1)
    again.lose("node2", 0)
    code = "import socket, time; t = time.time()\n"
    code += "socket.create_connection(('node2', 6818), timeout=5); print(time.time() - t)"
    reach = again.command([sys.executable, "-c", code])
    again.delay("node2", 0.2)  # in place of another delay
    again.delay("node2", 0.4)
    assert 0.8 < float(subprocess.run(reach, capture_output=True).stdout) < 4  # there and back
    again.delay("node2", 0)
    again.cut("node2")
    assert subprocess.run(reach, capture_output=True).returncode != 0
    again.mend("node2")
    assert float(subprocess.run(reach, capture_output=True).stdout) < 0.4

    running = again.processes("node2")
    again.kill_node("node2")
    assert not [process for process in running if process.alive]
    with pytest.raises(TestbedError, match="node2 is dead"):
        again.command(["true"], "node2")
    again.start_node("node2")
    again.wait_for_nodes(states=("idle", "idle*"))

    again.pause("slurmctld")
    again.resume("slurmctld")
    everything = [process for name in again.hosts for process in again.processes(name)]
    again.down()
    assert not [process for process in everything if process.alive]
    assert not list(cpuset_root().glob(f"{again.prefix}*"))
    assert not again.running
    with pytest.raises(TestbedError, match="no cluster is up"):
        again.command(["true"])


@pytest.mark.testbed
def test_what_a_crash_left_is_removed_before_the_next_cluster(cluster):
    cluster.up(PAIR)
    first = dataclasses.replace(cluster.hosts["node1"])
    cluster.hosts["head"].send(signal.SIGKILL)  # and nobody calls down()
    assert any(not cluster.running for _ in until(5))
    later = Cluster(cluster.folder)
    later.up(PAIR)
    assert not first.alive
    assert later.running


@pytest.mark.parametrize("lifetime", [True, False], ids=["lifetime", "crash"])
@pytest.mark.testbed
def test_nodes_that_share_memory_leave_no_slurmd_behind(lifetime, cluster):
    cluster.up(dataclasses.replace(PAIR, shared_memory=True))
    first, running = cluster.hosts["node1"], cluster.processes("node1")
    if lifetime:
        (cluster.folder / "cluster.json").unlink()  # as its lifetime does, this ends the host
    else:
        first.send(signal.SIGKILL)
    assert any(not first.alive for _ in until(60))
    if not lifetime:
        cluster.down()
    assert len(running) > 1
    assert any(not [p for p in running if p.alive] for _ in until(60))


def test_a_process_is_known_by_its_start_too():
    own = Process.of(os.getpid())
    assert own.alive
    assert not Process(own.pid, own.start - 1).alive
    assert Process.of(2**22 + 1) is None


@pytest.mark.parametrize(
    "words", [["up", "--node", "0"], ["up", "--partition", "x"], ["shape"], ["kill"], ["nonsense"]]
)
def test_the_command_line_rejects_what_it_does_not_know(words, tmp_path):
    with pytest.raises(SystemExit, match="2"):
        main(["cluster", *words, str(tmp_path)])


def test_a_delay_is_a_time_of_at_most_a_second(capsys):
    parse = parser("cluster", WORKSHOP).parse_args
    words = ["cluster", "delay", "bed", "node1", "--"]
    for text, seconds in {"2ms": 2e-3, "500us": 5e-4, "0.1s": 0.1, "0": 0}.items():
        assert parse([*words, text]).seconds == pytest.approx(seconds)
    for text in ("soon", "2h", "1.1s", "-1ms", "ms"):
        with pytest.raises(SystemExit, match="2"):
            parse([*words, text])
        assert f"{text!r} is not a time from 0 to 1s, such as 2ms" in capsys.readouterr().err
