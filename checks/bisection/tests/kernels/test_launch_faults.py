"""Causes of launches. Each row of the table of causes, core/causes.csv, decides a launch of
launches.txt or a note of warnings.txt, which say how they are written. Others are in the record of
a job, in what the watchdog prints, and in ReFrame's words."""

import json
import re
from pathlib import Path
from typing import NamedTuple

import pytest
from fake_kernel import layout_of
from results_made import entry, report
from results_made import finished_job as job

from bisection.core.causes import CAUSES, FAILED, NOT_MEASURED, NOTE
from bisection.core.reasons import KINDS, MACHINE_FAULTS, OUTER_FAULTS, launches, read_reason
from bisection.core.reasons.base import clause
from bisection.judge import decision
from bisection.kernels import launch_faults
from bisection.kernels.launch_faults import Ended
from bisection.report import exports
from bisection.report.report_data import Report
from bisection.runs.reframe_report import failure, read
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
    finished = job(wanted["state"] or "FAILED", wanted["launcher"])
    return launch_faults.of_launch(finished, ended)


def noted(case, hosts=NODES):
    return [*launch_faults.notes_of(Ended("md", "", 0, f"a banner\n{case.text}"), hosts)]


@pytest.mark.parametrize("case", LAUNCHES, ids=lambda case: case.head)
def test_a_launch_has_its_verdict_cause_and_node(case, begun):
    wanted, (code, reason) = HEAD.fullmatch(case.head), told(case, begun)
    says = clause(reason)
    assert (reason.code, wanted["cause"] in says) == (wanted["kind"], True), says
    assert (wanted["first"] in (None, str(code)), code is None) == (True, wanted["exit"] == "-")
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
    deaths = [case for case in LAUNCHES if row.words.search(case.text)]
    warnings = [case for case in WARNINGS if row.words.search(case.text)]

    def outcome():
        return [told(case, begun) for case in deaths], [noted(case) for case in warnings]

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
        assert row.kind == launches.KernelDied.code if verdict == "" else verdict == NOTE
    assert row.kind in KINDS
    assert row.source
    groups = dict.fromkeys(("host", "folder", "allowed", *row.words.groupindex), "x")
    for text in (row.cause, row.next):
        assert "{" not in text.format(**groups)
    assert row.exit == "" or int(row.exit)
    assert row.nodes in ("", "some")
    assert row.launcher in ("", "srun")


# ---- records of jobs, the watchdog, ReFrame ----

WRONG = """\
srun: error: node2: task 1: Exited with exit code 1
srun: error: node1: task 0: Terminated
"""
SEGV = WRONG.replace("Exited with exit code 1", "Segmentation fault")
ABORT = """\
MPI_ABORT was invoked on rank 3 in communicator MPI_COMM_WORLD
  Errorcode: 5
"""


def place_ranks(folder, hosts):
    """Writes the result of a launch whose ranks ran on these hosts."""
    layout = layout_of([{"host": host} for host in hosts])
    (folder / "result.json").write_text(json.dumps({"layout": layout}))
    return str(folder)


def is_of(reason, code, values):
    if code is None or reason is None:
        return reason is code
    return type(reason) is code and values.items() <= vars(reason).items()


NOT_KNOWN = ({}, "scontrol: slurm_load_jobs error: Invalid job id specified")
UNSTARTED = ({"JobState": "DEADLINE", "Reason": "DeadLine", "NodeList": ""}, "")
STARTED = ({"JobState": "DEADLINE", "NodeList": "n1"}, "")
RUNNING = ({"JobState": "RUNNING"}, "")
UNLISTED = "the scheduler did not list job 7, which is RUNNING"
LEFT = {"why": UNLISTED, "jobs": ("7",)}


@pytest.mark.parametrize(
    ("end", "record", "exit_code", "code", "values"),
    [
        (job("COMPLETED"), NOT_KNOWN, None, None, {}),
        (job("NODE_FAIL"), NOT_KNOWN, 0, launches.NodeFail, {"job": "7"}),
        (job("CANCELLED", cancelling=True), NOT_KNOWN, None, launches.Blocked, {"waited": 90}),
        (job("COMPLETED"), RUNNING, None, launches.Infrastructure, LEFT),
        (job("DEADLINE"), UNSTARTED, None, launches.Blocked, {"reason": "DeadLine"}),
        (job("DEADLINE"), STARTED, None, launches.Timeout, {"nodes": "n1"}),
        (job("PREEMPTED"), NOT_KNOWN, None, launches.Cancelled, {"state": "PREEMPTED"}),
    ],
)
def test_faults_in_the_record_of_a_job(monkeypatch, end, record, exit_code, code, values):
    monkeypatch.setattr(slurm_module, "job_record", lambda jobid: record)
    ended = Ended(exit_code=exit_code)
    assert is_of(launch_faults.of_job(end, ended), code, values)
    end.scheduler.registered_name = "local"
    assert launch_faults.of_job(end, ended) is None


@pytest.mark.parametrize(
    ("rows", "code", "host"),
    [
        ([["n1", "drained", "Prolog error"], ["n2", "idle", "none"]], launches.NodeFault, "n1"),
        ([["n1", "draining", "fan"], ["n2", "mixed", "prolog tested"]], launches.Cancelled, ""),
        ([], launches.Cancelled, ""),
    ],
)
def test_a_job_whose_prolog_failed_is_cancelled_and_its_node_drained(monkeypatch, rows, code, host):
    record = {"JobState": "CANCELLED", "NodeList": "n[1-2]"}
    monkeypatch.setattr(slurm_module, "job_record", lambda jobid: (record, ""))
    monkeypatch.setattr(slurm_module, "node_rows", lambda *_, names: rows if names else None)
    reason = launch_faults.of_job(job("CANCELLED"), Ended())
    assert (type(reason), reason.host) == (code, host)


HANG = """\
bisection-md: nothing finished for 90 s on host n2; its ranks:
  ranks 0-1,3 on n2: in MPI_Waitall, timing packed, round 2
    __sched_yield (libc.so.6+0xee017)
    PMPI_Waitall (libmpi.so.40+0x9681f)
    mpi_waitall_f08_ (bisection-md+0x1cb00)
    ? (bisection-md+0x38aec)
    bx_harness_run (bisection-md+0x22e39)
  rank 2 on n2: no answer: stopped, or still advancing
--------------------------------------------------------------------------
    stray (bisection-md+0x1)
bisection-md: nothing finished for 90 s on host n1; its ranks:
  ranks 4-5 on n1: in the kernel's own code, verifying packed
    __md_domain_MOD_exchange (bisection-md+0x3e8f5)
"""


@pytest.mark.parametrize("exit_code", [4, 137, None])  # some launchers report who was killed
def test_hang_is_reported_with_what_its_ranks_did(exit_code, tmp_path):
    folder = place_ranks(tmp_path, ["n2"] * 4 + ["n1"] * 2 + ["n3"] * 2)
    reason = launch_faults.of_hang(Ended("md", folder, exit_code, f"noise\n{HANG}"))
    assert clause(reason) == (
        "HANG: nothing finished for 1 min 30 s; no answer from rank 2 on n2; "
        "no answer from ranks 6,7 on n3; ranks 0-1,3 on n2 in MPI_Waitall, timing packed, round 2; "
        "ranks 4-5 on n1 in the kernel's own code, verifying packed; "
        "stack of rank 0: mpi_waitall_f08_ < bx_harness_run"
    )
    assert read_reason(reason.dumps()) == reason


def test_of_many_silent_hosts_some_are_named_and_the_others_counted(tmp_path):
    hosts = [f"m{number:03d}" for number in range(500) for _ in range(2)]
    reason = launch_faults.of_hang(Ended("md", place_ranks(tmp_path, hosts), 4, HANG))
    assert len(reason.silent) == 501  # nodecheck.txt has each
    assert "ranks 0,1 on m000" in clause(reason)
    assert "493 more hosts" in clause(reason)
    assert len(clause(reason)) < 1000


def test_hang_is_read_where_a_launcher_mixes_the_lines_of_hosts():
    first, second = HANG.partition("-----")[0].splitlines(), HANG.splitlines()[-3:]
    mixed = [line for pair in zip(second, first, strict=False) for line in pair] + first[3:]
    reason = launch_faults.of_hang(Ended(errors="\n".join(mixed), exit_code=4))
    assert reason.silent == (("2", "n2"),)
    assert [row[:2] for row in reason.waiting] == [("4-5", ("n1",)), ("0-1,3", ("n2",))]


def test_what_advanced_after_all_is_no_hang():
    assert launch_faults.of_hang(Ended(errors=HANG, exit_code=0)) is None


def ended(command, stderr="", how="error"):
    """ReFrame's words on a command of a scheduler that failed."""
    end = "failed with exit code 1" if how == "error" else "timed out after 60s"
    text = f"spawned process {how}: command '{command}' {end}:\n--- stdout ---\n--- stdout ---\n"
    return f"{text}--- stderr ---\n{stderr}\n--- stderr ---"


REFUSED = "sbatch: error: Batch job submission failed:"
POLICY = f"""sbatch: error: site policy: name your project with -A ACCOUNT, else no job can connect
{REFUSED} Unspecified error"""
NO_ID = "could not retrieve the job id of the submitted job"
NO_CONTACT = "Unable to contact slurm controller (connect failure)"


@pytest.mark.parametrize(
    ("text", "code", "values"),
    [
        ("sanity error: the job did not run to its end", None, {}),
        (ended("cp a b", "cp: no"), None, {}),
        (ended("sbatch x", f"{REFUSED} {NO_CONTACT}"), launches.Infrastructure,
         {"why": f"sbatch: Batch job submission failed: {NO_CONTACT}"}),
        (ended("sbatch x", how="timeout"), launches.Infrastructure,
         {"why": "sbatch did not answer in time"}),
        (ended("qsub x", "qsub: no queue"), launches.Blocked, {"refused": "qsub: no queue"}),
        (ended("sbatch x", POLICY), launches.Blocked,
         {"refused": "sbatch: site policy: name your project with -A ACCOUNT, else no job can "
          "connect; Batch job submission failed: Unspecified error"}),
        ("job error: [jobid=7] maximum pending time exceeded", launches.Blocked, {"waited": 90}),
        (f"job scheduler error: {NO_ID}", launches.Infrastructure, {"why": NO_ID}),
    ],
)  # fmt: skip
def test_faults_in_the_words_of_reframe(text, code, values):
    assert is_of(failure(text, 90.0), code, values)


def test_reframe_that_was_killed():
    log = "[==========] Running 2 check(s)\n[==========] Started on Sat\n"
    listing = "- transpose %method=p2p %launch.layout=mpi %launch.case=cnt40 /bb333c43 @a:b+c\n"
    verdict = read(None, log, lambda: listing)
    assert decision.of_run(verdict) == 3
    (case,) = verdict.cases
    assert (case.method, case.layout, case.case) == ("p2p", "mpi", "cnt40")
    assert str(case.reason) == "ReFrame ended without a report"


@pytest.mark.parametrize("begun", [True, False])
def test_a_message_that_open_mpi_lost_is_told(tmp_path, begun):
    if begun:
        place_ranks(tmp_path, ["node1"] * 2)
    words = "[n1:36] [[25337,0],0] ORTE_ERROR_LOG: Data unpack in file util/show_help.c at line 501"
    _, reason = launch_faults.of_launch(job("COMPLETED"), Ended("md", str(tmp_path), 15, words))
    assert type(reason) is (launches.KernelDied if begun else launches.NotStarted)
    assert reason.next == "rerun it: Open MPI lost its own message"


@pytest.mark.parametrize(
    ("exit_code", "words", "verified", "fault"),
    [
        (0, "a warning", True, None),
        (0, "", None, None),  # nor is a result there
        (1, "", False, None),
        (143, WRONG, False, None),  # srun ended ranks that were about to end
        (1, ABORT, False, None),
        (139, SEGV, True, launches.KernelDied),
    ],
)
def test_an_answer_is_what_the_result_says(tmp_path, exit_code, words, verified, fault):
    result = {"schema": "bisection-result", "version": 5, "kernel": "md", "status": "complete"}
    result |= {"verified": verified, "layout": layout_of([{"host": "node1"}])}
    if verified is not None:
        (tmp_path / "result.json").write_text(json.dumps(result))
    end = Ended("md", str(tmp_path), exit_code, words)
    code, reason = launch_faults.of_launch(job("COMPLETED"), end)
    assert (reason and type(reason)) == fault
    assert code in (0, 1, 139)
