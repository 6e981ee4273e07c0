"""The causes of launches, in the words of real launchers: Open MPI 4, MPICH 4, Slurm 22.05."""

import json

import pytest
from fake_kernel import layout_of
from results_made import finished_job as job

from bisection.core.reasons import launches, read_reason
from bisection.core.reasons.base import clause
from bisection.judge import decision
from bisection.kernels import launch_faults
from bisection.kernels.launch_faults import Ended
from bisection.runs.reframe_report import failure, read
from bisection.schedulers import slurm as slurm_module

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


FAILED = "sbatch: error: Batch job submission failed:"
POLICY = f"""sbatch: error: site policy: name your project with -A ACCOUNT, else no job can connect
{FAILED} Unspecified error"""
NO_ID = "could not retrieve the job id of the submitted job"
NO_CONTACT = "Unable to contact slurm controller (connect failure)"


@pytest.mark.parametrize(
    ("text", "code", "values"),
    [
        ("sanity error: the job did not run to its end", None, {}),
        (ended("cp a b", "cp: no"), None, {}),
        (ended("sbatch x", f"{FAILED} {NO_CONTACT}"), launches.Infrastructure,
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
