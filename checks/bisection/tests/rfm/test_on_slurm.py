"""Launches in a queue, and faults around them: ReFrame's own Slurm back-ends over fake_slurm.

With ReFrame alone many of these runs wait for ever, pass with no case run, or fail for a missing
result.
"""

import functools
import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from reframe.core.exceptions import SpawnedProcessError
from reframe.frontend.executors.policies import AsynchronousExecutionPolicy as Policy
from results_made import finished_job
from running import CHECKS, HERE, enter_cluster, install_cmake, load_site, run_in

from bisection.core.identity import Geometry
from bisection.core.reasons.base import clause
from bisection.rfm import internals, queue
from bisection.schedulers import slurm as slurm_module
from bisection.store import sample_file

SITE = HERE / "slurm_site.py"
MPI_AND_NODE = "^transpose%method=p2p%launch.layout=(mpi|node)%launch.case="
BOTH = ("-n", MPI_AND_NODE + "cnt40$")


def on_slurm(home, fake, back_end, wrong, *arguments, extras=None, **how):
    """`bisection run` on a cluster of fake commands: a Run. With extras of the partition, the
    kernels are built."""
    with pytest.MonkeyPatch.context() as patch:
        enter_cluster(patch, home, wrong)
        install_cmake(patch, home / "tools", fake)
        patch.setenv("SLURM_EXTRAS", json.dumps(extras or {}))
        built = None if extras else fake
        return run_in(home, built, "--system", f"{SITE}:{back_end}", *arguments, **how)


@pytest.fixture
def slurm(fake, tmp_path):
    """slurm(back_end, faults, *arguments) is a Run."""
    return lambda *how, **more: on_slurm(tmp_path, fake, *how, **more)


@pytest.fixture
def jobs(tmp_path):
    """jobs() is the list of all jobs of the fake, in the order of their submission."""

    def read():
        files = sorted((tmp_path / "jobs").glob("*.json"), key=lambda file: int(file.stem))
        return [json.loads(file.read_text()) for file in files]

    return read


# Launch: its fault, its verdict, its cause with # for a number.
ON_SLURM = {
    "mpi/cnt40": (None, "pass", ""),
    "mpi/cnt80": ("timeout", "FAIL", "TIMEOUT: job # ran to its time limit of 15 min on n[1-2]"),
    "mpi/silicon": ("node-fail", "FAIL",
        "NODE_FAIL: job # lost n2 (Not responding), it ran on n[1-2]"),
    "mpi/tin-8k": ("oom", "FAIL", "OUT_OF_MEMORY: job # used more memory than it may on n[1-2]"),
    "mpi/al2o3-g": ("waits", "not measured",
        "BLOCKED: job # was not started in # s; the scheduler's reason: Resources"),
    "node/cnt40": ("too-big", "not measured",
        "BLOCKED: job # was not started in # s; the scheduler's reason: PartitionNodeLimit"),
    "node/cnt80": ("scancel", "not measured",
        "CANCELLED: job # was cancelled on n[1-2], not by this run"),
    "node/silicon": ("refused", "not measured",
        "BLOCKED: the scheduler refused the job: sbatch: Batch job submission failed: Requested "
        "node configuration is not available"),
    "node/tin-8k": ("unseen", "not measured",
        "INFRASTRUCTURE: n1 does not see /home/lab/bisection, which all nodes must share"),
    "mpi/cpmd": ("step-oom", "FAIL", "OUT_OF_MEMORY: a step used more memory than it may on n2: "
        "srun: error: n2: task 1: Out Of Memory"),
    "node/al2o3-g": ("step", "not measured", "NOT_STARTED: the job step asks for more memory than "
        "the job has: srun: error: Unable to create step for job 47: Memory required by task is "
        "not available"),
}  # fmt: skip
NO_PLACE = ("no-place", "not measured",
    "BLOCKED: the scheduler refused the job: sbatch: allocation failure: Requested node "
    "configuration is not available")  # fmt: skip
# Each launch takes two seconds more there, and a refusal or a reason are the same.
ON_SQUEUE = {where: ON_SLURM[where] for where in ON_SLURM if re.match("mpi/[^t]", where)}
ON_SQUEUE |= dict.fromkeys(("node/cnt40", "node/silicon"), NO_PLACE)
BACK_ENDS = {"slurm": ON_SLURM, "squeue": ON_SQUEUE}


@pytest.fixture(scope="session")
def launches(fake, gallery):
    """launches(back_end): real for each of ReFrame's two back-ends, the Run of all that goes wrong
    on it. The site file names the processor of the nodes, so that nothing is built there."""

    def run(home, back_end):
        wrong = {where: fault for where, (fault, *_) in BACK_ENDS[back_end].items() if fault}
        names = "|".join(f"{where.replace('/', '%launch.case=')}$" for where in BACK_ENDS[back_end])
        how = {"selected": ("-n", f"^transpose%method=p2p.*({names})"), "tier": "upgrade"}
        pending, how["extras"] = "TransposeLaunch.max_pending_time=2s", {"march": "znver4"}
        return on_slurm(home, fake, back_end, wrong, "-S", pending, **how)

    return lambda name: gallery(f"on-{name}", functools.partial(run, back_end=name))


@pytest.mark.parametrize(
    ("back_end", "where"), [(name, where) for name in BACK_ENDS for where in BACK_ENDS[name]]
)
def test_a_launch_has_its_cause(launches, back_end, where):
    """ReFrame's `slurm` asks sacct; its `squeue` only sees jobs vanish from the queue."""
    run, (layout, case) = launches(back_end), where.split("/")
    _, word, says = BACK_ENDS[back_end][where]
    assert (run.code, run.verdict["troubles"]) == (1, []), run.text
    launch = run.case("", layout, case)
    assert launch["verdict"] == word
    pattern = re.escape(says).replace(r"\#", r"[\d.]+")
    assert re.fullmatch(pattern, launch["cause"]), launch["cause"]
    assert launch["cause"] in run.said
    judged = "pass" if word == "pass" else "not measured"
    assert run.case("p2p", layout, case)["verdict"] == judged


def test_a_node_whose_processor_is_named_builds_nothing_and_what_has_no_place_blocks_at_once(
    launches,
):
    """Slurm is asked once a geometry, and again without the run's nodes for what has no place."""
    run = launches("squeue")
    jobs = run.folder.parents[1] / "jobs"
    assert not [file for file in jobs.glob("*.json") if "rfm_build" in file.read_text()]
    (script,) = (run.folder / "kernels").glob("*.build.sh")
    assert "-DBX_MARCH=znver4" in script.read_text()
    assert sorted((jobs / "asked").read_text().split()) in (["1", "2"], ["1", "1", "2"])


def test_a_run_builds_on_a_node_asks_for_an_idle_one_and_survives_what_ends(slurm, jobs):
    """Real for a build that is a job, within the queue's limit. The accounting database and sbatch
    answer late, and the user may queue one job."""
    wrong = {"sacct": 5, "sbatch": 1, "MaxSubmitJobs": 1}
    run = slurm("slurm", wrong, extras={"max_time": 600}, selected=BOTH)
    assert run.code == 0, run.text
    assert "slurm_site:slurm: runs on n1; 2 of 3 nodes are idle" in run.said
    build, *asked = jobs()
    assert build["error"].endswith("rfm_build.err")
    assert build["state"] == "COMPLETED"
    assert [job["nodelist"] for job in asked] == ["n1", "n1"]
    assert {job["time"] for job in jobs()} == {"0:10:0"}
    (script,) = (run.folder / "kernels").glob("*.build.sh")
    machine = load_site("common").this_machine()
    cores = machine["num_cpus"] // machine["num_cpus_per_core"]
    assert f"#SBATCH --cpus-per-task={cores}\n" in script.read_text()
    assert "BX_MARCH" not in script.read_text()
    session, _ = next(sample_file.read_samples(run.folder / sample_file.SPOOLED))
    assert "nodelist" not in session["tags"]["arguments"]


@pytest.mark.parametrize("nodes", ["gone", "drained"])
@pytest.mark.long
def test_a_launch_without_its_chosen_node_runs_on_another(slurm, jobs, nodes):
    run = slurm("squeue", {"nodes": nodes})
    assert run.code == 0, run.text
    assert "slurm_site:squeue: runs on n1; 2 of 3 nodes are idle" in run.said
    assert [job["nodelist"] for job in jobs()] == [None]


@pytest.mark.parametrize("known", [True, False])
def test_jobs_whose_chosen_node_is_drained_are_freed(monkeypatch, commands, known):
    """ReFrame knows Slurm's reasons on one back-end, and has yet to ask on the other."""
    monkeypatch.setenv(queue.NODES, "a file")
    rows = {"1": "ReqNodeNotAvail, UnavailableNodes:n1", "2": "Resources"}
    commands("squeue", "\n".join(f"echo '{job}|{why}'" for job, why in rows.items()))
    freed = []
    monkeypatch.setattr(slurm_module.Slurm, "free", lambda _, job: freed.append(job))
    slurm = {"scheduler": SimpleNamespace(registered_name="slurm")}
    asked = [SimpleNamespace(jobid=job, options=["--nodelist=n1", "-x"], **slurm) for job in rows]
    asked.append(SimpleNamespace(jobid="3", options=[], **slurm))
    reasons = {job: [why] for job, why in rows.items()} if known else None
    assert queue.free_blocked(asked, reasons) == asked[:1]
    assert freed == ["1"]
    assert [job.options for job in asked] == [["-x"], ["--nodelist=n1", "-x"], []]
    monkeypatch.delenv(queue.NODES)
    assert queue.free_blocked(asked[1:], {"2": ["ReqNodeNotAvail"]}) == []


@pytest.mark.long
class TestOutage:
    """The scheduler does not answer: ReFrame alone says PASSED of no case, and leaves the job."""

    CASES = ("-n", "^transpose%method=(p2p|shm)%launch.layout=(mpi|node)%launch.case=cnt40")

    def test_of_the_accounting_database(self, slurm, jobs):
        run = slurm("slurm", {"mpi/cnt40": "runs", "sacct": 99}, selected=self.CASES)
        cause = "INFRASTRUCTURE: sacct: Problem talking to the database: Connection refused"
        assert run.code == 3, run.text
        assert "NOT MEASURED: 0 of 4 checks passed, 4 not measured" in run.said
        assert f"trouble: {cause}" in run.said
        assert "left in the queue" not in run.said
        # By their name; none is left.
        assert {each["state"] for each in jobs()} <= {"CANCELLED", "COMPLETED"}
        ends = {(case["verdict"], case["cause"]) for case in run.verdict["cases"] if case["method"]}
        assert ends == {("not measured", cause)}

    def test_of_the_controller(self, slurm):
        wrong = {"mpi/cnt40": "runs", "squeue": 99, "scontrol": 99}
        run = slurm("squeue", wrong)
        assert run.code == 3, run.text
        launch = run.case("")
        assert launch["verdict"] == "not measured"
        assert launch["cause"] == (
            "INFRASTRUCTURE: scontrol: slurm_load_jobs error: Unable to contact slurm controller "
            "(connect failure); left in the queue: 1; cancel with scancel 1"
        )


@pytest.mark.long
def test_launcher_that_is_to_end_clears_up_before_it_is_killed(bisection, tmp_path, commands):
    """mpirun removes its ranks' shared memory; ReFrame kills it once the job's script has ended."""
    clear = f"sleep 0.5; touch {tmp_path}/cleared; exit 143"
    commands("mpirun", f"trap '{clear}' TERM\nsleep 10 & wait")
    run = bisection("-S", "TransposeLaunch.time_limit=1s")
    assert (run.code, run.case("")["verdict"]) == (1, "FAIL"), run.text
    assert run.case("")["cause"] == "TIMEOUT: it ran to its time limit of 1 s"
    assert (tmp_path / "cleared").exists()


@pytest.mark.parametrize(
    ("ranks", "access", "named"),
    [
        (4, "-p quad", False),  # two nodes remain
        (6, "-p quad", True),
        (8, "-p quad", True),
        (10, "-p quad", False),  # there never were five
        (8, "", False),  # the usual partition has none of them
    ],
)
def test_the_nodes_that_a_launch_would_need_are_named(commands, ranks, access, named):
    """What Slurm can never place would wait in its queue for ever."""
    quad = "n1|quad|idle|none\nn2|quad|alloc|none\nn3|quad|down|dimm\nn4|quad|drained|fan"
    commands("sinfo", f"echo '{quad}'; [ $3 = -p ] || echo 'n9|all*|down|dimm'")
    options = [access, f"--ntasks={ranks}", "--ntasks-per-node=2"]
    assert slurm_module.missing(options) == ([("n3", "dimm"), ("n4", "fan")] if named else [])


class TestTurn:
    """All launches wait in Slurm's queue at once, which starts them one after the other."""

    @pytest.mark.long
    def test_is_waited_for_in_the_queue(self, slurm, jobs):
        """However long the launches before it run, and though the site file has max_jobs 1."""
        slow = ("-S", "TransposeLaunch.prerun_cmds=sleep 4")
        patience = ("-S", "TransposeLaunch.max_pending_time=2s")
        run = slurm("squeue", {}, *slow, *patience, selected=BOTH)
        assert run.code == 0, run.text
        first, second = jobs()
        assert first["job-name"] == second["job-name"]
        assert first["job-name"].startswith(f"bisection-{run.folder.name}-")
        assert second["submit"] < first["end"] <= second["start"]
        assert first["end"] - second["submit"] > 2

    def test_of_a_full_queue_is_waited_for_while_launches_are_watched(self, monkeypatch):
        """Once it is known how many jobs a user may queue, ReFrame holds the others back."""
        monkeypatch.delenv(queue.DEADLINE, raising=False)
        monkeypatch.setattr(queue, "require_place", lambda _: None)
        monkeypatch.setattr(queue.time, "sleep", lambda _: setattr(waiting, "jobid", "4"))
        monkeypatch.setattr(queue, "_allowed", [math.inf])
        monkeypatch.setattr(queue, "queued", [job(1.0) for _ in range(3)])
        queue.queued[0].completion_time = 2.0
        waiting = job(3.0)
        waiting.jobid = None
        full = SpawnedProcessError("sbatch", "", "sbatch: error: QOSMaxSubmitJobPerUserLimit", 1)
        queue.submit(Mock(side_effect=full), waiting)
        assert queue.allowed() == 2
        submitted = []
        monkeypatch.setattr(Policy, "_advance_ready_run", lambda _, task: submitted.append(task))
        internals.submit_within(queue.allowed)
        policy = SimpleNamespace(_partition_tasks={"_rfm_local": [1, 2, 3], "lab:cpu": [1]})
        launch, judge = (SimpleNamespace(check=SimpleNamespace(local=is_)) for is_ in (False, True))
        for running in (1, 2):
            policy._partition_tasks["lab:gpu"] = [1] * (running - 1)
            for task in (launch, judge):
                Policy._advance_ready_run(policy, task)
        assert submitted == [launch, judge, judge]

    def test_ends_a_day_after_the_last_launch_or_at_the_deadline(self, monkeypatch):
        """Behind a job that Slurm never starts, a time limit after that was cancelled."""
        monkeypatch.delenv(queue.DEADLINE, raising=False)
        monkeypatch.setattr(queue, "_waits_since", [0.0])
        line = [job(100.0), job(100.0), job(200.0), job(200.0)]
        monkeypatch.setattr(queue, "queued", line)
        first, second, third, fourth = line

        def overdue(now, changed=first, **states):
            monkeypatch.setattr(queue.time, "time", lambda: now)
            vars(changed).update(states)
            return queue.overdue(line)

        assert overdue(159.0) == []
        assert overdue(160.0) == [first]
        assert overdue(161.0, state="CANCELLED", is_cancelling=True) == []  # by the run
        assert overdue(160.0 + 899.0) == []
        assert overdue(160.0 + 900.0) == [second]
        assert overdue(1100.0, second, state="RUNNING") == []
        assert overdue(1110.0, second, state="COMPLETED", completion_time=1105.0) == []
        monkeypatch.setattr(queue, "queued", line[2:])
        line[:2] = []
        assert overdue(1110.0 + 59.0) == []
        monkeypatch.setenv(queue.DEADLINE, "1165.0 3600.0")
        assert overdue(1164.0) == []
        assert overdue(1165.0) == [third, fourth]
        monkeypatch.delenv(queue.DEADLINE)
        assert overdue(1110.0 + 60.0) == [third]


def job(submitted):
    waiting = finished_job("PENDING")
    vars(waiting).update(submit_time=submitted, completion_time=None, max_pending_time=60.0)
    return waiting


class TestDeadline:
    """Nothing starts after it."""

    SAYS = "BLOCKED: not started before the deadline of "

    @pytest.mark.long
    def test_passes_in_the_queue(self, slurm, jobs):
        run = slurm("squeue", {"mpi/cnt40": "waits"}, "--deadline", "40s", selected=BOTH)
        assert run.code == 3, run.text
        assert run.said.count(self.SAYS + "40 s") == 1, run.text  # once for all launches
        assert not any(each["start"] for each in jobs())
        assert "in queue all; Slurm's reason: Resources; expected start 2026-" in run.said

    @pytest.mark.long
    def test_passes_before_anything_starts(self, bisection):
        run = bisection("--deadline", "1s")
        assert run.code == 3, run.text
        assert run.said.count(self.SAYS + "1 s") == 1

    def test_is_in_what_slurm_and_reframe_get(self, monkeypatch):
        def asked(time_limit):
            slurm = SimpleNamespace(registered_name="slurm")
            job = SimpleNamespace(options=[], scheduler=slurm, workdir="/home")
            queue.ask(job, Geometry(1, 1, 1), time_limit)
            return job.options

        monkeypatch.delenv(queue.DEADLINE, raising=False)
        assert (queue.late(), asked(900)) == (None, ["--no-requeue"])
        assert queue.until_deadline(None) is None
        monkeypatch.setattr(queue.time, "time", lambda: 1000.0)
        monkeypatch.setattr(queue.time, "localtime", time.gmtime)
        monkeypatch.setenv(queue.DEADLINE, "1100.0 21600.0")
        assert queue.late() is None
        # Slurm's deadline is for the end: of a job of 90 s, which Slurm takes for 2 minutes
        assert asked(90) == ["--no-requeue", "--deadline=1970-01-01T00:20:20"]
        assert queue.until_deadline(60.0) == 60.0
        assert queue.until_deadline(None) == queue.until_deadline(3600.0) == 100.0
        monkeypatch.setenv(queue.DEADLINE, "1099.1 21600.0")
        assert asked(90) == ["--no-requeue", "--deadline=1970-01-01T00:20:20"]
        monkeypatch.setenv(queue.DEADLINE, "1000.0 21600.0")
        assert clause(queue.late()) == self.SAYS + "6 h"


def test_a_run_that_is_stopped_leaves_no_job(fake, tmp_path, jobs, monkeypatch):
    """Real for what a signal does to both processes."""
    enter_cluster(monkeypatch, tmp_path, {"mpi/cnt40": "runs", "node/cnt40": "runs"})
    monkeypatch.setenv("PATH", os.path.dirname(sys.executable), prepend=":")
    monkeypatch.setenv("BISECTION_HOME", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(CHECKS))
    command = [sys.executable, "-m", "bisection", "run", "--tier", "quick", *BOTH]
    command += ["--system", f"{SITE}:squeue", "-S", f"Build.kernels={fake}"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "stdin": subprocess.DEVNULL}
    run = subprocess.Popen(command, cwd=CHECKS.parent, text=True, **pipes)
    end = time.monotonic() + 600
    while len(jobs()) < 2 and time.monotonic() < end:
        time.sleep(0.1)
    run.send_signal(signal.SIGTERM)
    text, _ = run.communicate(timeout=600)
    assert run.returncode == 3, text
    assert [each["state"] for each in jobs()] == ["CANCELLED"] * 2
    assert "left in the queue" not in text
    assert "Traceback" not in text
