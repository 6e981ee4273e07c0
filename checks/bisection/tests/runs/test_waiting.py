"""A run whose jobs wait in Slurm's queue, or whose controller does not answer."""

import pytest

from bisection.core import slurm as core_slurm
from bisection.core.commands import Answer
from bisection.core.reasons import clause
from bisection.core.thresholds import LIMITS
from bisection.runs import queue

PAIR = "6|PENDING|quad|node[1-2]|{}|{}\n7|PENDING|quad|node[1-2]|N/A|Dependency\n"
OTHER = "8|PENDING|quad|node[3-4]|N/A|Dependency\n"
SWEPT = [("node1", "node2"), ("node3", "node4")]


class Slurm:
    """Its answers, the commands that it got, and the time."""

    def __init__(self, monkeypatch):
        self.now, self.code, self.text, self.asked = 0.0, 0, "", []
        monkeypatch.setattr(queue, "ask", self.ask)
        monkeypatch.setattr(core_slurm, "ask", self.ask)
        monkeypatch.setattr(queue.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(queue.time, "sleep", self.sleep)

    def ask(self, *command):
        self.asked.append(command)
        return Answer(command[0], self.code, self.text, "connect failure" if self.code else "")

    def sleep(self, seconds):
        self.now += seconds

    def watched(self, watch, seconds):
        for _ in range(seconds):
            self.now += 1
            watch.look()


@pytest.fixture
def slurm(monkeypatch):
    return Slurm(monkeypatch)


@pytest.fixture
def said():
    return []


@pytest.fixture
def watch(slurm, said):
    return queue.Watch("bisection-1", SWEPT, lambda reason: said.append(clause(reason)))


def updated(slurm):
    return [command[2:] for command in slurm.asked if command[:2] == ("scontrol", "update")]


def test_it_says_once_why_and_again_when_the_reason_changes(slurm, watch, said):
    watch.chosen = set()
    slurm.text = PAIR.format("1795345888", "Resources")
    slurm.watched(watch, 600)
    first = "waiting: job 6 in queue quad; Slurm's reason: Resources"
    assert said == [f"{first}; expected start 2026-11-22 11:11 UTC"]
    assert len(slurm.asked) <= 600 / queue.PERIOD
    slurm.text = PAIR.format("N/A", "Priority")
    slurm.watched(watch, 60)
    slurm.text = PAIR.format("N/A", "Resources")
    slurm.watched(watch, 60)
    assert said[1:] == ["waiting: job 6 in queue quad; Slurm's reason: Priority"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "5|RUNNING|quad|node[1-2]|N/A|None\n" + PAIR.format("N/A", "Resources"),
        "5|COMPLETING|quad|node[1-2]|N/A|None\n" + PAIR.format("N/A", "Resources"),
        PAIR.format("N/A", "Dependency"),
    ],
)
def test_it_says_nothing_while_a_job_runs(slurm, watch, said, text):
    slurm.text = text
    slurm.watched(watch, 600)
    assert said == []
    assert updated(slurm) == []


def test_nodes_that_others_took_are_asked_for_no_more(slurm, watch, said):
    """By no job of the run; Slurm 22.05 takes one job for an update."""
    slurm.text = PAIR.format("N/A", "Resources") + OTHER
    slurm.watched(watch, int(LIMITS.nodes_taken))
    assert updated(slurm) == []
    slurm.watched(watch, int(queue.PERIOD))
    assert updated(slurm) == [("JobId=6", "ReqNodeList="), ("JobId=7", "ReqNodeList=")]
    assert said[1:] == ["node1, node2 are busy: node request dropped for 2 jobs"]


def test_nodes_that_the_site_asks_for_stay(slurm, watch):
    slurm.text = PAIR.replace("[1-2]", "[2-3]").format("N/A", "Resources")
    slurm.watched(watch, 600)
    assert updated(slurm) == []


@pytest.mark.parametrize(
    ("code", "then", "error", "times"),
    [
        (1, 0, "", 1),
        (1, 1, "sinfo: connect failure", 1),
        (queue.NOT_INSTALLED, 1, "sinfo: connect failure", 0),
    ],
)
def test_a_controller_is_waited_for(slurm, code, then, error, times):
    """It comes back; it stays away; there is none."""
    printed = []

    def say(*values):
        printed.append(values)
        slurm.code = then

    slurm.code = code
    assert queue.silence(say) == error
    assert printed == [("sinfo: connect failure", LIMITS.controller_silent)] * times
    assert slurm.now < LIMITS.controller_silent + 5
