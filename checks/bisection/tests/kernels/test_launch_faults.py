"""The causes of launches, in the words of real launchers: Open MPI 4, MPICH 4, Slurm 22.05."""

import json

import pytest
from fake_kernel import layout_of
from results_made import finished_job as job

from bisection.core.reasons import read_reason
from bisection.core.reasons.base import clause
from bisection.core.reasons.launches import (
    Blocked,
    Cancelled,
    Infrastructure,
    KernelDied,
    Misplaced,
    MpiAbort,
    NodeFail,
    NodeFault,
    NotEnded,
    NotStarted,
    Timeout,
)
from bisection.judge import decision
from bisection.kernels import launch_faults
from bisection.kernels.launch_faults import Ended, Printed
from bisection.runs.reframe_report import failure, read
from bisection.schedulers import slurm as slurm_module

LAST = "bx_verification_check: 'energy' in 'eV': too many checks in one method"
OPEN_MPI = f"""[node7:14669] [[2193,0],0] ORTE_ERROR_LOG: Out of resource in file help.c at 507
{LAST}
--------------------------------------------------------------------------
MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD
with errorcode 70.

NOTE: invoking MPI_ABORT causes Open MPI to kill all MPI processes.
--------------------------------------------------------------------------
"""
OPEN_MPI_5 = """MPI_ABORT was invoked on rank 3 in communicator MPI_COMM_WORLD
  Proc: [[21939,1],3]
  Errorcode: 5
"""
MPICH = (
    "Abort(5) on node 1 (rank 1 in comm 0): application called MPI_Abort(MPI_COMM_WORLD, 5) - "
    "process 1\nsrun: error: node3: task 1: Exited with exit code 5\n"
)
OTHERS = """srun: launch/slurm: _step_signal: Terminating StepId=7.0
slurmstepd-node1: error: *** STEP 7.0 ON node1 CANCELLED AT 2026-11-22T07:52:47 ***
srun: error: node1: task 0: Terminated
srun: error: node3: tasks 2-3: Terminated
srun: Force Terminated StepId=7.0
"""
SRUN = f"""srun: cluster configuration lacks support for cpu binding
[node2:00598] *** Process received signal ***
[node2:00598] Signal: Segmentation fault (11)
[node2:00598] Failing at address: 0x256
[node2:00598] [ 0] /lib/x86_64-linux-gnu/libc.so.6(+0x3c050)[0x7f8f6f008050]
[node2:00598] *** End of error message ***
srun: error: node2: task 1: Segmentation fault
{OTHERS}"""
MPIRUN = """[node2:02301] *** Process received signal ***
[node2:02301] *** End of error message ***
--------------------------------------------------------------------------
Primary job  terminated normally, but 1 process returned
a non-zero exit code. Per user-direction, the job has been aborted.
--------------------------------------------------------------------------
--------------------------------------------------------------------------
mpirun noticed that process rank 1 with PID 2301 on node node2 exited on signal 11 (Segm. fault).
--------------------------------------------------------------------------
"""
# Of hydra's own processes, which Slurm started: not one of our ranks.
PROXIES = """[proxy:0:3@node4] main (pm/pmiserv/pmip.c:169): demux engine error waiting for event
srun: error: node4: task 3: Exited with exit code 7
[mpiexec@head] main (ui/mpich/mpiexec.c:325): process manager error waiting for completion
"""
HYDRA = f"""[node2:2789 :0:2789] Caught signal 11 (Segmentation fault: tkill(2) at 0xae5)
==== backtrace (tid:   2789) ====
 0  /lib/x86_64-linux-gnu/libucs.so.0(ucs_handle_error+0x2dc) [0x7f8f2a080e9c]
=================================
===================================================================================
=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES
=   PID 2789 RUNNING AT node2
=   EXIT CODE: 11
=   CLEANING UP REMAINING PROCESSES
===================================================================================
{PROXIES}"""
INTEL = HYDRA.replace("PID", "RANK 1 PID").replace("EXIT CODE: 11", "KILLED BY SIGNAL: 11 (Segm)")
REMARK = "srun: cluster configuration lacks support for cpu binding\n"
CODE_4 = HYDRA.replace("CODE: 11", "CODE: 4")


def place_ranks(folder, hosts):
    """Writes the result of a launch whose ranks ran on these hosts."""
    layout = layout_of([{"host": host} for host in hosts])
    (folder / "result.json").write_text(json.dumps({"layout": layout}))
    return str(folder)


@pytest.fixture
def folder(tmp_path):
    """The folder of a launch of four ranks, rank 0 on node1 and so on."""
    return place_ranks(tmp_path, ["node1", "node2", "node3", "node4"])


def is_of(reason, code, values):
    """True if a reason is of this kind and has these values."""
    if code is None or reason is None:
        return reason is code
    return type(reason) is code and values.items() <= vars(reason).items()


@pytest.mark.parametrize(
    ("words", "values"),
    [
        (OPEN_MPI, {"rank": 1, "exit_code": 70, "line": LAST}),
        (OPEN_MPI_5, {"rank": 3, "exit_code": 5}),
        (MPICH, {"rank": 1, "host": "node3", "exit_code": 5}),
        (f"{REMARK}md: out of bounds\n{REMARK}{OPEN_MPI_5}", {"line": "md: out of bounds"}),
        (REMARK + OPEN_MPI_5, {"rank": 3, "exit_code": 5}),
    ],
)
def test_abort_has_rank_and_node(words, values):
    reason = Printed(Ended(errors=words), "srun").cause()
    assert is_of(reason, MpiAbort, values)
    assert bool(reason.line) == ("line" in values)


def test_words_that_were_cut_end_no_verdict():
    assert Printed(Ended(), "srun").cause() is None
    words = "srun: error: Task launch for StepId=7.0 failed on node n[1: Communication connection"
    for cut, is_cause in ((f"{words} lost", True), ("srun: error: n1: task 0: ", False)):
        printed = Printed(Ended(errors=cut, nodes=2), "srun")
        assert (printed.cause() is not None) == is_cause
        assert printed.first_death is None


def test_hosts_of_an_abort_and_ranks_of_hydra_are_in_the_result_alone(folder):
    reason = Printed(Ended(errors=OPEN_MPI_5, folder=folder), "mpirun").cause()
    assert is_of(reason, MpiAbort, {"rank": 3, "host": "node4", "exit_code": 5, "line": ""})
    assert Printed(Ended(errors="process rank 1 exited on signal 11"), "mpirun").cause() is None
    assert Printed(Ended(errors=HYDRA), "mpirun").first_death.rank is None


@pytest.mark.parametrize(
    ("words", "launcher", "exit_code", "rank"),
    [
        (OTHERS, "srun", None, None),
        (PROXIES, "mpirun", None, None),
        ("", "srun", None, None),
        (SRUN, "srun", 139, 1),
        (SRUN.replace("Segmentation fault\n", "Killed\n"), "srun", 137, 1),
        (SRUN.replace("Segmentation fault\n", "Aborted (core dumped)\n"), "srun", 134, 1),
        (SRUN.replace("task 1: Segm", "tasks 1,3: Segm"), "srun", 139, None),
        # srun's exit code is then 143, of the ranks that it ended
        (f"srun: error: node2: task 1: Exited with exit code 1\n{OTHERS}", "srun", 1, 1),
        (MPIRUN, "mpirun", 139, 1),
        (MPIRUN.replace("on signal", "on\nsignal"), "mpirun", 139, 1),  # Open MPI 5's
        (INTEL, "mpirun", 139, 1),
        (HYDRA, "mpirun", 139, 1),
        (HYDRA.replace("CODE: 11", "CODE: 139"), "mpirun", 139, 1),
        # exit code 4 is a kernel's own, or its signal 4
        (CODE_4, "mpirun", 4, 1),
        (CODE_4.replace("signal 11", "signal 4"), "mpirun", 132, 1),
    ],
)
def test_first_death(folder, words, launcher, exit_code, rank):
    death = Printed(Ended(errors=words, folder=folder), launcher).first_death
    assert death == (exit_code and launch_faults.Death(exit_code, rank, "node2"))


@pytest.mark.parametrize(
    ("words", "last"),
    [
        (SRUN, ""),
        ('[node1:34] Set MCA parameter "orte_base_help_aggregate" to 0\n', ""),
        (f"md: out of bounds\n{SRUN}", "md: out of bounds"),
        (f"{MPIRUN}md: out of bounds\n", "md: out of bounds"),
        (f"{HYDRA}md: out of bounds\n{PROXIES}", "md: out of bounds"),
        (f"bisection-md: no room\nlibfoo: cleaning up\n{OTHERS}", "bisection-md: no room"),
        ("", ""),
    ],
)
def test_last_line_is_the_programs(words, last):
    assert launch_faults.last_line(words, "md") == last
    any_line = last or (words.splitlines() or [""])[-1]
    assert launch_faults.last_line(words, "md", any_line=True) == any_line


UNSEEN = {
    "chdir": "slurmstepd-node2: error: couldn't chdir to `{}': No such file or directory: going to "
    "/tmp instead\n",
    "srun": "slurmstepd-node2: error: execve(): {}: No such file or directory\n"
    "srun: error: node2: task 1: Exited with exit code 2\n",
    "mpirun": "mpirun was unable to launch the specified application as it could not access\n"
    "or execute an executable:\n\nExecutable: {}\nNode: node2\n\nwhile attempting to start\n",
    "hydra": "[proxy:0:1@node2] HYDU_create_process (utils/launch/launch.c:74): execvp error on "
    "file {} (No such file or directory)\n",
}


@pytest.mark.parametrize("launcher", UNSEEN)
def test_node_that_does_not_see_a_folder_is_named(tmp_path, launcher):
    reason = Printed(Ended(errors=UNSEEN[launcher].format(tmp_path)), launcher).cause()
    unseen = f"INFRASTRUCTURE: node2 does not see {tmp_path}, which all nodes must share"
    assert clause(reason) == unseen


def test_worlds_are_counted():
    line = "bisection-md: --expect-ranks 4: this MPI world has 1\n"
    apart, lost = (launch_faults.of_worlds(line * worlds + OTHERS) for worlds in (4, 1))
    assert type(apart) is type(lost) is Misplaced
    assert "started 4 MPI worlds of 1 rank instead of one of 4" in str(apart)
    assert "1 of 4 ranks ran" in str(lost)


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
        (job("NODE_FAIL"), NOT_KNOWN, 0, NodeFail, {"job": "7"}),
        (job("CANCELLED", cancelling=True), NOT_KNOWN, None, Blocked, {"waited": 90}),
        (job("COMPLETED"), RUNNING, None, Infrastructure, LEFT),
        (job("DEADLINE"), UNSTARTED, None, Blocked, {"reason": "DeadLine"}),
        (job("DEADLINE"), STARTED, None, Timeout, {"nodes": "n1"}),
        (job("PREEMPTED"), NOT_KNOWN, None, Cancelled, {"state": "PREEMPTED"}),
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
        ([["n1", "drained", "Prolog error"], ["n2", "idle", "none"]], NodeFault, "n1"),
        ([["n1", "draining", "fan"], ["n2", "mixed", "prolog tested"]], Cancelled, ""),
        ([], Cancelled, ""),
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


def test_only_a_hang_is_reported_as_one():
    assert clause(launch_faults.of_hang(Ended(exit_code=4))) == "HANG: nothing finished"
    assert launch_faults.of_hang(Ended(errors="killed", exit_code=137)) is None
    assert launch_faults.of_hang(Ended(errors=HANG, exit_code=0)) is None  # it advanced after all


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
        (ended("sbatch x", f"{FAILED} {NO_CONTACT}"), Infrastructure,
         {"why": f"sbatch: Batch job submission failed: {NO_CONTACT}"}),
        (ended("sbatch x", how="timeout"), Infrastructure,
         {"why": "sbatch did not answer in time"}),
        (ended("qsub x", "qsub: Unknown queue"), Blocked, {"refused": "qsub: Unknown queue"}),
        (ended("sbatch x", POLICY), Blocked,
         {"refused": "sbatch: site policy: name your project with -A ACCOUNT, else no job can "
          "connect; Batch job submission failed: Unspecified error"}),
        ("job error: [jobid=7] maximum pending time exceeded", Blocked, {"waited": 90}),
        (f"job scheduler error: {NO_ID}", Infrastructure, {"why": NO_ID}),
    ],
)  # fmt: skip
def test_faults_in_the_words_of_reframe(text, code, values):
    assert is_of(failure(text, 90.0), code, values)


def test_reframe_that_was_killed():
    log = "[==========] Running 2 check(s)\n[==========] Started on Sat\n"
    listing = (
        "- transpose %method=p2p %launch.layout=mpi %launch.case=cnt40 /bb333c43 @a:b+system\n"
    )
    verdict = read(None, log, lambda: listing)
    assert decision.of_run(verdict) == 3
    (case,) = verdict.cases
    assert (case.method, case.layout, case.case) == ("p2p", "mpi", "cnt40")
    assert str(case.reason) == "ReFrame ended without a report"


WRONG = f"srun: error: node2: task 1: Exited with exit code 1\n{OTHERS}"
REFUSED = f"bisection-md: no room\n{WRONG.replace('code 1', 'code 3')}"
SEGV = {"exit_code": 139, "rank": 1, "host": "node2"}


@pytest.mark.parametrize(
    ("exit_code", "state", "words", "code", "values", "accepted"),
    [
        (0, "COMPLETED", "", None, {}, 0),
        (143, "COMPLETED", SRUN, KernelDied, SEGV, 139),
        # The launcher's 1 is no wrong answer.
        (143, "COMPLETED", WRONG, NotStarted, {"host": "node2", "rank": 1}, 1),
        (143, "COMPLETED", REFUSED, KernelDied, {"line": "bisection-md: no room"}, 3),
        (None, "TIMEOUT", SRUN, KernelDied, SEGV, None),
        (None, "TIMEOUT", OTHERS, Timeout, {"limit": 900}, None),
        (None, "NODE_FAIL", SRUN, NodeFail, {"job": "7"}, None),
        (None, "COMPLETED", "", NotEnded, {}, None),
        (143, "COMPLETED", SRUN + OPEN_MPI_5, MpiAbort, {"exit_code": 5}, 139),
        (1, "COMPLETED", OPEN_MPI_5, MpiAbort, {"exit_code": 5}, 1),
    ],
)
def test_cause_of_a_launch(monkeypatch, exit_code, state, words, code, values, accepted):
    monkeypatch.setattr(slurm_module, "job_record", lambda jobid: ({}, "scontrol: gone"))
    ended = Ended("md", "", exit_code, words)
    exit_code, reason = launch_faults.of_launch(job(state), ended)
    assert exit_code == accepted
    assert is_of(reason, code, values)


@pytest.mark.parametrize("begun", [True, False])
def test_a_message_that_open_mpi_lost_is_told(tmp_path, begun):
    if begun:
        place_ranks(tmp_path, ["node1"] * 2)
    words = "[n1:36] [[25337,0],0] ORTE_ERROR_LOG: Data unpack in file util/show_help.c at line 501"
    _, reason = launch_faults.of_launch(job("COMPLETED"), Ended("md", str(tmp_path), 15, words))
    assert type(reason) is (KernelDied if begun else NotStarted)
    assert reason.next == "rerun it: Open MPI lost its own message"


@pytest.mark.parametrize(
    ("exit_code", "words", "verified", "fault"),
    [
        (0, "a warning", True, None),
        (1, "", False, None),
        (143, WRONG, False, None),  # srun ended ranks that were about to end
        (1, OPEN_MPI_5, False, None),
        (139, SRUN, True, KernelDied),
    ],
)
def test_an_answer_is_what_the_result_says(tmp_path, exit_code, words, verified, fault):
    result = {"schema": "bisection-result", "version": 5, "kernel": "md", "status": "complete"}
    result |= {"verified": verified, "layout": layout_of([{"host": "node1"}])}
    (tmp_path / "result.json").write_text(json.dumps(result))
    end = Ended("md", str(tmp_path), exit_code, words)
    code, reason = launch_faults.of_launch(job("COMPLETED"), end)
    assert (reason and type(reason)) == fault
    assert code in (0, 1, 139)
