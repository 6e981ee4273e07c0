"""The trial job: its script, what it reads from its output, and what it does without one."""

import ast
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from reframe.core.backends import register_scheduler
from reframe.core.exceptions import SpawnedProcessError
from reframe.core.schedulers.local import LocalJobScheduler
from running import TWO_CORES

from bisection import schedulers
from bisection.core import launchers
from bisection.core.identity import Geometry
from bisection.core.reasons import launches
from bisection.core.reasons.base import Text
from bisection.core.thresholds import LIMITS
from bisection.schedulers.scheduler import JobState, Local, Scheduler
from bisection.sites.cluster import jobs, node_facts
from bisection.sites.cluster.jobs import Step, StepEnd
from bisection.sites.cluster.trial import Launcher, misplaced, telling, try_queue

PROGRAM = Path(node_facts.__file__)
needs_mpi = pytest.mark.skipif(shutil.which("mpicc") is None, reason="needs mpicc")


@register_scheduler("scripted")
class Backend(LocalJobScheduler):
    """ReFrame's side of Scripted."""

    def submit(self, job):
        if words := job.scripted.refuses and job.scripted.refuses.pop(0):
            raise SpawnedProcessError("sbatch duo.sh", "", words, 1)
        if job.scripted.text is not None:
            Path(job.stdout).write_text(job.scripted.text)
        job._jobid = "7"

    def cancel(self, job):
        job.scripted.cancelled.append(job.jobid)


class Scripted(Scheduler):
    """A scheduler whose job goes through given states, and prints a given text at its end."""

    def __init__(self, *states, output=None, refuses=(), stopped=None):
        super().__init__("scripted")
        self.states, self.text, self.stopped = list(states), output, stopped
        self.refuses, self.cancelled = list(refuses), []

    def ask(self, job, *how):
        job.scripted = self

    def is_full(self, refused):
        return "SubmitJob" in refused

    def look(self, job):
        return self.states.pop(0) if len(self.states) > 1 else self.states[0]

    def cause(self, job):
        return self.stopped


OVER = JobState("COMPLETED", alive=False, hosts="n[1-2]")
LOCAL = schedulers.of("local")


def request(folder, scheduler=LOCAL, patience=120, shape=(1, 1, 1), **variables):
    folder.mkdir(exist_ok=True)
    where = (Geometry(*shape), folder, patience, scheduler)
    return jobs.JobRequest("duo", ["--exclusive"], *where, variables=variables)


def outcome_of(scheduler, folder, patience=0.0, steps=()):
    return jobs.run(request(folder, scheduler, patience), steps)


# ---- a job ----


def script_of(asked, *steps):
    with jobs._in_folder(asked):
        jobs._job(asked, 180.0).prepare(jobs.script(asked, steps))
    return asked.file("sh").read_text()


def test_script_has_what_reframe_asks_for_and_the_steps(tmp_path):
    asked = request(tmp_path, schedulers.of("slurm"), shape=(2, 4, 1), Y="a b")
    text = script_of(asked, Step("a", ["echo", "it's"], 5), Step("b", "X=1; false"))
    options = {"nodes=2", "ntasks=8", "ntasks-per-node=4", "exclusive", "no-requeue", "time=0:3:0"}
    assert {f"#SBATCH --{option}" for option in options} < set(text.splitlines())
    done = subprocess.run(["bash"], input=text, capture_output=True, text=True, timeout=300)
    steps = jobs.read_steps(done.stdout)
    assert steps["a"].text == "it's"
    assert (steps["a"].code, steps["b"].code) == (0, 1)
    assert done.stdout.endswith("@done\n")


@pytest.mark.parametrize("name", ["slurm", "pbs"])
def test_a_folder_of_any_name_is_one_word_of_a_directive(tmp_path, name):
    """sbatch splits at blanks, takes quotes away as a shell does, and replaces %j."""
    folder = tmp_path / "Mein Prüf'ordner 5%j"
    text = script_of(request(folder, schedulers.of(name)))
    directives = [line for line in text.splitlines() if line.startswith(("#SBATCH", "#PBS"))]
    files = [shlex.split(line.removeprefix("#"))[1] for line in directives if "ordner" in line]
    whole = str(folder).replace("%", "%%")
    expected = [f"--output={whole}/duo.out", f"--error={whole}/duo.err"]
    assert files == (expected if name == "slurm" else [])
    subprocess.run(["bash", "-eu"], input=text, text=True, timeout=60, check=True)
    finished = outcome_of(LOCAL, folder, patience=60, steps=[Step("here", ["pwd"])])
    assert (finished.fault, finished.steps["here"].text) == (None, str(folder))


def test_job_on_this_host_that_does_not_end_is_killed(tmp_path):
    endless = "trap : TERM; echo $BASHPID >number; while :; do sleep 1; done"
    fault = outcome_of(LOCAL, tmp_path, patience=1, steps=[Step("endless", endless)]).fault
    assert isinstance(fault, launches.Timeout)
    assert fault.limit == 1
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "number").read_text()), 0)


def test_steps_before_a_stop_are_read():
    text = "@begin a\none\ntwo\n\n@end 3 10.5 12.0\n@begin b\nslurmstepd: error: CANCELLED\n"
    assert jobs.read_steps(text) == {"a": StepEnd(3, 1.5, "one\ntwo", 12.0)}


def test_step_that_prints_much_or_hangs(tmp_path):
    rank = '["nid001234", "0-127"], '  # of which there may be many
    much = Step("much", ["python3", "-c", f"print({rank!r} * 50_000)"])
    steps = [Step("hang", ["sleep", "60"], limit=0.5), much]
    finished = outcome_of(LOCAL, tmp_path, patience=60, steps=steps)
    assert finished.fault is None
    assert finished.steps["hang"].code == jobs.STOPPED
    assert len(finished.steps["much"].text) == 50_000 * len(rank)


@pytest.mark.parametrize(
    ("scheduler", "code", "values"),
    [
        (Scripted(OVER, refuses=["sbatch: no"]), launches.Blocked, {"refused": "sbatch: no"}),
        (Scripted(JobState("PENDING", True, "Priority")), launches.Blocked, {"reason": "Priority"}),
        (Scripted(JobState("RUNNING", True, hosts="n1")), launches.Timeout, {"nodes": "n1"}),
        (Scripted(JobState("", True, error="no")), launches.Infrastructure, {"why": "no"}),
        (Scripted(OVER), Text, {"text": "it ran on n[1-2]"}),
        (Scripted(OVER, stopped=launches.NodeFail(job="7")), launches.NodeFail, {"job": "7"}),
        (Scripted(OVER, output="@begin a\nbash: bad\n"), launches.NotEnded, {"line": "bash: bad"}),
    ],
)
def test_job_that_does_not_end_says_why(tmp_path, monkeypatch, scheduler, code, values):
    monkeypatch.setattr(jobs, "LATE", 0)
    monkeypatch.setattr(jobs, "GRACE", 0)
    # Of an earlier job, which is not read.
    (tmp_path / "duo.out").write_text("@begin a\n\n@end 0 1 2\n@done\n")
    fault = outcome_of(scheduler, tmp_path).fault
    assert type(fault) is code
    ((name, value),) = values.items()
    shown = getattr(fault, name)
    assert shown == value or (code is Text and shown.startswith("job 7 left no output in "))
    assert shown.endswith(value)
    alive = scheduler.states[0].alive
    assert scheduler.cancelled == (["7"] if alive else [])


@pytest.mark.parametrize(("scheduler", "name"), [("slurm", "sbatch"), ("pbs", "qsub")])
def test_all_that_a_scheduler_prints_of_a_refusal_is_kept(tmp_path, commands, scheduler, name):
    lines = f"{name}: error: site policy: name your project\n{name}: error: Unspecified error"
    commands(name, f"echo '{lines}' >&2; exit 1")
    fault = outcome_of(schedulers.of(scheduler), tmp_path).fault
    assert fault.refused == f"{name}: site policy: name your project; Unspecified error"


def test_job_waits_where_the_user_may_not_queue_more(tmp_path, monkeypatch):
    monkeypatch.setattr(jobs, "RARELY", 0.01)
    monkeypatch.setattr(jobs, "LATE", 0)
    words = "sbatch: QOSMaxSubmitJobPerUserLimit; Job violates"
    patient, not_patient = (Scripted(OVER, refuses=[words] * 3) for _ in range(2))
    assert outcome_of(not_patient, tmp_path, patience=0).fault.refused == words
    assert "left no output" in str(outcome_of(patient, tmp_path, patience=60).fault)


# ---- the facts of a node ----


def test_facts_of_a_node_run_on_an_old_python():
    nodes = [*ast.walk(ast.parse(PROGRAM.read_text(), feature_version=(3, 6)))]
    hints = [getattr(node, name, None) for node in nodes for name in ("annotation", "returns")]
    # Neither list[str] nor int | None.
    assert {type(hint) for hint in hints if hint} == {ast.Name, ast.Constant}


def test_facts_of_this_node(tmp_path):
    def answer(folder):
        words = [sys.executable, PROGRAM, folder, tmp_path, "/nowhere"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=True)
        return json.loads(done.stdout.removeprefix("FACTS "))

    facts = json.loads((tmp_path / f"{answer(tmp_path)['host']}.json").read_text())
    assert facts["sees"] == {str(tmp_path): True, "/nowhere": False}
    assert facts["processor"]["num_cpus"] == len(os.sched_getaffinity(0))
    assert 1e8 < facts["granted"] <= facts["memory"]
    assert facts["boot"] > 1e9
    assert all(device["kind"] for device in facts["networks"])
    assert "No such file" in answer(tmp_path / "absent")["error"]


def test_node_that_slurm_calls_by_another_name_than_its_host_is_known(tmp_path, monkeypatch):
    class OtherName(Local):
        def look(self, job):
            return replace(super().look(job), hosts="n[1-2]")

    monkeypatch.setenv("SLURMD_NODENAME", "n1")
    assert list(try_queue(request(tmp_path, OtherName("local")), []).unseen) == ["n2"]


# ---- where ranks are ----


def node(host, *cores):
    return {"host": host, "processor": {"topology": {"cores": list(cores)}}}


UNALIKE = [node("a", "0x3", "0xc"), node("b", "0x5", "0xa")]  # each numbers its CPUs in its own way
FOUR = [node("a", "0x1", "0x2", "0x4", "0x8")]


@pytest.mark.parametrize(
    ("ranks", "shape", "nodes", "wrong"),
    [
        ("a 0-1, a 2-3, b 0,2, b 1,3", (2, 2, 1), UNALIKE, []),
        ("a 0-1, a 2-3, b 0, b 2", (2, 2, 1), UNALIKE, [(launches.CoreShared, "b")]),
        ("a 0-1, a 2-3", (1, 2, 2), FOUR, []),  # each thread has a core
        ("a 0, a 2-3", (1, 2, 2), FOUR, [(launches.CoreShared, "a")]),
        ("a 0-3, a 0-3", (1, 2, 2), FOUR, [(launches.CoreShared, "a")] * 2),
        ("a 0, a 1", (2, 1, 1), FOUR, [(Text, "")]),
    ],
)
def test_where_ranks_are(ranks, shape, nodes, wrong):
    ranks = re.findall(r"(\w) ([\d,-]*\d)", ranks)
    seats = misplaced(ranks, Geometry(*shape), nodes)
    assert [(type(seat), getattr(seat, "host", "")) for seat in seats] == wrong


def test_headers_of_messages_do_not_count_as_messages(tmp_path):
    world = {"size": 8, "library": "", "ranks": [["n1", "0"]] * 8}
    world |= {"links": [["n1", "n2", 1, 1, 0.0]], "messages": 100}
    world |= {"sent": [["eth0", 101], ["lo", 1]]}
    text = f"@begin launch/0\nPROBE {json.dumps(world)}\n\n@end 0 1 2\n@done\n"
    asked = request(tmp_path, Scripted(OVER, output=text), shape=(2, 4, 1))
    (outcome,) = try_queue(asked, [Launcher("srun")]).outcomes
    assert outcome.carried == {"eth0": 1.0}


def test_telling_line_of_a_page():
    page = "-----\nThe application appears to have been direct launched\nOMPI was not built\nbye\n"
    assert telling(page) == "OMPI was not built"
    assert telling("") == ""
    # Of two nodes; that of each begins with its host and process.
    page = "[node1:00121] OPAL ERROR: Unreachable\n[node2:00033] OPAL ERROR: Unreachable\n"
    assert telling(page) == "OPAL ERROR: Unreachable"


# ---- launchers, for real ----


@needs_mpi
def test_trial_on_this_host(tmp_path, commands, monkeypatch):
    if "," not in TWO_CORES:
        pytest.skip("needs two cores")
    # As MPICH under a launcher that does not know it: a world per rank, each exit 0.
    commands("mpiexec", 'shift 2; for i in 1 2; do "$@" & done; wait')
    for name in launchers.SHARING:
        monkeypatch.delenv(name, raising=False)
    tried = [
        Launcher("mpirun", binding=launchers.binding("mpirun", launchers.library("mpirun")[0])),
        Launcher("mpiexec"),
        Launcher("mpirun", binding=["--no-such-option"]),
    ]
    asked = request(tmp_path / "job", shape=(1, 2, 1), **launchers.AS_ROOT)
    trial = try_queue(asked, tried, sees=[tmp_path / "absent"])
    assert trial.fault is None
    assert trial.build is None
    assert trial.nodes[0]["sees"] == {sys.executable: True, str(tmp_path / "absent"): False}
    right, strange, broken = trial.outcomes
    assert right.fault is None
    assert len({cpus for _, cpus in right.ranks}) == 2
    assert (type(strange.fault), strange.fault.worlds) == (launches.Worlds, 2)
    assert isinstance(broken.fault, launches.NoWorld)
    assert "no-such-option" in broken.fault.line


@needs_mpi
@pytest.mark.parametrize("others", [True, False])
def test_a_rank_without_a_core_is_told_from_a_slow_link(tmp_path, monkeypatch, others):
    """Two hosts by their names, each with one core: with another process on it, or before all."""
    alone = ["chrt", "--fifo", "10"]
    able = ["unshare", "--uts", *alone, "true"]
    if "," not in TWO_CORES or subprocess.run(able, capture_output=True).returncode:
        pytest.skip("needs two cores, and the rights of root")
    program = tmp_path / "probe"
    subprocess.run(["mpicc", "-O1", "-o", program, PROGRAM.with_name("probe.c")], check=True)
    cores = TWO_CORES.split(",")
    words = [[*([] if others else alone), "taskset", "-c", core, str(program)] for core in cores]
    line = ["mpirun", "-n", "1", "--bind-to", "none", *words[0], ":", "-n", "1"]
    line += ["unshare", "--uts", "sh", "-c", f"hostname other; exec {shlex.join(words[1])}"]
    loop = ["sh", "-c", "while :; do :; done"]
    busy = [subprocess.Popen(["taskset", "-c", core, *loop]) for core in cores if others]
    try:
        environ = {**os.environ, **launchers.AS_ROOT, **launchers.SHARING}
        done = subprocess.run(line, env=environ, capture_output=True, text=True, timeout=300)
    finally:
        for process in busy:
            process.kill()
            process.wait()
    (link,) = json.loads(done.stdout.partition("PROBE ")[2])["links"]
    assert link[1] == "other"
    assert (link[4] > LIMITS.disturbed_sample) == others


def test_module_that_does_not_load_is_named(tmp_path, monkeypatch):
    # Not every kind of modules exits with another code where one is absent.
    body = 'if [ $2 = gcc ]; then LOADEDMODULES=x/1:$2/13.2; else echo "Unable to locate $2"; fi'
    monkeypatch.setenv("BASH_FUNC_module%%", f"() {{ {body}; }}")
    trial = try_queue(request(tmp_path), [], ["gcc", "cc"])
    assert trial.modules == {"cc": "Unable to locate cc"}


@needs_mpi
def test_program_is_built_on_this_host_where_nodes_have_no_compilers(tmp_path):
    nowhere = Scripted(OVER, output="@done\n")  # whose job runs nothing
    asked = request(tmp_path, nowhere)
    trial = try_queue(asked, [], build_here=True, builds=[Step("more", ["false"])])
    assert trial.build is None
    assert trial.steps["more"].code == 1
    assert (tmp_path / "duo.probe").exists()
    assert try_queue(asked, []).steps == {}
