"""A centre's own ReFrame configuration, lent our environment as site-configs/README.md says."""

import copy
import re
import runpy
import sys

import pytest
from houses import told
from running import CHECKS, ONE, SITES, on_one_line, run_in, start

from bisection.core import launchers
from bisection.sites import rules, site_files

# As a centre has it: nothing in it is of this suite.
THEIRS = """
site_configuration = {
    "systems": [
        {
            "name": "centre",
            "hostnames": [".*"],
            "modules_system": "nomod",
            "partitions": [
                {"name": "login", "scheduler": "local", "launcher": "local",
                 "environs": ["builtin"], "max_jobs": 4},
                {"name": "normal", "scheduler": "slurm", "launcher": "srun", "time_limit": "10m",
                 "environs": ["builtin", "PrgEnv-gnu"], "max_jobs": 100, "features": ["gpu"],
                 "extras": {"cn_memory": 870000}, "access": ["--account=x"],
                 "resources": [{"name": "switches", "options": ["--switches={num_switches}"]}],
                 "devices": [{"type": "gpu", "arch": "sm_90", "num_devices": 4}]},
            ],
        }
    ],
    "environments": [
        {"name": "PrgEnv-gnu", "features": ["mpi"], "cc": "mpicc", "ftn": "mpif90"},
    ],
    "logging": [
        {
            "handlers_perflog": [
                {"type": "filelog", "prefix": "%(check_system)s/%(check_partition)s",
                 "level": "info", "format": "ours|%(check_result)s|%(check_perfvalues)s",
                 "format_perfvars": "%(check_perf_value)s|%(check_perf_unit)s|"}
            ]
        }
    ],
}
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """own(old, new): the file of README.md, with a change; beside it the centre's."""
    for name, value in launchers.AS_ROOT.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "theirs.py").write_text(THEIRS)
    section = (SITES / "README.md").read_text().partition("## A ReFrame configuration of your")[2]
    snippet = re.search("```python\n(.*?)```", section, re.S)[1]
    places = {
        "/opt/bisection/site-configs": SITES,
        "/opt/reframe/config/centre": tmp_path / "theirs",
    }
    for documented, here in places.items():
        assert documented in snippet
        snippet = snippet.replace(documented, str(here))

    def write(old="", new=""):
        assert old in snippet
        (tmp_path / "centre.py").write_text(snippet.replace(old, new, 1) if old else snippet)
        return tmp_path / "centre.py"

    return write


def test_all_that_is_theirs_stays(own, tmp_path):
    theirs = runpy.run_path(str(own().with_name("theirs.py")))["site_configuration"]
    lent = copy.deepcopy(runpy.run_path(str(tmp_path / "centre.py"))["site_configuration"])
    assert lent["logging"] == theirs["logging"]
    assert lent["environments"][:-1] == theirs["environments"]
    (system,), (before,) = lent["systems"], theirs["systems"]
    added = {"launcher", "processor", "access", "environs", "extras", "sched_options"}
    for part, known in zip(system.pop("partitions"), before.pop("partitions"), strict=True):
        assert {k: v for k, v in part.items() if k not in added} == {
            k: v for k, v in known.items() if k not in added
        }
        assert part["environs"] == [*known["environs"], "system"]
        assert part["extras"].items() >= known.get("extras", {}).items()
    assert system == before


def test_doctor_accepts_it_and_notes_a_partition_that_is_not_lent(own):
    assert not told(rules.site_defects(site_files.load_site(str(own()))))
    file = own('"centre:login": {"launcher": "mpirun", "processor": common.this_machine()},')
    (note,) = rules.site_defects(site_files.load_site(str(file)))
    assert note.is_note
    assert note.text == "centre:login: no check runs: builtin lack the feature kernels"


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ('"launcher": "mpirun", ', "", "centre:login: launcher local starts one rank: it must be"),
        (', "processor": common.this_machine()', "", "centre:login: processor, the cores"),
        ("centre:login", "centre:logni", "centre:logni: there is no such SYSTEM:PARTITION"),
        ("},\n)", "},\n    environments=theirs.site_configuration['environments'],\n)",
         "environment PrgEnv-gnu: the site has one of that name"),
    ],
)  # fmt: skip
def test_what_is_missing_is_one_line_which_names_the_key_of_the_partition(own, old, new, line):
    (defect,) = site_files.load_site(str(own(old, new))).defects
    assert f"does not load: {line}" in defect.text


def test_a_run_by_theirs_alone_says_what_lends_it_an_environment(own, tmp_path):
    centre = own()
    centre.write_text(centre.with_name("theirs.py").read_text())
    code, text = start(
        [sys.executable, "-m", "bisection", "run", "--system", str(centre)], tmp_path
    )
    assert code == 2
    lend = "has no environment with the feature kernels; common.lend gives it one"
    assert f"bisection run: error: centre {lend}" in on_one_line(text)


def test_a_run_and_reframe_alone_measure_on_it_and_log_as_the_centre_does(own, fake, tmp_path):
    """Theirs has no `handlers`. Those of ReFrame's own ask a build for its facts before it has a
    folder."""
    centre = str(own())
    run = run_in(tmp_path, fake, "--system", f"{centre}:login", "-p", "system")
    assert run.code == 0, run.text
    logs = [*(run.folder / "perflogs").rglob("transpose.log")]
    words = ["-C", centre, "--system", "centre:login", "-c", str(CHECKS), "-t", "quick", *ONE]
    words += ["-S", f"Build.kernels={fake}", "--exec-policy=serial", "-r"]
    code, text = start(["reframe", *words, f"--prefix={tmp_path / 'alone'}"], tmp_path)
    assert code == 0, text
    logs += (tmp_path / "alone" / "perflogs").rglob("transpose.log")
    assert len(logs) == 2
    assert all("ours|pass|" in log.read_text() for log in logs)
