"""Faults around a launch, each told by its name: on ReFrame's own Slurm back-ends, over fake_slurm.

With ReFrame alone these runs wait for ever, pass with no case run, or fail for a missing result.
"""

import functools
import json
import os
import re
import types
import xml.etree.ElementTree as ET

import pytest
from running import HERE, run_in

from bisection.core import slurm as core_slurm
from bisection.core.reasons import Code, Reason, clause
from bisection.core.slurm import record_of
from bisection.rfm import scheduler_faults
from bisection.runs.report import failure, read
from bisection.store import sample_file

COMMANDS = ("sbatch", "squeue", "sacct", "scancel", "scontrol", "sinfo")
SITE = HERE / "slurm_site.py"
P2P = ("-n", "^transpose%method=p2p%launch.layout=mpi%launch.case=cnt40")


def on_slurm(home, fake, back_end, wrong, *arguments, **how):
    """`bisection run` on a cluster of fake commands: a Run."""
    for name in ("bin", "jobs"):
        (home / name).mkdir()
    for name in COMMANDS:
        (home / "bin" / name).symlink_to(HERE / "fake_slurm.py")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{home / 'bin'}:{os.environ['PATH']}")
        patch.setenv("FAKE_SLURM", str(home / "jobs"))
        patch.setenv("FAKE_SLURM_FAULTS", json.dumps(wrong))
        return run_in(home, fake, "--system", f"{SITE}:{back_end}", *arguments, **how)


@pytest.fixture
def slurm(fake, tmp_path):
    """slurm(back_end, faults, *arguments) is a Run."""
    return lambda *how, **more: on_slurm(tmp_path, fake, *how, **more)


# Launch: what goes wrong with it, its verdict, its cause with # for a number.
ON_SLURM = {
    "mpi/cnt40": (None, "pass", ""),
    "mpi/cnt80": ("timeout", "FAIL", "TIMEOUT: job # ran to its time limit of 15 min on n[1-2]"),
    "mpi/silicon": (
        "node-fail",
        "FAIL",
        "NODE_FAIL: job # lost n2 (Not responding), it ran on n[1-2]",
    ),
    "mpi/tin-8k": ("oom", "FAIL", "OUT_OF_MEMORY: job # used more memory than it may on n[1-2]"),
    "mpi/al2o3-g": (
        "waits",
        "not measured",
        "BLOCKED: job # was not started in # s; the scheduler's reason: Resources",
    ),
    "node/cnt40": (
        "too-big",
        "not measured",
        "BLOCKED: job # was not started in # s; the scheduler's reason: PartitionNodeLimit",
    ),
    "node/cnt80": (
        "scancel",
        "not measured",
        "CANCELLED: job # was cancelled on n[1-2], not by this run",
    ),
    "node/silicon": (
        "refused",
        "not measured",
        "BLOCKED: the scheduler refused the job: sbatch: Batch job submission failed: Requested "
        "node configuration is not available",
    ),
    "node/tin-8k": (
        "unseen",
        "not measured",
        "INFRASTRUCTURE: n1 does not see /home/lab/bisection, which all nodes must share",
    ),
}
# Each launch takes two seconds more there, and a refusal or a reason are the same.
ON_SQUEUE = {where: ON_SLURM[where] for where in ON_SLURM if re.match("mpi/[^t]", where)}
BACK_ENDS = {"slurm": ON_SLURM, "squeue": ON_SQUEUE}


@pytest.fixture(scope="module")
def launches(fake, tmp_path_factory):
    """launches(back_end) is the Run of all that goes wrong on it; each is run once."""

    @functools.cache
    def run(back_end):
        wrong = {where: fault for where, (fault, *_) in BACK_ENDS[back_end].items() if fault}
        names = "|".join(f"{where.replace('/', '%launch.case=')}$" for where in BACK_ENDS[back_end])
        how = {"selected": ("-n", f"^transpose%method=p2p.*({names})"), "tier": "upgrade"}
        pending = ("-S", "TransposeLaunch.max_pending_time=2s")
        return on_slurm(tmp_path_factory.mktemp(back_end), fake, back_end, wrong, *pending, **how)

    return run


class TestLaunches:
    """ReFrame's `slurm` asks sacct; its `squeue` only sees jobs vanish from the queue."""

    @pytest.mark.parametrize("back_end", BACK_ENDS)
    def test_run_fails(self, launches, back_end):
        run, words = launches(back_end), [word for _, word, _ in BACK_ENDS[back_end].values()]
        passed, failed = words.count("pass"), words.count("FAIL")
        assert run.code == 1, run.text
        assert run.verdict["troubles"] == []
        assert f"FAIL: {passed} of {len(words)} checks passed, {failed} failed" in run.said
        assert f"{len(words) - passed - failed} not measured" in run.said

    @pytest.mark.parametrize(
        ("back_end", "where", "word", "says"),
        [
            (back_end, where, word, says)
            for back_end, wanted in BACK_ENDS.items()
            for where, (_, word, says) in wanted.items()
        ],
    )
    def test_is_told_by_name(self, launches, back_end, where, word, says):
        run, (layout, case) = launches(back_end), where.split("/")
        launch = run.case("", layout, case)
        assert launch["verdict"] == word
        pattern = re.escape(says).replace(r"\#", r"\d+")
        assert re.fullmatch(pattern, launch["cause"]), launch["cause"]
        assert launch["cause"] in run.said
        judged = "pass" if word == "pass" else "not measured"
        assert run.case("p2p", layout, case)["verdict"] == judged


def test_a_run_asks_for_an_idle_node_and_is_of_the_usual_kind(slurm, tmp_path):
    run = slurm("slurm", {}, selected=P2P)
    assert run.code == 0, run.text
    assert "slurm_site:slurm: runs on n1; 2 of 3 nodes are idle" in run.said
    jobs = [json.loads(file.read_text()) for file in (tmp_path / "jobs").glob("*.json")]
    assert [job["nodelist"] for job in jobs] == ["n1"]
    session, _ = next(sample_file.read_samples(run.folder / sample_file.SPOOLED))
    assert "nodelist" not in session["tags"]["arguments"]


def test_a_launch_whose_chosen_node_is_gone_runs_on_another(slurm, tmp_path):
    run = slurm("slurm", {"nodes": "gone"}, selected=P2P)
    assert run.code == 0, run.text
    assert "slurm_site:slurm: runs on n1; 2 of 3 nodes are idle" in run.said
    jobs = [json.loads(file.read_text()) for file in (tmp_path / "jobs").glob("*.json")]
    assert [job["nodelist"] for job in jobs] == [None]


@pytest.mark.parametrize("back_end", BACK_ENDS)
def test_a_launch_whose_chosen_node_is_drained_meanwhile_runs_on_another(slurm, tmp_path, back_end):
    run = slurm(back_end, {"nodes": "drained"}, selected=P2P)
    assert run.code == 0, run.text
    assert f"slurm_site:{back_end}: runs on n1; 2 of 3 nodes are idle" in run.said
    jobs = [json.loads(file.read_text()) for file in (tmp_path / "jobs").glob("*.json")]
    assert [job["nodelist"] for job in jobs] == [None]


class TestOutage:
    """The scheduler does not answer: ReFrame alone says PASSED of no case, and leaves the job."""

    CASES = ("-n", "^transpose%method=(p2p|shm)%launch.layout=(mpi|node)%launch.case=cnt40")

    def test_of_the_accounting_database(self, slurm, tmp_path):
        run = slurm("slurm", {"mpi/cnt40": "runs", "sacct": 99}, selected=self.CASES)
        cause = "INFRASTRUCTURE: sacct: Problem talking to the database: Connection refused"
        assert run.code == 3, run.text
        assert "NOT MEASURED: 0 of 4 checks passed, 4 not measured" in run.said
        assert f"trouble: {cause}" in run.said
        assert "left in the queue" not in run.said
        states = [json.loads(file.read_text())["state"] for file in tmp_path.glob("jobs/*.json")]
        assert set(states) <= {"CANCELLED", "COMPLETED"}  # by their name; none is left
        for layout in ("mpi", "node"):
            for method in ("p2p", "shm"):
                case = run.case(method, layout)
                assert (case["verdict"], case["cause"]) == ("not measured", cause)
        suites = ET.parse(run.folder / "junit.xml").getroot()
        erring = suites.findall(".//testcase[error]")
        assert sum(test.get("name").endswith((" p2p", " shm")) for test in erring) == 4
        assert suites.find(".//failure") is None
        assert len(erring) == len(suites.findall(".//testcase"))

    def test_of_the_controller(self, slurm):
        wrong = {"mpi/cnt40": "runs", "squeue": 99, "scontrol": 99}
        run = slurm("squeue", wrong, selected=P2P)
        assert run.code == 3, run.text
        launch = run.case("")
        assert launch["verdict"] == "not measured"
        assert launch["cause"] == (
            "INFRASTRUCTURE: scontrol: slurm_load_jobs error: Unable to contact slurm controller "
            "(connect failure); left in the queue: 1; cancel with scancel 1"
        )

    def test_that_ends_is_survived(self, slurm):
        run = slurm("slurm", {"sacct": 5}, selected=P2P)
        assert run.code == 0, run.text


def test_launcher_that_is_told_to_end_clears_up_before_it_is_killed(
    bisection, tmp_path, monkeypatch
):
    """mpirun removes its ranks' shared memory; ReFrame kills it once the job's script has ended."""
    folder = tmp_path / "launcher"
    folder.mkdir()
    clear = f"sleep 0.5; touch {folder}/cleared; exit 143"
    (folder / "mpirun").write_text(f"#!/bin/bash\ntrap '{clear}' TERM\nsleep 60 & wait\n")
    (folder / "mpirun").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    run = bisection("-S", "TransposeLaunch.time_limit=1s")
    assert run.case("")["cause"] == "TIMEOUT: it ran to its time limit of 1 s"
    assert (folder / "cleared").exists()


def test_time_limit_without_a_scheduler(bisection):
    hang = ("-S", "TransposeLaunch.prerun_cmds=sleep 60", "-S", "TransposeLaunch.time_limit=1s")
    run = bisection(*hang)
    assert run.code == 1, run.text
    launch = run.case("")
    assert launch["verdict"] == "FAIL"
    assert launch["cause"] == "TIMEOUT: it ran to its time limit of 1 s"


# ---- the words ----


def job(state=None, cancelling=False):
    return types.SimpleNamespace(
        jobid="7",
        state=state,
        is_cancelling=cancelling,
        time_limit=900,
        submit_time=100.0,
        completion_time=190.0,
    )


NOT_KNOWN = ({}, "scontrol: slurm_load_jobs error: Invalid job id specified")


@pytest.mark.parametrize(
    ("end", "record", "words", "ended", "says"),
    [
        (job("COMPLETED"), NOT_KNOWN, "", True, ""),
        (job("COMPLETED"), NOT_KNOWN, "", False, ""),
        (job("NODE_FAIL"), NOT_KNOWN, "", True, "NODE_FAIL: job 7 lost a node"),
        (
            job("COMPLETED"),
            NOT_KNOWN,
            "slurmstepd-n1: error: *** JOB 7 ON n1 CANCELLED AT 2026-11-21T09:09:32 DUE TO TIME "
            "LIMIT ***",
            False,
            "TIMEOUT: job 7 ran to its time limit of 15 min",
        ),
        (
            job("CANCELLED", cancelling=True),
            NOT_KNOWN,
            "",
            False,
            "BLOCKED: job 7 was not started in 90 s; no reason is known",
        ),
        (
            job("COMPLETED"),
            ({"JobState": "RUNNING"}, ""),
            "",
            False,
            "INFRASTRUCTURE: the scheduler did not list job 7, which is RUNNING; left in the "
            "queue: 7; cancel with scancel 7",
        ),
        (
            job("DEADLINE"),
            (
                record_of("JobState=DEADLINE Reason=DeadLine NodeList=(null) WorkDir=/a b"),
                "",
            ),
            "",
            False,
            "BLOCKED: job 7 was not started in 90 s; the scheduler's reason: DeadLine",
        ),
        (
            job("DEADLINE"),
            ({"JobState": "DEADLINE", "NodeList": "n1"}, ""),
            "",
            False,
            "TIMEOUT: job 7 ran to its time limit of 15 min on n1",
        ),
        (job("PREEMPTED"), NOT_KNOWN, "", False, "CANCELLED: job 7 was preempted, not by this run"),
    ],
)
def test_faults_are_found_in_the_record_of_a_job(monkeypatch, end, record, words, ended, says):
    monkeypatch.setattr(core_slurm, "job_record", lambda jobid: record)
    assert clause(scheduler_faults.of_job(end, "squeue", words, ended)) == says
    assert scheduler_faults.of_job(end, "local", words, ended) is None


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
    seats = [{"rank": r, "host": h} for r, h in enumerate(["n2"] * 4 + ["n1"] * 2 + ["n3"] * 2)]
    (tmp_path / "result.json").write_text(json.dumps({"layout": {"per_rank": seats}}))
    reason = scheduler_faults.of_hang(f"noise\n{HANG}", exit_code, str(tmp_path))
    assert clause(reason) == (
        "HANG: nothing finished for 90 s; no answer from rank 2 on n2; no answer from ranks 6,7 on "
        "n3; ranks 0-1,3 on n2 in MPI_Waitall, timing packed, round 2; ranks 4-5 on n1 in the "
        "kernel's own code, verifying packed; stack of rank 0: mpi_waitall_f08_ < bx_harness_run"
    )
    assert Reason.read(reason.dumps()) == reason


def test_hang_is_read_where_a_launcher_mixes_the_lines_of_hosts():
    first, second = HANG.partition("-----")[0].splitlines(), HANG.splitlines()[-3:]
    mixed = [line for pair in zip(second, first, strict=False) for line in pair] + first[3:]
    reason = scheduler_faults.of_hang("\n".join(mixed), 4, "")
    assert reason["silent"] == [["2", "n2"]]
    assert [row[:2] for row in reason["waiting"]] == [["4-5", ["n1"]], ["0-1,3", ["n2"]]]


def test_only_a_hang_is_reported_as_one():
    assert clause(scheduler_faults.of_hang("", 4, "")) == "HANG: nothing finished"
    assert scheduler_faults.of_hang("killed", 137, "") is None
    assert scheduler_faults.of_hang(HANG, 0, "") is None  # it advanced after all


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("sanity error: the job did not run to its end", ""),
        (
            "spawned process error: command 'cp a b' failed with exit code 1:\n--- stdout ---\n"
            "--- stdout ---\n--- stderr ---\ncp: no\n--- stderr ---",
            "",
        ),
        (
            "spawned process error: command 'sbatch rfm_job.sh' failed with exit code 1:\n"
            "--- stdout ---\n--- stdout ---\n--- stderr ---\nsbatch: error: Batch job submission "
            "failed: Unable to contact slurm controller (connect failure)\n--- stderr ---",
            "INFRASTRUCTURE: sbatch: Batch job submission failed: Unable to contact slurm "
            "controller (connect failure)",
        ),
        (
            "spawned process timeout: command 'sbatch rfm_job.sh' timed out after 60s:\n"
            "--- stdout ---\n--- stdout ---\n--- stderr ---\n--- stderr ---",
            "INFRASTRUCTURE: sbatch did not answer in time",
        ),
        (
            "spawned process error: command 'qsub x' failed with exit code 1:\n--- stdout ---\n"
            "--- stdout ---\n--- stderr ---\nqsub: Unknown queue\n--- stderr ---",
            "BLOCKED: the scheduler refused the job: qsub: Unknown queue",
        ),
        (
            "spawned process error: command 'sbatch rfm_job.sh' failed with exit code 1:\n"
            "--- stdout ---\n--- stdout ---\n--- stderr ---\nsbatch: error: site policy: name your "
            "project with -A ACCOUNT, else no job can connect\nsbatch: error: Batch job submission "
            "failed: Unspecified error\n--- stderr ---",
            "BLOCKED: the scheduler refused the job: sbatch: site policy: name your project with "
            "-A ACCOUNT, else no job can connect; Batch job submission failed: Unspecified error "
            "(account=... in the site file, or `site new --account A`)",
        ),
        (
            "job error: [jobid=7] maximum pending time exceeded",
            "BLOCKED: job 7 was not started in 90 s; no reason is known",
        ),
        (
            "job scheduler error: could not retrieve the job id of the submitted job",
            "INFRASTRUCTURE: could not retrieve the job id of the submitted job",
        ),
    ],
)
def test_faults_are_found_in_the_words_of_reframe(text, says):
    assert clause(failure(text, 90.0)) == says


def test_reframe_that_was_killed():
    log = "[==========] Running 2 check(s)\n[==========] Started on Sat\n"
    listing = (
        "- transpose %method=p2p %launch.layout=mpi %launch.case=cnt40 /bb333c43 @a:b+system\n"
    )
    verdict = read(None, log, lambda: listing)
    assert verdict.exit_code == 3
    (case,) = verdict.cases
    assert (case.method, case.layout, case.case) == ("p2p", "mpi", "cnt40")
    assert case.reason.code == Code.NO_REPORT
