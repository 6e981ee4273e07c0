"""Flux, which no machine here has: its command and its Python bindings are faked (fake_flux.py)."""

import json
import os
import shutil
import subprocess
import sys
from types import SimpleNamespace

import pytest
from running import CHECKS, HERE, SITES, run_in

from bisection import schedulers
from bisection.core.identity import Geometry
from bisection.core.reasons.launches import Blocked, Cancelled, Timeout
from bisection.schedulers.scheduler import JobState
from bisection.schedulers.survey import SchedulerError
from bisection.sites.cluster import jobs

FLUX = schedulers.of("flux")
PROGRAM = """
import sys
from pathlib import Path
from bisection.core import paths
paths.ROOT = Path.cwd()
from bisection.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def flux_here(tmp_path_factory, commands, monkeypatch):
    """A folder on PYTHONPATH with the bindings, and the command."""
    folder = tmp_path_factory.mktemp("flux")
    (folder / "flux").mkdir()
    (folder / "flux" / "__init__.py").touch()
    shutil.copy(HERE / "fake_flux.py", folder / "flux" / "job.py")
    commands("flux", f'exec {sys.executable} {folder}/flux/job.py "$@"')
    monkeypatch.setenv("FAKE_FLUX", str(folder))
    monkeypatch.setenv("PYTHONPATH", f"{folder}:{CHECKS}")
    for name in ("scontrol", "qsub"):
        commands(name, "echo 'Could not establish a configuration source' >&2; exit 1")
    return folder


def test_queues_of_flux(flux_here):
    survey = FLUX.read("", "")
    assert (survey.kind, survey.reframe, survey.version) == ("Flux", "flux", "0.66.0")
    batch, off = survey.queues
    assert (batch.name, batch.max_time, batch.max_nodes, batch.closed) == ("batch", 3600, 4, None)
    known = batch.groups[0].known
    assert (known.cores, known.gres, batch.groups[0].up) == (8, "gpu:2", 1)
    assert str(off.closed).startswith("queue off: it has ")
    assert off.max_nodes is None
    groups = [(group.known.gres, len(group.nodes), group.up) for group in off.groups]
    assert groups == [("", 2, 0), ("gpu:2", 1, 1)]


def test_a_flux_that_does_not_answer(commands):
    commands("flux", "echo 'flux-queue: ERROR: broker is not there' >&2; exit 1")
    with pytest.raises(SchedulerError, match="broker is not there"):
        FLUX.read("", "")


def test_the_file_of_a_flux_site_and_its_trial_job(flux_here, commands, house):
    commands("mpirun", "echo 'HYDRA build details: Version: 4.1'")
    commands("mpicc", "echo no licence; exit 1")  # the trial job finds no launcher then
    words = [sys.executable, "-c", PROGRAM, "site", "new", "fx", "--account", "physics"]
    done = subprocess.run(words, cwd=house, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1, done.stderr
    assert "batch: job 7: " in done.stdout
    assert "no licence" in done.stdout
    text = (house / "site-configs" / "fx.py").read_text()
    assert 'scheduler="flux",' in text
    asked = json.loads((flux_here / "asked").read_text())
    assert 'devices=[{"type": "gpu", "num_devices": 2}]' in text.replace("'", '"')
    shape = {"nest": True, "num_nodes": 1, "num_slots": 1, "cores_per_slot": 8, "exclusive": True}
    shape |= {"gpus_per_slot": 2}
    assert asked.items() >= {**shape, "system.queue": "batch", "system.bank": "physics"}.items()
    assert 60 <= asked["duration"] <= 600
    facts = json.loads((house / "site-configs" / "fx.json").read_text())
    assert list(facts["partitions"]["batch"]["boot"]) == [os.uname().nodename]


def test_without_the_bindings_no_job_is_submitted(tmp_path):
    fault = jobs.run(jobs.JobRequest("batch", [], Geometry(1, 1, 1), tmp_path, 20, FLUX), []).fault
    assert isinstance(fault, Blocked)
    assert "no flux Python bindings" in fault.refused


SITE = """
import os
import sys
from reframe.utility import import_module_from_file
sys.path.insert(0, os.environ["FAKE_FLUX"])
site_configuration = import_module_from_file({localhost!r}).site_configuration
(system,) = site_configuration["systems"]
(local,) = system["partitions"]
extras = {{"nodes": 1, "binding": ["--oversubscribe"], "references": []}}
flux = {{"name": "flux", "scheduler": "flux", "access": ["--queue=batch"], "extras": extras}}
system |= {{"name": "fx", "partitions": [{{**local, **flux, "environs": ["system"]}}]}}
"""


def test_a_run_asks_flux_for_what_its_launch_needs(flux_here, tmp_path, fake):
    site = tmp_path / "fx.py"
    site.write_text(SITE.format(localhost=str(SITES / "localhost.py")))
    run = run_in(tmp_path, fake, "--system", str(site))
    assert run.code == 0, run.text
    assert run.case("p2p")["verdict"] == "pass"
    asked = json.loads((flux_here / "asked").read_text())
    assert asked.items() >= {"nest": True, "num_nodes": 1, "system.queue": "batch"}.items()
    assert asked["num_slots"] * asked["cores_per_slot"] > 1
    assert asked["duration"] == 900


@pytest.mark.parametrize(
    ("printed", "state", "kind"),
    [
        ("SCHED|||", JobState("SCHED", True), None),
        ("RUN||n[1-2]|", JobState("RUNNING", True, hosts="n[1-2]"), None),
        ("INACTIVE|COMPLETED|n1|", JobState("COMPLETED", False, hosts="n1"), None),
        ("INACTIVE|TIMEOUT|n1|x", JobState("TIMEOUT", False, "x", "n1"), Timeout),
        ("INACTIVE|CANCELED|n1|by me", JobState("CANCELED", False, "by me", "n1"), Cancelled),
        ("INACTIVE|CANCELED||waits", JobState("CANCELED", False, "waits"), Blocked),
    ],
)
def test_states_of_jobs_and_why_they_stopped(commands, printed, state, kind):
    commands("flux", f"echo '{printed}'")
    job = SimpleNamespace(jobid=7, time_limit=60.0)
    assert FLUX.look(job) == state
    cause = FLUX.cause(job)
    assert (cause and type(cause)) == kind
    assert FLUX.cause(job, ended=True) is None
