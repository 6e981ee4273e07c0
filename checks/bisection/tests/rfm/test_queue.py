"""What becomes of launches in a queue, on ReFrame's own Slurm back-ends over fake_slurm."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
from reframe.core.exceptions import SpawnedProcessError
from reframe.frontend.executors.policies import AsynchronousExecutionPolicy as Policy
from running import CHECKS
from test_scheduler_faults import COMMANDS, HERE, SITE, on_slurm

from bisection.core import slurm as core_slurm
from bisection.core.reasons import clause
from bisection.rfm import internals, queue

MPI_AND_NODE = "^transpose%method=p2p%launch.layout=(mpi|node)%launch.case="
BOTH = ("-n", MPI_AND_NODE + "cnt40$")


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


class TestPlace:
    """What Slurm can never place would wait in its queue for ever."""

    def test_that_is_none_blocks_at_once_and_the_rest_runs(self, slurm, tmp_path):
        cases = ("-n", MPI_AND_NODE + "(cnt40|silicon)$")
        wrong = {"mpi/cnt40": "no-place", "mpi/silicon": "no-place"}
        run = slurm("squeue", wrong, selected=cases, tier="nightly")
        assert run.code == 3, run.text
        for case in ("cnt40", "silicon"):
            assert run.case("p2p", "node", case)["verdict"] == "pass"
            assert run.case("", "mpi", case)["cause"] == (
                "BLOCKED: the scheduler refused the job: sbatch: allocation failure: Requested "
                "node configuration is not available"
            )
        asked = (tmp_path / "jobs" / "asked").read_text().split()
        # Once a geometry; what has no place is asked for again, without the run's nodes.
        assert sorted(asked) in (["1", "2"], ["1", "2", "2"])

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
    def test_names_the_nodes_that_a_launch_would_need(self, monkeypatch, ranks, access, named):
        down = [("n3", "down", "dimm"), ("n4", "drained", "fan")]
        rows = {
            "%N|%P": [(f"n{n}", "quad") for n in range(1, 5)],
            "%N|%T|%E": [("n1", "idle", "none"), ("n2", "alloc", "none"), *down],
        }

        def node_rows(fields, partition="", _=""):
            others = [] if partition or "%P" not in fields else [("n9", "all*")]
            return rows[fields] + others

        for module in (queue, core_slurm):
            monkeypatch.setattr(module, "node_rows", node_rows)
        options = [access, f"--ntasks={ranks}", "--ntasks-per-node=2"]
        assert queue.missing(options) == ([("n3", "dimm"), ("n4", "fan")] if named else [])


class TestTurn:
    """All launches wait in Slurm's queue at once, which starts them one after the other."""

    def test_is_waited_for_in_the_queue(self, slurm, jobs):
        """However long the launches before it run, and though the site file has max_jobs 1."""
        slow = ("-S", "TransposeLaunch.prerun_cmds=sleep 4")
        patience = ("-S", "TransposeLaunch.max_pending_time=2s")
        run = slurm("squeue", {}, *slow, *patience, selected=BOTH)
        assert run.code == 0, run.text
        first, second = jobs()
        assert first["name"] == second["name"]
        assert first["name"].startswith(f"bisection-{run.folder.name}-")
        assert second["submit"] < first["end"] <= second["start"]
        assert first["end"] - second["submit"] > 2

    def test_is_waited_for_where_a_user_may_queue_one_job(self, slurm, jobs):
        """And though the controller does not answer what is asked first."""
        run = slurm("slurm", {"sbatch": 1, "MaxSubmitJobs": 1}, selected=BOTH)
        assert run.code == 0, run.text
        assert len(jobs()) == 2

    def test_of_a_full_queue_is_waited_for_while_launches_are_watched(self, monkeypatch):
        """Once it is known how many jobs a user may queue, ReFrame holds the others back."""
        monkeypatch.delenv(queue.DEADLINE, raising=False)
        monkeypatch.setattr(queue, "require_place", lambda _: None)
        monkeypatch.setattr(queue.time, "sleep", lambda _: setattr(waiting, "jobid", "4"))
        monkeypatch.setattr(queue, "_allowed", [math.inf])
        monkeypatch.setattr(queue, "line", [(job(1.0), 60.0) for _ in range(3)])
        queue.line[0][0].completion_time = 2.0
        waiting = SimpleNamespace(**vars(job(3.0)), jobid=None, max_pending_time=None)

        def full(_):
            raise SpawnedProcessError("sbatch", "", "sbatch: error: QOSMaxSubmitJobPerUserLimit", 1)

        queue.submit(full, waiting)
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

    def test_patience_counts_from_the_launch_before(self, monkeypatch):
        monkeypatch.delenv(queue.DEADLINE, raising=False)
        monkeypatch.setattr(queue.time, "time", lambda: now)
        now, line = 1000.0, [job(100.0), job(100.0), job(100.0)]
        monkeypatch.setattr(queue, "line", [(each, 60.0) for each in line])
        for place, each in enumerate(line):
            queue._bound(place, each.submit_time)
        assert [each.max_pending_time for each in line] == [60, 60 + 900, 60 + 2 * 900]
        line[0].completion_time = 1000.0
        queue.advance()
        assert [each.max_pending_time for each in line] == [60, 900 + 60, 900 + 60 + 900]
        monkeypatch.setenv(queue.DEADLINE, "1010.0 3600.0")
        queue.advance()
        assert [each.max_pending_time for each in line[1:]] == [910, 910]


def job(submitted):
    return SimpleNamespace(submit_time=submitted, completion_time=None, time_limit=900.0)


class TestDeadline:
    """Nothing starts after it."""

    SAYS = "BLOCKED: not started before the deadline of "

    def test_passes_in_the_queue(self, slurm, jobs):
        run = slurm("squeue", {"mpi/cnt40": "waits"}, "--deadline", "40s", selected=BOTH)
        assert run.code == 3, run.text
        assert run.said.count(self.SAYS + "40 s") == 1, run.text  # once for all launches
        assert not any(each["started"] for each in jobs())
        assert "in queue all; Slurm's reason: Resources; expected start 2026-" in run.said

    def test_passes_before_anything_starts(self, bisection):
        run = bisection("--deadline", "1s")
        assert run.code == 3, run.text
        assert run.said.count(self.SAYS + "1 s") == 1

    def test_is_in_what_slurm_and_reframe_get(self, monkeypatch):
        monkeypatch.delenv(queue.DEADLINE, raising=False)
        assert (queue.late(), queue.deadline_options(900), queue.deadline()) == (None, [], math.inf)
        assert queue.until_deadline(60.0) == 60.0
        assert queue.until_deadline(None) is None
        monkeypatch.setattr(queue.time, "time", lambda: 1000.0)
        monkeypatch.setattr(queue.time, "localtime", time.gmtime)
        monkeypatch.setenv(queue.DEADLINE, "1100.0 21600.0")
        assert queue.late() is None
        # Slurm's deadline is for the end: of a job of 90 s, which Slurm takes for 2 minutes
        assert queue.deadline_options(90) == ["--deadline=1970-01-01T00:20:20"]
        assert queue.until_deadline(60.0) == 60.0
        assert queue.until_deadline(None) == queue.until_deadline(3600.0) == 100.0
        monkeypatch.setenv(queue.DEADLINE, "1099.1 21600.0")
        assert queue.deadline_options(90) == ["--deadline=1970-01-01T00:20:20"]
        monkeypatch.setenv(queue.DEADLINE, "1000.0 21600.0")
        assert clause(queue.late()) == self.SAYS + "6 h"


def test_a_run_that_is_stopped_leaves_no_job(fake, tmp_path, jobs):
    for name in ("bin", "jobs"):
        (tmp_path / name).mkdir()
    for name in COMMANDS:
        (tmp_path / "bin" / name).symlink_to(HERE / "fake_slurm.py")
    environ = {
        **os.environ,
        "PATH": f"{tmp_path / 'bin'}:{os.path.dirname(sys.executable)}:{os.environ['PATH']}",
        "PYTHONPATH": str(CHECKS),
        "BISECTION_HOME": str(tmp_path),
        "FAKE_SLURM": str(tmp_path / "jobs"),
        "FAKE_SLURM_FAULTS": json.dumps({"mpi/cnt40": "runs", "node/cnt40": "runs"}),
    }
    command = [sys.executable, "-m", "bisection", "run", "--tier", "quick", *BOTH]
    command += ["--system", f"{SITE}:squeue", "-S", f"Build.kernels={fake}"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "stdin": subprocess.DEVNULL}
    run = subprocess.Popen(command, env=environ, cwd=CHECKS.parent, text=True, **pipes)
    end = time.monotonic() + 120
    while len(jobs()) < 2 and time.monotonic() < end:
        time.sleep(0.1)
    run.send_signal(signal.SIGTERM)
    text, _ = run.communicate(timeout=120)
    assert run.returncode == 3, text
    assert [each["state"] for each in jobs()] == ["CANCELLED"] * 2
    assert "left in the queue" not in text
    assert "Traceback" not in text
