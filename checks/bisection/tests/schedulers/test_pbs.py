"""PBS, which no machine here has: its commands are faked after its manual pages.

The fakes run a submitted script at once and print what a finished job prints.
"""

import json
import signal
import threading
import time
from types import SimpleNamespace

import pytest

from bisection import cli, schedulers
from bisection.core.identity import Geometry
from bisection.schedulers.scheduler import JobState
from bisection.schedulers.slurm import Slurm
from bisection.schedulers.survey import SchedulerError
from bisection.sites import rules, site_files
from bisection.sites.cluster import jobs
from bisection.sites.cluster.jobs import JobRequest, Step

# Composed after outputs of PBS 20 that sites have published, and qstat(1B).
OPEN = {"queue_type": "Execution", "enabled": "True", "started": "True"}
LIMITS = {"ncpus": 144, "nodect": 4, "walltime": "01:00:00"}
QUEUES = {
    "pbs_version": "20.0.1",
    "pbs_server": "isrv1",
    "Queue": {
        "qexp": {**OPEN, "resources_max": LIMITS, "default_chunk": {"ncpus": 36, "Qlist": "qexp"}},
        "qfat": {**OPEN, "default_chunk": {"Qlist": "qfat"}},
        "route": {**OPEN, "queue_type": "Route", "route_destinations": "qexp,qfat"},
        "inner": {**OPEN, "from_route_only": "True"},
        "off": {**OPEN, "enabled": "False"},
    },
}


def node(name, queues, state="free", **more):
    there = {"arch": "linux", "host": name, "mem": "192gb", "ncpus": 36, "vnode": name}
    known = {"state": state, "pcpus": 36, "sharing": "default_excl"}
    return {name: {**known, "resources_available": {**there, "Qlist": queues, **more}}}


NODES = {
    "nodes": {
        **node("cn1", "qexp,qprod"),
        **node("cn2", "qexp,qprod", state="job-exclusive"),
        **node("cn3", "qexp", state="offline,job-busy"),
        **node("fat1", "qfat", ncpus=128, ngpus=8),
    }
}
PBS = schedulers.of("pbs")


@pytest.fixture
def pbs_here(commands, tmp_path, monkeypatch):
    monkeypatch.setattr(Slurm, "is_here", lambda _: False)
    (tmp_path / "queues").write_text(json.dumps(QUEUES))
    (tmp_path / "nodes").write_text(json.dumps(NODES))
    job = {"job_state": "F", "exec_host": "cn1/0*36+cn2/0*36"}
    (tmp_path / "job").write_text(json.dumps({"Jobs": {"7.isrv1": job}}))
    show = f"if [ $1 = -Q ]; then cat {tmp_path}/queues; else cat {tmp_path}/job; fi"
    commands("qstat", f"[ $1 = -Q ] || touch {tmp_path}/asked; {show}")
    commands("pbsnodes", f"cat {tmp_path}/nodes")
    # As ReFrame calls it: -o OUTPUT -e ERRORS SCRIPT
    commands("qsub", f'cp $5 {tmp_path}/submitted; bash $5 >"$2" 2>"$4"; echo 7.isrv1')
    commands("pbsdsh", '[ "$1" = -- ] && shift; "$@"')
    commands("qdel", f"touch {tmp_path}/deleted")


def test_queues_of_pbs(pbs_here):
    survey = schedulers.here().read("", "")
    assert (survey.kind, survey.reframe, survey.version) == ("PBS", "pbs", "20.0.1")
    queues = {queue.name: queue for queue in survey.queues}

    def groups(name):
        return [(g.known.cores, g.known.gres, len(g.nodes), g.up) for g in queues[name].groups]

    assert groups("qexp") == [(36, "", 3, 2)]
    assert groups("qfat") == [(128, "ngpus:8", 1, 1)]
    assert groups("route") == groups("qexp") + groups("qfat")
    qexp = queues["qexp"]
    assert (qexp.max_time, qexp.max_nodes, qexp.whole_nodes) == (3600, 4, True)
    closed = {name: str(queue.closed) for name, queue in queues.items() if queue.closed}
    assert closed.keys() == {"inner", "off"}
    assert all(f"queue {name}: it has " in text for name, text in closed.items())


def test_a_pbs_that_does_not_answer(pbs_here, commands):
    commands("qstat", "echo 'Connection refused' >&2; exit 111")
    with pytest.raises(SchedulerError, match=r"qstat: Connection refused$"):
        schedulers.here().read("", "")
    commands("qstat", "echo '{\"Queue\": '")
    with pytest.raises(SchedulerError, match="Expecting value"):
        schedulers.here().read("", "")


def test_a_job_of_pbs(pbs_here, tmp_path):
    access = ["-q qexp", "-A proj", "cpu=milan"]
    steps = [Step("hello", ["echo", "there"]), Step("each", [*PBS.per_node(2), "echo", "x"])]
    request = JobRequest("qexp", access, Geometry(2, 36, 1), tmp_path, 20, PBS)
    finished = jobs.run(request, steps)
    assert finished.fault is None
    assert (finished.job, finished.hosts) == ("7.isrv1", ["cn1", "cn2"])
    assert [finished.steps[name].text for name in ("hello", "each")] == ["there", "x"]
    options = {"-l select=2:mpiprocs=36:ncpus=36:cpu=milan", "-q qexp", "-A proj"}
    lines = (tmp_path / "submitted").read_text().splitlines()
    assert {f"#PBS {option}" for option in options} < set(lines)


@pytest.mark.parametrize(
    ("job", "state"),
    [
        ({"job_state": "Q", "comment": "Too few nodes"}, JobState("Q", True, "Too few nodes")),
        ({"job_state": "R", "exec_host": "cn1/0*36"}, JobState("RUNNING", True, hosts="cn1")),
    ],
)
def test_states_of_jobs(pbs_here, tmp_path, job, state):
    (tmp_path / "job").write_text(json.dumps({"Jobs": {"7": job}}))
    assert PBS.look(SimpleNamespace(jobid="7")) == state


def test_the_file_of_a_pbs_site(pbs_here, commands, house, capsys):
    commands("mpirun", "echo 'HYDRA build details: Version: 4.1'")
    commands("mpicc", "echo no licence; exit 1")  # the trial job finds no launcher then
    assert cli.main(["site", "new", "it", "--queue", "qexp"]) == 1
    text = (house / "site-configs" / "it.py").read_text()
    assert 'site_configuration = common.cluster(\n    __file__,\n    scheduler="pbs",\n' in text
    assert 'common.partition("qexp", nodes=[1, 2, 3], launcher="mpirun"),' in text
    assert "# DECIDE: qexp: no launcher is proven. no MPI program could be built" in text
    assert "no licence" in text
    assert "qexp: job 7.isrv1: " in capsys.readouterr().out
    loaded = site_files.load_site("it")
    assert not any(rules.site_defects(loaded))
    assert {part["scheduler"] for part in loaded.partitions} == {"pbs"}


@pytest.mark.usefixtures("pbs_here")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_site_new_cancels_its_jobs(commands, house, capsys, tmp_path, number):
    (tmp_path / "job").write_text(json.dumps({"Jobs": {"7": {"job_state": "Q"}}}))
    commands("qsub", "echo 7")

    def interrupt():
        while not (tmp_path / "asked").exists():  # the job is looked at
            time.sleep(0.1)
        signal.pthread_kill(threading.main_thread().ident, number)

    threading.Thread(target=interrupt, daemon=True).start()
    assert cli.main(["site", "new", "it", "--queue", "qexp"]) == 3
    assert "interrupted: its jobs are cancelled, nothing is written" in capsys.readouterr().err
    assert (tmp_path / "deleted").exists()
    assert not (house / "site-configs" / "it.py").exists()
