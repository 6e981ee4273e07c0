"""The command that a site has called for bad nodes."""

import json
import sys
import time

import pytest

from bisection import cli
from bisection.commands import run
from bisection.core.reasons.launches import Blocked, CoreShared, Misplaced
from bisection.core.reasons.machines import BusyCores
from bisection.core.reasons.performance import SlowNode
from bisection.core.thresholds import LIMITS
from bisection.core.verdicts import Verdict
from bisection.night.actions import FILE, Action, Most, act, note, read
from bisection.tests.reports import case, comparison, failure, only, ran

HOOK = """#!/bin/sh
env | grep ^BISECTION_ | sort >>{out}/called
cat >>{out}/stdin
"""
WHY = "bisection: 8 jobs on it took 43% longer than the others, in lab:cpu"


@pytest.fixture
def called(tmp_path):
    """called(*nodes, most=..., of=..., command=...): the lines after a run that accuses nodes."""
    hook = tmp_path / "hook"
    hook.write_text(HOOK.format(out=tmp_path))
    hook.chmod(0o755)

    def after(*names, most="2,5%", of=100, command=str(hook), **fields):
        suspects = [SlowNode(nodes=(name,), ratio=1.43, jobs=8, where="lab:cpu") for name in names]
        compared = comparison([], suspects=suspects)
        report = only(comparison=compared, folder=tmp_path, **{"run": ran(), **fields})
        return list(act(report, command, most and Most.parsed(most), lambda: of, tmp_path))

    return after


def test_the_command_gets_the_node_and_why(called, tmp_path):
    (line,) = called("cn1")
    assert line == f"on suspect: {tmp_path}/hook for cn1: exit 0; {WHY}"
    known = dict(row.split("=", 1) for row in (tmp_path / "called").read_text().splitlines())
    values = json.loads((tmp_path / "stdin").read_text())
    evidence = [{"cause": "SLOW_NODE", "why": WHY.removeprefix("bisection: ")}]
    assert values.pop("evidence") == evidence
    assert values == {name: known[f"BISECTION_{name.upper()}"] for name in values}
    assert (values["node"], values["cause"], values["why"]) == ("cn1", "SLOW_NODE", WHY)
    assert values["report"] == str(tmp_path / "report.html")
    (kept,) = read(tmp_path / FILE)
    assert (kept.node, kept.causes, kept.code) == ("cn1", ["SLOW_NODE"], 0)


def test_by_default_it_is_only_said(called, tmp_path):
    (line,) = called("cn1", most=None)
    assert line == f"on suspect: not run for cn1, without --act: {tmp_path}/hook; {WHY}"
    assert not (tmp_path / "called").exists()
    assert read(tmp_path / FILE) == []


def test_never_twice_for_one_cause_until_the_node_was_right(called, tmp_path):
    assert len(called("cn1")) == 1
    (again,) = called("cn1")
    assert again.startswith("on suspect: not run for cn1: it was on 20")
    assert again.endswith(f"UTC; {WHY}")
    busy = BusyCores(host="cn1", lost=0.5, median=0.01, launches=3, of=3)
    assert "exit 0" in called("cn1", run=ran(slow_nodes=[busy]))[0]
    assert "it was on" in called("cn1", run=ran(slow_nodes=[busy]))[0]
    bad = failure(hosts=["cn1.lab"])
    for verdict in (ran(bad), ran(case(hosts=["cn2"])), ran(case(hosts=["cn1.lab"]), bad)):
        assert called(run=verdict, of_run=True) == []
        assert "it was on" in called("cn1")[0]
    assert called(run=ran(case(hosts=["cn1.lab"])), of_run=True) == []
    assert [action.command for action in read(tmp_path / FILE)][-1] == ""
    assert len(called("cn1")) == 1


@pytest.mark.parametrize(
    ("most", "nodes", "count"),
    [("2", 0, 2), ("2,5%", 100, 2), ("2,5%", 20, 1), ("2,5%", 3, 1), ("1", 100, 1), ("9", 4, 4)],
)
def test_no_more_nodes_a_day_than_allowed(called, tmp_path, most, nodes, count):
    note(tmp_path, Action(time.time() - 2 * 86400, "cn9", ["SLOW_NODE"], command="hook", code=0))
    for number in range(1, 6):
        (line,) = called(f"cn{number}", most=most, of=nodes)
        assert ("exit 0" in line) == (number <= count)
        assert (f"--act allows {count} node" in line) == (number > count)


def test_many_bad_nodes_share_a_cause(called, tmp_path):
    (line,) = called("cn1", "cn2", "cn3")
    assert line == (
        "on suspect: not run: 3 nodes are accused, 2 nodes a day may be acted on; look for a cause "
        "that they share: cn1, cn2, cn3"
    )
    assert read(tmp_path / FILE) == []


def test_a_call_that_failed_is_made_again(called, tmp_path):
    assert "exit 1" in called("cn1", command="false")[0]
    assert "exit 0" in called("cn1")[0]


def test_wrong_places_are_no_fault_of_a_node(called):
    wrong = failure(reason=Misplaced(seats=(CoreShared(host="cn1"),)), hosts=["cn1"])
    assert called(run=ran(wrong)) == []


@pytest.mark.parametrize(
    ("command", "end", "code"),
    [
        ("false", "exit 1", 1),
        ("echo no such node >&2; exit 3", "exit 3, no such node", 3),
        ("/no/such/command", "exit 127, sh: ", 127),
        ("sleep 20 & echo sent", "exit 0, sent", 0),
        ("sleep 600", "no end after 0.3 s: it was stopped", None),
        ("sleep 600 & wait", "no end after 0.3 s: it was stopped", None),
    ],
)
def test_a_command_that_fails_or_hangs_is_told(called, tmp_path, monkeypatch, command, end, code):
    monkeypatch.setattr(LIMITS, "action", 0.3)
    (line,) = called("cn1", command=command)
    assert line.startswith(f"on suspect: {command} for cn1: {end}")
    assert line.endswith(f"; {WHY}")
    assert [action.code for action in read(tmp_path / FILE)] == [code]


def test_what_the_scheduler_has_taken_away_is_left_to_it(called):
    reason = Blocked(refused="not available", down=[["cn5", "broken"]])
    assert called(run=ran(failure(Verdict.NOT_MEASURED, reason))) == []


def test_a_file_that_a_full_disk_has_cut_is_read(tmp_path):
    note(tmp_path, Action(1.0, "cn1", ["SLOW_NODE"], command="hook"))
    with open(tmp_path / FILE, "a") as file:
        file.write('{"at": 2.0, "no\n[1]\n')
    assert [action.node for action in read(tmp_path / FILE)] == ["cn1"]


@pytest.mark.parametrize(
    ("words", "most"), [([], None), (["--act"], Most(2, 5.0)), (["--act", "3"], Most(3, 100.0))]
)
def test_the_command_line_says_for_how_many(monkeypatch, words, most):
    orders = []
    monkeypatch.setattr(run, "run_night", lambda order: (orders.append(order), sys.exit(7)))
    with pytest.raises(SystemExit):
        cli.main(["run", "--on-suspect", "hook", *words])
    assert (orders[0].on_suspect, orders[0].acts) == ("hook", most)


@pytest.mark.parametrize("text", ["0", "x", "2,0%", "2,101%", "2,5"])
def test_a_limit_that_is_none_is_usage(capsys, text):
    with pytest.raises(SystemExit) as ended:
        cli.main(["run", "--act", text])
    assert ended.value.code == 2
    assert f"'{text}' is not NODES[,PERCENT%]" in capsys.readouterr().err
