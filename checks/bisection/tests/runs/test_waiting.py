"""A run whose jobs wait in Slurm's queue, whose controller does not answer, whose host is busy."""

import os
import re
import subprocess
import sys

import pytest

from bisection import schedulers
from bisection.core.commands import Answer
from bisection.core.reasons.base import clause
from bisection.core.thresholds import LIMITS
from bisection.runs import waiting
from bisection.schedulers import slurm as slurm_module

PAIR = "6|PENDING|quad|node[1-2]|{}|{}\n7|PENDING|quad|node[1-2]|N/A|Dependency\n"
RUNS = "5|{}|quad|node[1-2]|N/A|None\n" + PAIR.format("N/A", "Resources")
OTHER = "8|PENDING|quad|node[3-4]|N/A|Dependency\n"
SWEPT = [("node1", "node2"), ("node3", "node4")]


class Slurm:
    """Its answers, the commands that it got, the time, and what a run says that watches it."""

    def __init__(self, monkeypatch):
        self.now, self.code, self.text, self.asked, self.told = 0.0, 0, "", [], []
        monkeypatch.setattr(slurm_module, "ask", self.ask)
        monkeypatch.setattr(waiting.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(waiting.time, "sleep", self.sleep)
        self.scheduler = schedulers.of("squeue")
        self.watch = waiting.Watch(
            self.scheduler, "bisection-1", SWEPT, lambda why: self.told.append(clause(why))
        )

    def ask(self, *command):
        self.asked.append(command)
        return Answer(command[0], self.code, self.text, "connect failure" if self.code else "")

    def sleep(self, seconds):
        self.now += seconds

    def watched(self, seconds):
        for _ in range(seconds):
            self.now += 1
            self.watch.look()

    def updated(self):
        return [command[2:] for command in self.asked if command[:2] == ("scontrol", "update")]


@pytest.fixture
def slurm(monkeypatch):
    return Slurm(monkeypatch)


def test_it_says_once_why_and_again_when_the_reason_changes(slurm):
    slurm.watch.chosen = set()
    slurm.text = PAIR.format("1795345888", "Resources")
    slurm.watched(600)
    first = "waiting: job 6 in queue quad; Slurm's reason: Resources"
    assert slurm.told == [f"{first}; expected start 2026-11-22 11:11 UTC"]
    assert len(slurm.asked) <= 600 / waiting.PERIOD
    slurm.text = PAIR.format("N/A", "Priority")
    slurm.watched(60)
    slurm.text = PAIR.format("N/A", "Resources")
    slurm.watched(60)
    assert slurm.told[1:] == ["waiting: job 6 in queue quad; Slurm's reason: Priority"]


@pytest.mark.parametrize(
    "text",
    ["", PAIR.format("N/A", "Dependency"), *map(RUNS.format, ("RUNNING", "COMPLETING"))],
)
def test_it_says_nothing_while_a_job_runs(slurm, text):
    slurm.text = text
    slurm.watched(600)
    assert slurm.told == []
    assert slurm.updated() == []


def test_nodes_that_others_took_are_asked_for_no_more(slurm):
    """By no job of the run; Slurm 22.05 takes one job for an update."""
    slurm.text = PAIR.format("N/A", "Resources") + OTHER
    slurm.watched(int(LIMITS.nodes_taken))
    assert slurm.updated() == []
    slurm.watched(int(waiting.PERIOD))
    assert slurm.updated() == [("JobId=6", "ReqNodeList="), ("JobId=7", "ReqNodeList=")]
    assert slurm.told[1:] == ["requested nodes node1, node2 are busy: job 6, 7 may run on any node"]


def test_nodes_that_the_site_asks_for_stay(slurm):
    slurm.text = PAIR.replace("[1-2]", "[2-3]").format("N/A", "Resources")
    slurm.watched(600)
    assert slurm.updated() == []


@pytest.mark.parametrize(
    ("code", "then", "times"), [(1, 0, 1), (1, 1, 1), (waiting.NOT_INSTALLED, 1, 0)]
)
def test_a_controller_is_waited_for(slurm, code, then, times):
    """It comes back; it stays away; there is none."""

    def say(*values):
        slurm.told.append(values)
        slurm.code = then

    slurm.code = code
    assert waiting.silence(slurm.scheduler, say) == ("sinfo: connect failure" if then else "")
    assert slurm.told == [("sinfo: connect failure", LIMITS.controller_silent)] * times
    assert slurm.now < LIMITS.controller_silent + 5


# ---- a busy host ----

BUSY = "other processes use 1.5 of 2 cores"


@pytest.mark.parametrize(("more", "used"), [(1.0, 1), (0.02, None)])
def test_what_others_use(tmp_path, monkeypatch, more, used):
    """Of the first CPU that we may use."""
    cpu, added = min(os.sched_getaffinity(0)), round(more * os.sysconf("SC_CLK_TCK"))

    def proc(busy, **processes):
        line = f"cpu{cpu} {busy} 0 0 1000 50 0 0 0 0 0\n"
        (tmp_path / "stat").write_text(f"cpu  9 9 9 9 9 9 9 9 9 9\n{line}cpu9999 {busy} 0 0 0 0\n")
        for number, (name, ticks) in enumerate(processes.items()):
            (tmp_path / str(number)).mkdir(exist_ok=True)
            fields = " ".join(["S", *"0" * 10, str(ticks), "0", *"0" * 30])
            (tmp_path / str(number) / "stat").write_text(f"{number} ({name} (x) y) {fields}\n")

    proc(1000, cc1=100, idle=500)
    monkeypatch.setattr(waiting, "PROC", tmp_path)
    monkeypatch.setattr(waiting.time, "monotonic", iter([0.0, 1.0]).__next__)
    later = {"cc1": 100 + added, "idle": 500}
    monkeypatch.setattr(waiting.time, "sleep", lambda _: proc(1000 + added, **later))
    said = re.search(r"use ([\d.]+) of 1 cores \((.*) ([\d.]+)\)", waiting.busy())
    assert (said and (float(said[1]), said[2], float(said[3]))) == (
        used and (pytest.approx(used), "cc1 (x) y", pytest.approx(used))
    )


@pytest.mark.long
def test_a_loop_of_this_machine_is_seen():
    loop = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        said = (waiting.busy(0.5) for _ in range(20))
        used = [float(re.search(r"use ([\d.]+) of", text)[1]) for text in said if text]
    finally:
        loop.kill()
        loop.wait()
    assert used


@pytest.mark.parametrize(
    ("looks", "budget", "still"),
    [
        ([BUSY], 0, BUSY),
        ([""], 100, ""),
        ([BUSY, BUSY, "", "", ""], 100, ""),
        ([BUSY] * 99, 100, BUSY),
        ([BUSY, "", *["", BUSY] * 50], 100, BUSY),
    ],
)
def test_a_host_is_waited_for(slurm, monkeypatch, looks, budget, still):
    monkeypatch.setattr(waiting, "busy", iter(looks).__next__)
    assert waiting.until_quiet(budget, lambda *words: slurm.told.append(words)) == still
    assert len(slurm.told) == bool(budget and looks[0])
    assert slurm.now <= budget
