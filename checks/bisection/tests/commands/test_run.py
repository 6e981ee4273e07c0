"""`bisection run`, whole: real ReFrame, real checks, real mpirun, a fake kernel."""

import json
import subprocess
import xml.etree.ElementTree as ET

import jsonschema
import pytest
from made_up import nights, store
from running import CHECKS, ONE, first_cores, run_in, start

from bisection.commands import run as command
from bisection.core.paths import TEMPORARY
from bisection.core.reasons import Code
from bisection.runs.model import RunVerdict
from bisection.sites import site
from bisection.store import sample_file, sync
from bisection.store.selection import select


@pytest.fixture(scope="module")
def first(fake, tmp_path_factory):
    """A tagged run of two cases in all layouts, each twice. One case has work of its own, and jobs
    print their folder of temporary files."""
    home = tmp_path_factory.mktemp("first")
    (home / "temporary").mkdir()
    printed = f"echo $TMPDIR ${{{TEMPORARY}-none}} >{home}/printed"
    how = ["--tag", "phase=before", "--reruns=1", "-S", f"TransposeLaunch.prerun_cmds={printed}"]
    how += ["-S", "TransposeLaunch.work=cnt40:--bands 2"]
    selected = ("-n", "^transpose%method=p2p%.*launch.case=cnt(40|80)")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(home / "temporary"))
        return run_in(home, fake, *how, selected=selected, tier="upgrade")


def test_equal_layouts_are_launched_once_and_the_others_as_often_as_asked(first):
    assert first.code == 0, first.text
    assert "PASS: 8 of 8 checks passed" in first.said
    names = {path.name[:-5] for path in (first.folder / "kernels").glob("transpose-*.json")}
    cases = [f"transpose-cnt{case}-{layout}" for case in (40, 80) for layout in ("mpi", "node")]
    ends = ("-default-system", "-default-system-run1")
    assert names == {f"{case}{end}" for case in cases for end in ends}
    assert first.case("p2p", "node2", run=0)["verdict"] == "not applicable"
    assert "x layout node2 is the same as mpi here (2x1)" in first.whole


def test_a_session_has_its_tags_facts_work_and_all_its_jobs(first):
    home = first.folder.parents[1]
    with sync.opened(home) as stored:
        (session,) = select("phase=before", stored)
        tests, metrics = stored.tests(), stored.metrics()
        times = [row for row in stored.samples() if metrics[row["metric"]].name == "time"]
    assert session.uuid == first.verdict["session"]
    assert session.tags["tier"] == "upgrade"
    assert session.facts["MPI"] == "none"
    assert session.work == {"transpose": {"cnt40": "--bands 2", "cnt80": ""}}
    jobs = [
        (tests[row["test"]].case, row["run"]) for row in times if not tests[row["test"]].control
    ]
    assert sorted(jobs) == sorted([("cnt40", 0), ("cnt40", 1), ("cnt80", 0), ("cnt80", 1)] * 2)
    commands = [json.loads(path.read_text()) for path in (first.folder / "kernels").glob("*.json")]
    assert all(("--bands" in c["command"]) == (c["case"] == "cnt40") for c in commands)


def test_nothing_is_left_in_the_folder_of_temporary_files(first):
    """ReFrame leaves the log of its start; launches have the machine's own folder."""
    home = first.folder.parents[1]
    assert (home / "printed").read_text() == f"{home / 'temporary'} none\n"
    assert list((home / "temporary").iterdir()) == []
    assert list(first.folder.glob(".reframe-*")) == []


def test_all_methods_pass(bisection):
    run = bisection(selected=("-n", "%launch.layout=mpi"))
    assert run.code == 0, run.text
    named = site.load_site("localhost", ["%launch.layout=mpi"]).tests
    of_tier = [test for test in named if "quick" in test["tags"] and test["places"]]
    count = sum(bool(test["named"]) for test in of_tier)
    assert f"PASS: {count} of {count} checks passed" in run.said
    assert run.verdict["troubles"] == []
    for name in ("verdict.txt", "report.json", "report.html", "reframe.log", sample_file.SPOOLED):
        assert (run.folder / name).exists()
    launches = [launch for launch in run.verdict["launches"] if launch["kernel"]]
    assert len(list((run.folder / "kernels").glob("*.json"))) == len(launches) > 0
    assert not (run.folder / "stage").exists()
    metric = run.metric("p2p", "ratio_alltoallv")
    assert metric["asserted"]
    assert metric["low"] < metric["value"] < metric["high"]
    assert not run.metric("p2p", "time")["asserted"]
    suite = ET.parse(run.folder / "junit.xml").getroot()
    assert (suite.get("failures"), suite.get("errors")) == ("0", "0")


def test_command_line_is_printed_and_can_be_run_dry_and_layouts_that_do_not_fit_do_not_run(
    bisection, tmp_path
):
    run = bisection(selected=("-n", "transpose%method=p2p.*case=cnt40"), cpus=first_cores(1))
    assert run.code == 0, run.text
    assert "PASS: 1 of 1 checks passed, in" in run.said
    assert "not applicable" not in run.said  # what a machine cannot have is no news
    assert "not applicable: 1 x layout node is the same as mpi here (1x1)" in run.whole
    assert "not applicable: 1 x layout node2 needs 2 cores per node, there are 1" in run.whole
    (printed,) = [line[9:] for line in run.text.splitlines() if line.startswith("command: ")]
    dry = f"{printed.removesuffix(' -r')} --dry-run"
    code, text = start(["sh", "-c", dry], tmp_path, cpus=first_cores(1))
    assert code == 0, text
    assert "PASSED" in text


# ---- what is not measured, loaded or stored ----

# Files that do not load and skipped tests are PASSED to ReFrame, with exit code 0.
FILES = {
    "broken0": "import reframe as rfm\nimport no_such_module\n@rfm.simple_test\n"
    "class t(rfm.X): pass",
    "broken1": "import reframe as rfm\n@rfm.simple_test\nclass u(rfm.RunOnlyRegressionTest):\n"
    "    @run_after('init')\n    def fail(self):\n        self.no_such_thing()\n",
    "skips": "import reframe as rfm\n@rfm.simple_test\nclass skips(rfm.RunOnlyRegressionTest):\n"
    "    valid_systems = valid_prog_environs = ['*']\n    tags = {'quick'}\n"
    "    @run_after('setup')\n    def leave(self):\n        self.skip('no processor')\n",
}


@pytest.fixture(scope="module")
def troubled(fake, tmp_path_factory):
    """A run with these files; databases are damaged, and ReFrame's cannot be written."""
    home = tmp_path_factory.mktemp("troubled")
    (home / "reframe" / ".db.lock").mkdir(parents=True)
    (home / "reframe" / "results.db").write_bytes(b"this is no database" * 100)
    (home / "store.db").mkdir()
    (home / "store.db" / "x").touch()
    for name, text in FILES.items():
        (home / f"{name}.py").write_text(text)
    added = [word for name in FILES for word in ("-c", str(home / f"{name}.py"))]
    return run_in(home, fake, *added, selected=(*ONE, "-n", "skips"))


def test_files_that_do_not_load_and_skipped_tests_are_no_pass(troubled):
    assert troubled.code == 3, troubled.text
    assert "NOT MEASURED: 1 of 2 checks passed" in troubled.said
    assert troubled.said.count("does not load: ") == 2
    for words in ("no_such_module", "no_such_thing", "skipped: no processor"):
        assert words in troubled.said


def test_databases_that_are_damaged_or_locked_lose_no_night(troubled):
    home = troubled.folder.parents[1]
    for path in (home / "reframe" / "results.db", home / "store.db"):
        assert f"{path.name} was damaged" in troubled.said
        assert len(list(path.parent.glob(f"{path.name}.broken-*"))) == 1
    assert "trouble: failed to store results in the database" in troubled.said
    with sync.opened(home) as stored:
        assert [session.uuid for session in stored.sessions()] == [troubled.verdict["session"]]


@pytest.fixture
def gone(tmp_path):
    """A run that is stored, without a test of the session before."""
    stored = store(tmp_path / "store.db", nights({"p2p": [1e-3], "removed": [1e-3]}))
    stored.add(nights({"p2p": [1e-3]}, first=1))
    return command.Night(RunVerdict(session="00000001-made-up"), tmp_path, tmp_path), stored


def test_tests_of_the_session_before_that_are_gone_are_a_trouble(gone):
    command.compare(*gone, None)
    assert gone[0].run.troubles == (Code.TESTS_GONE(tests=["transpose cnt40 mpi removed"]),)


def test_notes_that_cannot_be_read_are_a_trouble(gone, tmp_path):
    (tmp_path / "sessions.json").write_text("{")
    command.compare(*gone, None)
    assert [trouble.code for trouble in gone[0].run.troubles] == [Code.STORE_UNUSABLE]


def test_fake_kernel_keeps_the_contract(fake, tmp_path):
    schema = CHECKS.parent / "src" / "common" / "result.schema.json"
    for name, case in (("transpose", "cnt40"), ("patterns", "sweep")):
        output = tmp_path / f"{name}.json"
        line = [fake / "bin" / f"bisection-{name}", "--case", case, "--output", output]
        subprocess.run(line, check=True)
        jsonschema.validate(json.loads(output.read_text()), json.loads(schema.read_text()))
