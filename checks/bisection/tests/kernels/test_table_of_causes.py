"""The table of causes, core/causes.csv: each row decides a launch of launches.txt or a note of
warnings.txt, which say how they are written."""

import json
import re
from pathlib import Path
from typing import NamedTuple

import pytest
from fake_kernel import layout_of
from results_made import entry, finished_job, report

from bisection.core.causes import CAUSES, FAILED, NOT_MEASURED, NOTE
from bisection.core.reasons import KINDS, MACHINE_FAULTS, OUTER_FAULTS
from bisection.core.reasons.base import clause
from bisection.core.reasons.launches import KernelDied
from bisection.kernels import launch_faults
from bisection.kernels.launch_faults import Ended
from bisection.report import exports
from bisection.report.report_data import Report
from bisection.runs.reframe_report import read
from bisection.schedulers import slurm as slurm_module

HERE = Path(__file__).parent
NODES = ["n1", "n2", "n3", "n4", "n5"]  # two ranks on each, one on the last
HEAD = re.compile(
    r"(?P<launcher>\w+), exit (?P<exit>\d+|-)(?: \((?P<first>\d+)\))?(?:, (?P<state>[A-Z_]+))?"
    r"(?P<begun>, begun)?(?:, on (?P<node>\w+))? -> (?P<verdict>FAIL|not measured) "
    r"(?P<kind>\w+)(?P<at>[^:]*): (?P<cause>.+)"
)


class Case(NamedTuple):
    """A launch, its output, and what a run says of it; of a warning, the node and the note."""

    head: str
    text: str


def cases_of(name):
    """The paragraphs of a file, each a head and indented output with empty lines."""
    cases = []
    for line in (HERE / name).read_text().splitlines():
        if line.startswith("#"):
            continue
        if line and not line.startswith("    "):
            cases.append([line])
        elif cases:
            cases[-1].append(line.removeprefix("    "))
    return [Case(head, "\n".join(lines).strip("\n") + "\n") for head, *lines in cases]


LAUNCHES, WARNINGS = cases_of("launches.txt"), cases_of("warnings.txt")


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """The folder of a launch that has begun and not ended. Slurm has forgotten all jobs."""
    folder = tmp_path_factory.mktemp("begun")
    layout = layout_of([{"host": host} for host in sorted(2 * NODES)[:-1]])
    (folder / "result.json").write_text(json.dumps({"status": "running", "layout": layout}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slurm_module, "job_record", lambda jobid: ({}, "scontrol: gone"))
        yield folder


def told(case, begun):
    """The exit code and the reason of a launch."""
    wanted = HEAD.fullmatch(case.head)
    folder = begun if wanted["begun"] else begun / "none"
    code = None if wanted["exit"] == "-" else int(wanted["exit"])
    hosts = [wanted["node"]] if wanted["node"] else NODES
    ended = Ended("md", str(folder), code, case.text, hosts=hosts, nodes=len(hosts))
    job = finished_job(wanted["state"] or "FAILED", wanted["launcher"])
    return launch_faults.of_launch(job, ended)


def noted(case, hosts=NODES):
    return [*launch_faults.notes_of(Ended("md", "", 0, f"a banner\n{case.text}"), hosts)]


@pytest.mark.parametrize("case", LAUNCHES, ids=lambda case: case.head)
def test_a_launch_has_its_verdict_cause_and_node(case, begun):
    wanted, (code, reason) = HEAD.fullmatch(case.head), told(case, begun)
    says = clause(reason)
    assert (reason.code, wanted["cause"] in says) == (wanted["kind"], True), says
    assert wanted["first"] in (None, str(code))
    at = dict(pair.split("=") for pair in wanted["at"].split())
    shown = {name: getattr(reason, name) for name in at}
    shown = {n: ",".join(v) if isinstance(v, tuple) else str(v or "-") for n, v in shown.items()}
    assert shown == at
    assert len(says) < 400
    record = {"kernel": "md", "exit_code": code, "hosts": NODES}
    how = {"fixture": True, "fail_phase": "sanity", "launch_record": record}
    run = read(report(entry("Launch", "fail", **how, reason=reason.dumps())))
    assert run.cases[0].verdict == wanted["verdict"]
    accused = re.findall(r"^(\S+) bisection:", exports.nodecheck(Report("", 0.0, run=run)), re.M)
    if reason.code in ("NODE_FAULT", "NODE_FAIL") and "host" in at:
        assert accused == at.get("hosts", at["host"].partition(".")[0]).split(",")
    if wanted["verdict"] != "FAIL" or reason.code in ("MPI_ERROR", "NETWORK_ERROR", "KERNEL_EXIT"):
        assert accused == []


@pytest.mark.parametrize("case", WARNINGS, ids=lambda case: case.head)
def test_what_a_library_warns_of_is_noted_where_the_launch_succeeds(case):
    node, _, says = case.head.partition(": ")
    (note,) = noted(case)
    assert clause(note).startswith(case.head)
    assert note.host == ("" if node == "a library" else node)
    if node == "a library":  # of a launch on one host it is that one's
        (alone,) = noted(case, ["n1"])
        assert clause(alone).startswith(f"n1: {says}")


@pytest.mark.parametrize("row", CAUSES, ids=lambda row: row.words.pattern)
def test_each_row_decides_a_launch(row, begun, monkeypatch):
    launches = [case for case in LAUNCHES if row.words.search(case.text)]
    warnings = [case for case in WARNINGS if row.words.search(case.text)]

    def outcome():
        return [told(case, begun) for case in launches], [noted(case) for case in warnings]

    by_the_whole_table = outcome()
    monkeypatch.setattr(launch_faults, "CAUSES", [other for other in CAUSES if other is not row])
    assert outcome() != by_the_whole_table


@pytest.mark.parametrize("row", CAUSES, ids=lambda row: row.words.pattern)
def test_a_row_can_be_told_and_its_kind_has_one_verdict(row):
    faults = {FAILED: MACHINE_FAULTS, NOT_MEASURED: OUTER_FAULTS}
    verdict = row.verdict.partition(",")[0]
    if verdict in faults:
        assert KINDS[row.kind] in faults.pop(verdict)
        assert KINDS[row.kind] not in next(iter(faults.values()))
    else:  # of a dead rank, its exit code says
        assert row.kind == KernelDied.code if verdict == "" else verdict == NOTE
    assert row.kind in KINDS
    assert row.source
    groups = dict.fromkeys(("host", "folder", "allowed", *row.words.groupindex), "x")
    for text in (row.cause, row.next):
        assert "{" not in text.format(**groups)
    assert row.exit == "" or int(row.exit)
    assert row.nodes in ("", "some")
    assert row.launcher in ("", "srun")
