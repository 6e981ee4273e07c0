"""Launches on simulated machines without ReFrame: which machines, and which are made again."""

import shutil

import pytest

from bisection.core.verdicts import BisectionError
from papers import observables
from papers.launches import WORK, Wanted, placed, work
from workshop.commands.findings import simulated
from workshop.papers import simulation
from workshop.papers.simulation import names


def test_changes_are_of_the_machines_before_them():
    assert simulation.changes(["merlin stella gap=0 fork=1e-6", "merlin latency=1"]) == {
        "merlin": "gap=0 fork=1e-6 latency=1",
        "stella": "gap=0 fork=1e-6",
    }
    assert simulation.changes(["gap=0"]).keys() == names()


@pytest.mark.parametrize("text", ["", "merlin", "cray gap=0"])
def test_changes_of_nothing_are_rejected(text):
    with pytest.raises(BisectionError, match="machines: hector-xt4"):
        simulation.changes([text])


IMITATION = """
import json, sys
words = sys.argv[1:]
number = lambda name: int(words[words.index(name) + 1])
at = words.index("--case") - 1
result = {
    "verified": True,
    "command": words[at:],
    "build": {"sources": open(words[at]).read().partition(":")[2]},
    "simulated": {"hollow": True} | ({"changed": "gap=0"} if "merlin gap=0" in words else {}),
    "layout": {"ranks": number("-n"), "threads": 1},
}
open(words[-1], "w").write(json.dumps(result))
"""


def test_results_of_the_same_kernels_are_kept(tmp_path, monkeypatch):
    launcher, program = tmp_path / "launch.py", tmp_path / "md" / "bisection-md"
    launcher.write_text(IMITATION)
    program.parent.mkdir()
    monkeypatch.setattr(simulation, "LAUNCHER", launcher)
    simulator = tmp_path / "smpi"
    shutil.copytree(simulation.MACHINES.parent, simulator)
    monkeypatch.setattr(simulation, "MACHINES", simulator / "machines.csv")
    places = [("merlin", "md", "test20", "mpi", cores) for cores in (8, 16)]
    wanted = {place: Wanted({"dlpoly3"}, {"time"}) for place in places}

    def run(changed=None):
        plans = simulation.plans(tmp_path, wanted, changed or {}, tmp_path / "r")
        due = [plan for plan in plans if not simulation.is_kept(plan)]
        failures = []
        return len(simulation.simulate(due, failures.append)), failures

    program.write_text("bisection-sources:" + 64 * "a")
    assert run() == (2, [])
    assert run() == (0, [])
    wanted[places[1]].methods.add("packed")
    assert run() == (1, [])
    result = tmp_path / "r" / "merlin-md-test20-mpi-8.json"
    result.with_suffix(".unfinished").write_text("{")  # a run that was ended
    assert run() == (0, [])
    wanted[places[0]].methods.add("packed")
    launcher.write_text(IMITATION + "sys.exit('wrong')\n")
    count, failures = run()
    assert (count, len(failures), result.exists()) == (0, 1, False)
    launcher.write_text(IMITATION)
    assert run() == (1, [])
    program.write_text("bisection-sources:" + 64 * "b")
    assert run() == (2, [])
    (simulator / "exchange.c").write_text("")
    assert run() == (2, [])
    with (simulator / "machines.csv").open("a") as table:
        table.write("\n")
    assert run() == (2, [])
    assert run() == (0, [])
    assert run({"merlin": "gap=0"}) == (2, [])
    assert run() == (2, [])  # not those of the changed machine


@pytest.mark.parametrize(
    ("layout", "cores", "node", "wanted"),
    [
        ("mpi", 12, 24, (12, 12, 1)),
        ("mpi", 45, 4, (45, 4, 1)),
        ("node", 64, 8, (8, 1, 8)),
        ("node2", 64, 8, (16, 2, 4)),
    ],
)
def test_ranks_fill_the_nodes(layout, cores, node, wanted):
    assert placed(layout, cores, node) == wanted


def test_only_the_sizes_that_are_needed_are_swept():
    words = work("patterns", "default", Wanted({"alltoall"}, {"time_1KiB", "time_256B"}))
    assert words[-4:] == ["--smallest", "256", "--largest", "1024"]
    assert work("md", "test20", Wanted({"dlpoly3"}, {"time"})) == WORK["md"].split()


def test_findings_need_launches_with_the_metrics_of_their_parts():
    for finding in observables.findings():
        if finding.change:
            machines = {launch[0] for launch in observables.needed([finding])}
            assert simulation.changes([finding.change]).keys() & machines, finding
            assert finding.lacking, finding
    wanted = observables.needed(observables.findings())
    place = ("merlin", "md", "test20", "node", 64)
    assert wanted[place].methods == {"dlpoly3"}
    assert {"time", "bytes", "messages"} <= wanted[place].metrics


def test_a_value_is_fitted_to_one_finding_of_its_machine():
    known = {finding.id: finding for finding in observables.findings()}
    for row in simulation.rows():
        assert (row["origin"] == "fitted") == bool(row["fits"]), row
        if row["fits"]:
            machines = {launch[0] for launch in observables.needed([known[row["fits"]]])}
            assert {*row["machines"].split()} & machines, row


def test_a_launch_has_the_methods_of_all_findings(tmp_path, monkeypatch):
    """Its result replaces that of a run with all; on a changed machine it has what is needed."""
    planned = []
    monkeypatch.setattr(simulation, "build", lambda: tmp_path)
    monkeypatch.setattr(simulation, "plans", lambda *arguments: planned.append(arguments[1]) or [])
    v01, v05 = (row for row in observables.findings() if row.id in ("V01", "V05"))
    simulated([v01], {}, tmp_path)
    simulated([v01], {"hector-xt4": "gap=0"}, tmp_path)
    simulated([v01], {"merlin": "gap=0"}, tmp_path)
    launch = ("hector-xt4", "npar", "bench1", "mpi", 32)
    whole, changed, other = planned
    methods = [observables.needed([row])[launch].methods for row in (v01, v05)]
    assert whole.keys() == changed.keys() == observables.needed([v01]).keys()
    assert whole[launch].methods > methods[0] | methods[1]
    assert changed[launch].methods == methods[0]
    assert not other
