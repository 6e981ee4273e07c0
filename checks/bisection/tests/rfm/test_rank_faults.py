"""What ended a rank, in the words of real launchers: Open MPI 4.1.4, MPICH 4.0.2, Slurm 22.05.8."""

import json

import pytest

from bisection.core.reasons import Code, clause
from bisection.rfm import rank_faults

OPEN_MPI = """[node7:14669] [[21939,0],0] ORTE_ERROR_LOG: Out of resource in file show_help.c at 507
bx_verification_check: 'energy' in 'eV': too many checks in one method
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


class TestAbort:
    @pytest.mark.parametrize(
        ("words", "says"),
        [
            (
                OPEN_MPI,
                "MPI_ABORT: rank 1 aborted with code 70: "
                "bx_verification_check: 'energy' in 'eV': too many checks in one method",
            ),
            (OPEN_MPI_5, "MPI_ABORT: rank 3 aborted with code 5"),
            (MPICH, "MPI_ABORT: rank 1 on node3 aborted with code 5"),
            ("mpirun noticed that process rank 1 exited on signal 11", ""),
        ],
    )
    def test_is_told_with_rank_and_node(self, tmp_path, words, says):
        assert clause(rank_faults.of_abort(words, tmp_path)) == says

    def test_host_is_in_the_result(self, tmp_path):
        seats = [{"rank": rank, "host": f"node{rank}"} for rank in range(4)]
        (tmp_path / "result.json").write_text(json.dumps({"layout": {"per_rank": seats}}))
        reason = rank_faults.of_abort(OPEN_MPI_5, tmp_path)
        assert reason.values == {"rank": 3, "host": "node3", "exit_code": 5}

    def test_with_the_code_of_a_wrong_answer(self, bisection, tmp_path):
        (tmp_path / "words").write_text(OPEN_MPI.replace("70", "1"))
        say = ("-S", f"TransposeLaunch.prerun_cmds=cat {tmp_path}/words >&2")
        run = bisection(*say, faults={"mpi/cnt40": "exit-1-but-verified"})
        assert run.code == 1
        launch = run.case("")
        assert launch["verdict"] == "FAIL"
        assert launch["cause"].startswith("MPI_ABORT: rank 1 on ")


# ---- the first rank that died ----

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


def first_death(said, folder, launcher="srun"):
    death = rank_faults.first_death(said, str(folder), launcher)
    return death and (death.exit_code, death.rank, death.host)


@pytest.mark.parametrize(
    ("said", "launcher"),
    [(SRUN, "srun"), (MPIRUN, "mpirun"), (HYDRA, "mpirun"), (INTEL, "mpirun")],
    ids=["srun", "mpirun", "hydra", "intel"],
)
def test_rank_that_crashed_is_named_by_every_launcher(tmp_path, said, launcher):
    seats = [{"rank": rank, "host": f"node{rank + 1}"} for rank in range(4)]
    (tmp_path / "result.json").write_text(json.dumps({"layout": {"per_rank": seats}}))
    assert first_death(said, tmp_path, launcher) == (139, 1, "node2")


@pytest.mark.parametrize(
    ("said", "launcher", "death"),
    [
        # srun's exit code is then 143, of the ranks that it ended
        (f"srun: error: node2: task 1: Exited with exit code 1\n{OTHERS}", "srun", (1, 1, "node2")),
        (SRUN.replace("Segmentation fault\n", "Killed\n"), "srun", (137, 1, "node2")),
        (SRUN.replace("task 1: Segm", "tasks 1,3: Segm"), "srun", (139, None, "node2")),
        (
            SRUN.replace("Segmentation fault\n", "Aborted (core dumped)\n"),
            "srun",
            (134, 1, "node2"),
        ),
        (OTHERS, "srun", None),
        (PROXIES, "mpirun", None),
        (HYDRA, "mpirun", (139, None, "node2")),  # where the ranks are is not known
        (HYDRA.replace("CODE: 11", "CODE: 139"), "mpirun", (139, None, "node2")),
        # exit code 4 is a kernel's own, or its signal 4
        (HYDRA.replace("CODE: 11", "CODE: 4"), "mpirun", (4, None, "node2")),
        (
            HYDRA.replace("CODE: 11", "CODE: 4").replace("signal 11", "signal 4"),
            "mpirun",
            (132, None, "node2"),
        ),
        ("", "srun", None),
    ],
)
def test_first_death(tmp_path, said, launcher, death):
    assert first_death(said, tmp_path, launcher) == death


@pytest.mark.parametrize(
    ("said", "last"),
    [
        (SRUN, None),
        ('[node1:34] Set MCA parameter "orte_base_help_aggregate" to 0\n', None),
        (f"md: out of bounds\n{SRUN}", "md: out of bounds"),
        (f"{MPIRUN}md: out of bounds\n", "md: out of bounds"),
        (f"{HYDRA}md: out of bounds\n{PROXIES}", "md: out of bounds"),
        (f"bisection-md: no room\nlibfoo: cleaning up\n{OTHERS}", "bisection-md: no room"),
        ("", None),
    ],
)
def test_last_line_is_the_programs(said, last):
    assert rank_faults.last_line(said, "md") == last
    assert rank_faults.last_line(said, "md", any_line=True) == (
        last or (said.splitlines() or [None])[-1]
    )


def test_remarks_of_srun_are_not_the_last_word_of_an_abort(tmp_path):
    remark = "srun: cluster configuration lacks support for cpu binding\n"
    words = f"{remark}md: negative volume\n{remark}{OPEN_MPI_5}"
    assert rank_faults.of_abort(words, tmp_path)["last"] == "md: negative volume"
    assert rank_faults.of_abort(remark + OPEN_MPI_5, tmp_path)["last"] is None


@pytest.mark.parametrize(
    ("exit_code", "where", "says"),
    [
        (139, {"rank": 1, "host": "node2"}, "md was killed by SIGSEGV, rank 1 on node2"),
        (139, {"host": "node2"}, "md was killed by SIGSEGV on node2"),
        (
            132,
            {"rank": 1, "host": "node2"},
            "md was killed by SIGILL, rank 1 on node2; it was built for another processor",
        ),
        (70, {"rank": 0, "host": "n1"}, "md exited with 70, rank 0 on n1"),
    ],
)
def test_crash_is_worded_with_rank_and_node(exit_code, where, says):
    assert clause(Code.KERNEL_EXIT(kernel="md", exit_code=exit_code, **where)) == says


# ---- ranks that did not start ----

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
    reason = rank_faults.of_unseen(UNSEEN[launcher].format(tmp_path))
    assert clause(reason) == (
        f"INFRASTRUCTURE: node2 does not see {tmp_path}, which all nodes must share"
    )
    assert rank_faults.of_unseen(UNSEEN[launcher].format(tmp_path / "nowhere")) is None


@pytest.mark.parametrize(
    ("worlds", "says"),
    [
        (
            4,
            "INVALID placement: the launcher started 4 MPI worlds of 1 rank instead of one of 4",
        ),
        (1, "INVALID placement: 1 rank ran, not 4"),
    ],
)
def test_worlds_are_counted(worlds, says):
    line = "bisection-md: --expect-ranks 4: this MPI world has 1\n"
    assert clause(rank_faults.of_worlds(line * worlds + OTHERS)) == says


def test_library_that_the_launcher_does_not_know():
    page = (
        'The application appears to have been direct launched using "srun",\n'
        "but OMPI was not built with SLURM's PMI support and therefore cannot\nexecute. There are "
        "several options for building PMI support under\n"
    )
    line = "-" * 74
    words = f"{line}\n{page}{line}\n*** An error occurred in MPI_Init\n*** on a NULL\n"
    says = clause(rank_faults.of_worlds(words))
    assert says.startswith("the launcher started no MPI world: The application")
    assert says.endswith("OMPI was not built with SLURM's PMI support and therefore cannot execute")
    assert rank_faults.of_worlds("") is None
