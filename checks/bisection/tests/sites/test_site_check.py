"""`site check`: each probe that can be wrong, made wrong by made-up surveys and trial jobs."""

import copy
import dataclasses
import json
import threading

import pytest
from made_cluster import GIB, PARTITION, Machine, counting

from bisection.commands import site_check
from bisection.core.reasons import Code, Reason
from bisection.report.site import REMEDIES, TITLES, remedy, result_lines
from bisection.sites.cluster import check, check_job
from bisection.sites.cluster.check_model import ok, wrong
from bisection.sites.cluster.jobs import Ended
from bisection.sites.cluster.pbs import Pbs
from bisection.sites.cluster.slurm import Slurm
from bisection.sites.cluster.survey import Group
from bisection.sites.site import Defect


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """The Machine, which the command finds in place of a real one."""
    machine = Machine(tmp_path / "lab.py")
    monkeypatch.setenv("BISECTION_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(site_check, "require_site", lambda name: machine.site.path)
    monkeypatch.setattr(site_check, "load_site", lambda name: machine.site)
    for scheduler in (Slurm, Pbs):
        monkeypatch.setattr(scheduler, "survey", machine.read)
    monkeypatch.setattr(Slurm, "unavailable", lambda self, access, nodes: machine.down)
    monkeypatch.setattr(check_job, "try_queue", machine.try_queue)
    monkeypatch.setattr(Slurm, "refusal", lambda self, script: machine.refusal)
    return machine


@pytest.fixture
def checked(machine, command_line):
    """checked(): exit code and output of `bisection site check lab`."""

    def run(name="lab"):
        file = machine.site.path.with_suffix(".json")
        if machine.known:
            facts = {"version": 1, "written": "2026-11-22T07:00:00Z"}
            file.write_text(json.dumps({**facts, "partitions": {"standard": machine.known}}))
        code, text, _ = command_line("site", "check", name)
        return code, text

    return run


def lines_of(text, state):
    """{title: (words, what to do)} of the probes in a state."""
    rows = text.splitlines()
    answers = {}
    for row, following in zip(rows, [*rows[1:], ""], strict=True):
        if row.startswith(f"  {state}"):
            title = next(title for title in TITLES.values() if f"  {title}  " in row)
            answers[title] = row.partition(title)[2].strip(), following.partition("-> ")[2]
    return answers


def test_all_is_right(checked, tmp_path):
    code, text = checked()
    assert (code, lines_of(text, "WRONG"), lines_of(text, "not tried")) == (0, {}, {})
    titles = [title for title in TITLES.values() if title in text]
    assert titles == list(TITLES.values())  # all of them, in this order
    assert not list((tmp_path / "home" / "site-check").iterdir())


def test_job_asks_for_a_rank_per_core_and_no_longer_than_the_queue_allows(machine, checked):
    machine.queue_is(max_time=300)
    checked()
    asked = machine.asked
    assert str(asked.shape) == "2x4x1"
    assert asked.max_time == 300


def spoil_steps(machine, **steps):
    machine.trial.steps |= {name: Ended(*ended) for name, ended in steps.items()}


def spoil_nodes(machine, **facts):
    machine.trial.nodes[1] |= facts


def spoil_outcome(machine, index=0, **values):
    for name, value in values.items():
        setattr(machine.trial.outcomes[index], name, value)


SHARED = Code.CORE_SHARED(rank=1, host="n1", thread=None, cpus="0", other=[0, None, "0"])
WRONG = {
    # name: (what spoils it, the probe, words of its line, words of what to do)
    "a defect of the site file": (
        lambda m: m.site.defects.append(Defect.of("lab.py", 3, Code.NOT_LOADING, error="oops")),
        ("file", "lab.py:3: does not load: oops", "bisection doctor --system lab"),
    ),
    "a silent controller": (
        lambda m: setattr(m, "silent", True),
        ("scheduler", "does not answer. scontrol: refused", "scontrol ping"),
    ),
    "no accounting database": (
        lambda m: m.survey_is(accounting=False),
        ("accounting", "sacct does not answer", 'scheduler="squeue"'),
    ),
    "no account": (
        lambda m: (
            m.partition.update(access=["-p", "standard"]),
            m.survey_is(decisions=[Code.ACCOUNT_OPEN(user="me", accounts=["a"])]),
        ),
        ("account", "account", "account=..."),
    ),
    "a stranger's account": (
        lambda m: m.survey_is(accounts=["chemistry"]),
        ("account", "physics is not one of this user: chemistry", "sacctmgr"),
    ),
    "no such queue": (
        lambda m: m.queue_is(name="express"),
        ("account", "queue standard does not exist; there are express", "sinfo"),
    ),
    "a closed queue": (
        lambda m: m.queue_is(closed=Code.QUEUE_GROUPS(queue="standard", groups=["g"])),
        ("account", "only members of g", "ask for access"),
    ),
    "a drained node": (
        lambda m: (
            setattr(m, "down", [["n1", "bad DIMM"], ["n2", "bad DIMM"]]),
            m.queue_is(
                groups=[
                    Group([dataclasses.replace(n, up=n.name == "n3") for n in group.nodes])
                    for group in m.queue.groups
                ]
            ),
        ),
        ("nodes", "1 of 3 up, 2 needed; n1: bad DIMM, n2: bad DIMM", "state=resume"),
    ),
    "an impossible geometry": (
        lambda m: setattr(m, "refusal", "sbatch: Requested node configuration is not available"),
        ("placement", "mpi, 2x4x1: sbatch: Requested node", "of standard in the site file"),
    ),
    "a job that waits": (
        lambda m: setattr(m.trial, "fault", Code.BLOCKED(job="7", waited=300.0, reason="Priority")),
        ("job", "the scheduler's reason: Priority", "--patience"),
    ),
    "a job that is refused": (
        lambda m: setattr(m.trial, "fault", Code.BLOCKED(refused="sbatch: name it by -A; x")),
        ("job", "sbatch: name it by -A; x (account=... in", "account, qos and nodes of"),
    ),
    "a job that hangs": (
        lambda m: setattr(m.trial, "fault", Code.TIMEOUT(job="7", limit=300.0)),
        ("job", "ran to its time limit", "last step"),
    ),
    "no output": (
        lambda m: setattr(m.trial, "fault", Code.OUTPUT_UNSEEN(job="7", path="/tmp/x", nodes="n1")),
        ("job", "left no output in /tmp/x", "BISECTION_HOME"),
    ),
    "a lost node": (
        lambda m: setattr(m.trial, "fault", Code.NODE_FAIL(job="7", nodes="n1")),
        ("job", "lost a node", "drain"),
    ),
    "too little memory for the job": (
        lambda m: setattr(m.trial, "fault", Code.OUT_OF_MEMORY(job="7")),
        ("job", "more memory", "--mem=0"),
    ),
    "a cancelled job": (
        lambda m: setattr(m.trial, "fault", Code.CANCELLED(job="7", state="CANCELLED")),
        ("job", "was cancelled", "again"),
    ),
    "a controller that went away": (
        lambda m: setattr(m.trial, "fault", Code.INFRASTRUCTURE(said="no contact")),
        ("job", "no contact", "scontrol ping"),
    ),
    "a job that stops": (
        lambda m: setattr(m.trial, "fault", Code.NOT_ENDED(last="bash: killed")),
        ("job", "bash: killed", "output"),
    ),
    "a module that is gone": (
        lambda m: m.trial.modules.update(openmpi="unknown module"),
        ("modules", "openmpi: unknown module", "module avail"),
    ),
    "no mpicc": (
        lambda m: setattr(m.trial, "build", Code.PROBE_NOT_BUILT(last="no mpicc")),
        ("program", "no mpicc", "modules=[...]"),
    ),
    "no FFTW": (
        lambda m: spoil_steps(m, configure=(1, 2.0, "-- x\nCMake Error: fftw3 not found\n")),
        ("kernels", "not configure the kernels: CMake Error: fftw3 not found", "Spack"),
    ),
    "a disk that is full": (
        lambda m: spoil_steps(m, configure=(1, 2.0, "No space left on device\nCMake Error: x\n")),
        ("kernels", "No space left on device: CMake Error: x", "Make room there"),
    ),
    "a compiler that fails": (
        lambda m: spoil_steps(m, compile=(2, 2.0, "fatal error: omp.h\n")),
        ("kernels", "does not compile: fatal error: omp.h", "Spack"),
    ),
    "a kernel that dies": (
        lambda m: spoil_steps(m, kernel=(132, 2.0, "Illegal instruction\n")),
        ("kernels", "does not run: Illegal instruction", "Spack"),
    ),
    "a kernel that waits for a core": (
        lambda m: spoil_steps(m, kernel=(124, 60.0, "srun: error: STEP 4.5 CANCELLED\n")),
        ("kernels", "a kernel does not run within 60 s", "Other processes"),
    ),
    "a node without the folder": (
        lambda m: m.trial.unseen.update(n2="No such file or directory"),
        ("seen", "is not seen by n2: No such file", "these nodes mount"),
    ),
    "a node without our Python": (
        lambda m: spoil_nodes(m, sees={check_job.sys.executable: False}),
        ("seen", "is not seen by n2", "file system"),
    ),
    "too many cores in the site file": (
        lambda m: m.trial.nodes[1]["processor"].update(num_cpus=2),
        ("alike", "the site file gives 4 cores, n2 has 2", "--refresh"),
    ),
    "unlike nodes": (
        lambda m: spoil_nodes(m, governor="powersave"),
        ("alike", "governor performance on n1, powersave on n2", "constraint"),
    ),
    "a lost memory module": (
        lambda m: spoil_nodes(m, memory=14 * GIB),
        ("alike", "memory 16 GiB on n1, 14 GiB on n2", "Repair"),
    ),
    "a device that is down on a node": (
        lambda m: m.trial.nodes[1]["networks"][0].update(state="down"),
        ("alike", "mlx5_0 200 Gb/s on n1, not up on n2", "Repair"),
    ),
    "microcode of another version than recorded": (
        lambda m: m.known.update(microcode="0x0"),
        ("facts", "microcode 0x0 -> 0x1 on n1, n2", "bisection site new lab --refresh"),
    ),
    "a slower port than recorded": (
        lambda m: [n["networks"][0].update(rate=100.0) for n in m.trial.nodes],
        ("facts", "mlx5_0 200 Gb/s -> 100 Gb/s on n1, n2", "--refresh"),
    ),
    "a launcher that starts nothing": (
        lambda m: spoil_outcome(m, fault=Code.NO_WORLD(launcher="srun", last="PMI2 not built")),
        ("world", "srun started no MPI world (layout mpi): PMI2 not built", "srun --mpi=list"),
    ),
    "a world per rank": (
        lambda m: spoil_outcome(m, fault=Code.WORLDS(launcher="srun", worlds=8, size=1, asked=8)),
        ("world", "8 MPI worlds of 1 rank instead of one of 8", "--mpi=pmi2"),
    ),
    "a program that dies at its end": (
        lambda m: spoil_outcome(m, 1, fault=Code.NOT_ENDED(last="corrupted heap")),
        ("world", "corrupted heap", "output"),
    ),
    "two ranks on a core": (
        lambda m: spoil_outcome(m, 2, fault=Code.MISPLACED(seats=[SHARED])),
        ("cores", "INVALID placement (layout node2): rank 1 on n1 (cpus 0) shares", "`binding`"),
    ),
    "TCP beside InfiniBand": (
        lambda m: spoil_outcome(m, carried={"eth0": 1.01}),
        (
            *("network", "eth0 101% of the bytes, not through mlx5_0 (infiniband, 200 Gb/s)"),
            "UCX_TLS",
        ),
    ),
    "a slow link": (
        lambda m: spoil_outcome(m, bandwidth=5e9, links=[("n1", "n2", 2e-6, 5e9)]),
        ("speed", "5 GB/s (n1 to n2); were 2 us, 20 GB/s", "cable"),
    ),
    "a high latency": (
        lambda m: spoil_outcome(m, latency=9e-6, links=[("n1", "n2", 9e-6, 2e10)]),
        ("speed", "9 us, 20 GB/s (n1 to n2); were 2 us", "cable"),
    ),
    "a launch that outlives its rank": (
        lambda m: spoil_steps(m, leave=(124, 30.0, "")),
        ("exit", "did not end in 10 s", "another launcher"),
    ),
    "a launch that outlives its rank after a long start": (
        lambda m: spoil_steps(m, leave=(124, 45.0, "LEFT 80.000\n", 100.0)),
        ("exit", "did not end in 10 s", "another launcher"),
    ),
    "a Slurm that binds nothing": (
        lambda m: (
            m.survey_is(task_plugin="task/none"),
            spoil_outcome(m, 1, fault=Code.MISPLACED(seats=[SHARED])),
        ),
        ("cores", "slurm.conf has TaskPlugin=task/none", "TaskPlugin=task/affinity"),
    ),
    "an exit code that is lost": (
        lambda m: spoil_steps(m, leave=(0, 0.5, "")),
        ("exit", "a rank exited with 3, and srun with 0", "passes for success"),
    ),
    "a queue for short jobs": (
        lambda m: m.queue_is(max_time=300),
        ("limits", "gives a job 5 min, a launch asks for 15 min", "max_time"),
    ),
    "little memory": (
        lambda m: spoil_nodes(m, granted=GIB // 2),
        ("limits", "0.5 GiB on n2, the largest launch needs 1.25 GiB", "--mem=0"),
    ),
    "little memory by Slurm's configuration, where nothing enforces it": (
        lambda m: setattr(m.trial, "memory", GIB / 2),
        ("limits", "0.5 GiB on n1, the largest launch needs 1.25 GiB", "--mem=0"),
    ),
}


@pytest.mark.parametrize("fault", WRONG)
def test_what_is_wrong_says_what_to_do(fault, machine, checked, tmp_path):
    spoil, (probe, words, mend) = WRONG[fault]
    spoil(machine)
    code, text = checked()
    assert code == 1
    wrong = lines_of(text, "WRONG")
    # A node that is unlike the others is also unlike the recorded one.
    assert list(wrong) in ([TITLES[probe]], [TITLES["alike"], TITLES["facts"]])
    line, advice = wrong[TITLES[probe]]
    assert words in line
    assert mend in advice
    # What rests on it is not tried, and all else is.
    rests = {TITLES[name] for name in resting_on(probe)}
    assert set(lines_of(text, "not tried")) == rests
    if TITLES["job"] not in rests:  # an empty folder is not named
        assert str(tmp_path / "home" / "site-check" / "lab") in text.splitlines()[-1]


def resting_on(root):
    names = {root}
    for probe in check.PROBES:
        if names & set(probe.rests_on):
            names.add(probe.name)
    return names - {root}


def test_every_probe_is_made_wrong():
    assert {probe for _, (probe, _, _) in WRONG.values()} == set(TITLES)
    assert [probe.name for probe in check.PROBES] == list(TITLES)


def test_a_probe_comes_after_those_that_it_rests_on():
    before = set()
    for probe in check.PROBES:
        assert set(probe.rests_on) <= before
        before.add(probe.name)


def test_without_facts_what_needs_them_is_not_tried(machine, checked):
    machine.known = None
    code, text = checked()
    assert code == 3
    untried = lines_of(text, "not tried")
    assert list(untried) == [TITLES["facts"], TITLES["speed"]]
    assert untried[TITLES["speed"]][0].startswith("2 us, 20 GB/s; ")
    assert all("bisection site new lab --refresh" in advice for _, advice in untried.values())


def test_bytes_that_no_device_counts_are_not_judged(machine, checked):
    spoil_outcome(machine, carried={"eth0": 0.03})
    code, text = checked()
    assert (code, list(lines_of(text, "not tried"))) == (3, [TITLES["network"]])


def test_a_long_start_up_is_not_the_end_of_a_rank(machine, checked):
    spoil_steps(machine, leave=(3, 30.0, "LEFT 99.500\n", 100.0))
    assert checked()[0] == 0


def test_a_scheduler_that_is_not_read_leaves_all_else_untried(machine, checked):
    machine.partition["scheduler"] = "lsf"
    code, text = checked()
    assert code == 3
    assert len(lines_of(text, "not tried")) == len(TITLES) - 1


def test_pbs_is_asked_for_no_place(machine, checked):
    machine.partition.update(scheduler="pbs", access=["-q standard", "-A physics"])
    code, text = checked()
    assert code == 0
    absent = [title for title in TITLES.values() if title not in text]
    assert absent == [TITLES["accounting"], TITLES["placement"]]


def test_spack_builds_its_kernels_itself(machine, checked):
    machine.site.environs["system"]["features"] = ["kernels", "spack"]
    code, text = checked()
    assert (code, list(lines_of(text, "not tried"))) == (3, [TITLES["kernels"]])


def test_partitions_of_alike_nodes_build_once(machine, checked):
    other = {**copy.deepcopy(PARTITION), "name": "standard-2", "fullname": "lab:standard-2"}
    machine.site.partitions.append(other)
    code, text = checked()
    assert code == 0
    assert "as on standard, which is on the same nodes" in text
    code, text = checked("lab:standard-2")  # whose facts are those of standard
    assert code == 0
    assert "lab:standard\n" not in text


def test_partitions_of_other_nodes_build_for_themselves(machine, checked):
    """Nodes of one model may still lack a library that others have."""
    other = {**copy.deepcopy(PARTITION), "name": "fat", "fullname": "lab:fat"}
    other["access"] = ["--partition=standard", "--constraint=fat", "--account=physics"]
    machine.site.partitions.append(other)
    text = checked()[1]
    assert "on the same nodes" not in text
    assert text.count("configured, one built and run") == 2


@pytest.mark.parametrize("option", ["--exclusive", "--mem=0"])
def test_jobs_are_in_the_queue_at_once_where_they_share_no_node(
    machine, checked, monkeypatch, option
):
    names = ("standard", "fat", "long", "gpu", "debug", "huge")
    queues = [dataclasses.replace(machine.queue, name=name) for name in names]
    machine.survey_is(queues=queues)
    machine.site.partitions[:] = [
        {**copy.deepcopy(PARTITION), "name": name, "fullname": f"lab:{name}",
         "access": [f"--partition={name}", option, "--account=physics"]}
        for name in names
    ]  # fmt: skip
    try_queue, most = counting(machine.try_queue)
    monkeypatch.setattr(check_job, "try_queue", try_queue)
    _, text = checked()
    shown = [line.removeprefix("lab:") for line in text.splitlines() if line.startswith("lab:")]
    assert shown == list(names)
    assert max(most) == (check.AT_ONCE if option == "--exclusive" else 1)


def test_an_error_of_one_partition_ends_the_check(machine, checked, monkeypatch, capsys):
    machine.site.partitions += [{**copy.deepcopy(PARTITION), "name": "two", "fullname": "lab:two"}]

    def try_queue(*_, **how):
        raise OSError("no such folder")

    monkeypatch.setattr(check_job, "try_queue", try_queue)
    assert checked()[0] == 2


def test_who_closes_a_check_cancels_its_jobs(machine, tmp_path):
    stopped, running = [], threading.Barrier(2)

    def look(subject):
        running.wait(10)
        if subject.name == "two":
            stopped.append(subject.stop.wait(10))
        return ok(Code.NO_SCHEDULER())

    machine.partition["access"] = ["--exclusive"]
    two = {**copy.deepcopy(PARTITION), "name": "two", "access": ["-p two", "--exclusive"]}
    subjects = check.subjects(machine.site, [machine.partition, two], tmp_path, 1)
    results = check.run([check.Probe("job", "", look)], subjects)
    next(results)
    results.close()
    assert stopped == [True]


def test_a_partition_on_this_host_needs_no_scheduler(machine, checked):
    machine.partition.update(scheduler="local", access=[], extras={"nodes": 1, "binding": []})
    machine.trial.outcomes = machine.trial.outcomes[:1]
    machine.known = None
    code, text = checked()
    assert code == 0
    assert "none: launches run on this host" in text


def test_unknown_partition_is_a_usage_error(checked, command_line, machine):
    code, _, errors = command_line("site", "check", "lab:fast")
    assert code == 2
    assert "lab has standard" in errors


@pytest.mark.parametrize("access", [["-p standard"], ["-pstandard"], ["--partition", "standard"]])
def test_a_queue_is_found_however_it_is_written(machine, checked, access):
    machine.partition["access"] = [*access, "-A physics"]
    assert checked()[0] == 0


def test_every_remedy_is_of_a_code_that_can_come():
    for code in REMEDIES:
        text = remedy(Reason(code, {"environ": "spack"}), "lab", "standard")
        assert text.endswith(".")
        assert "{" not in text


def test_lines_are_aligned():
    fine = check.Result("file", "", ok(Code.SITE_LOADS(partitions=1)))
    bad = check.Result("exit", "p", wrong(Code.RANK_EXIT_HANGS()))
    columns = {line.index(word) for result, word in ((fine, "1 part"), (bad, "its launch did"))
               for line in result_lines(result, "lab")[:1]}  # fmt: skip
    assert len(columns) == 1
