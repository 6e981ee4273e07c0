"""`bisection run`, whole: real ReFrame, real checks, real mpirun, a fake kernel."""

import itertools
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import jsonschema
import made_up
import pytest
import results_made
from made_up import sessions, store
from running import CHECKS, ONE, SITES, of_other_sources, run_in, start

from bisection.core import paths
from bisection.core.reasons.base import as_data, clause
from bisection.core.reasons.launches import LeftOut
from bisection.core.verdicts import Exit, Verdict
from bisection.kernels import launch_faults
from bisection.night import night as steps
from bisection.runs.run_verdict import RunVerdict
from bisection.store import sample_file, sync
from bisection.store.nights import Nights
from bisection.store.selection import select


def test_equal_layouts_are_launched_once_and_the_others_as_often_as_asked(first):
    assert first.code == 0, first.text
    assert first.said.count("not applicable") == 0  # what a machine cannot have is no news
    names = {path.name[:-5] for path in (first.folder / "kernels").glob("transpose-*.json")}
    cases = [f"transpose-cnt{case}-{layout}" for case in (40, 80) for layout in ("mpi", "node")]
    ends = ("-default-system", "-default-system-run1")
    assert names == {f"{case}{end}" for case in cases for end in ends}
    assert first.case("p2p", "node2", run=0)["verdict"] == "not applicable"
    assert "x layout node2 is the same as mpi here (2x1)" in first.whole


def test_a_session_has_its_tags_facts_work_price_and_the_seconds_of_all_its_jobs(first):
    with sync.opened(first.folder.parents[1]) as stored:
        (session,) = select("phase=before", stored)
        nights = Nights(stored, [session])
        times = [each for each in nights.series if each.metric.name == "time"]
        launches = nights.launches
    assert session.uuid == first.verdict["session"]
    assert session.tags["tier"] == "upgrade"
    assert session.facts["MPI"] == "none"
    assert session.work == {"transpose": {"cnt40": "", "cnt80": "--bands 3"}}
    times = [each for each in times if not each.test.control]
    jobs = [(each.test.case, run) for each in times for run in each.jobs["run"]]
    assert sorted(jobs) == sorted([("cnt40", 0), ("cnt40", 1), ("cnt80", 0), ("cnt80", 1)] * 2)
    commands = [json.loads(path.read_text()) for path in (first.folder / "kernels").glob("*.json")]
    assert all(("--bands" in c["command"]) == (c["case"] == "cnt80") for c in commands)
    records = [record for record in first.verdict["launches"] if record["exit_code"] == 0]
    held = [seconds for record in records for seconds in record["seconds"]]
    assert len(held) == 8
    assert all(0 < seconds < first.verdict["seconds"] for seconds in held)
    price = {"core_hours": 2 * sum(held) / 3600, "node_hours": sum(held) / 3600}
    assert first.verdict["price"] == pytest.approx(price)
    assert "core-hours" in first.said
    assert {outcome.seconds for outcome in launches} == {(), *((seconds,) for seconds in held)}


def test_kernels_are_built_once_and_nothing_is_left_in_the_folder_of_temporary_files(first):
    """ReFrame leaves the log of its start; launches have the machine's own folder."""
    home = first.folder.parents[1]
    build, kept = (first.case("", "", "", run=run)["reasons"] for run in (0, 1))
    assert (build, kept["remark"]["code"]) == ({}, "KERNELS_KEPT")
    assert (home / "builds").read_text() == "built\n"
    assert (home / "printed").read_text() == f"{home / 'temporary'} none\n"
    assert list((home / "temporary").iterdir()) == []
    assert list(first.folder.glob(".reframe-*")) == []


def test_a_verdict_that_was_removed_is_made_again_of_the_record(first, tmp_path, command_line):
    shutil.copy(first.folder / sample_file.SPOOLED, tmp_path)
    code, text, _ = command_line("verdict", str(tmp_path))
    assert (code, text.splitlines()[0] in first.text) == (first.code, True)
    assert json.loads((tmp_path / "verdict.json").read_text()) == first.verdict
    code, text, _ = command_line("verdict", str(tmp_path), "--json")
    assert (code, json.loads(text)) == (first.code, first.verdict)


# Parts of records whose keys are names of what was measured or recorded.
OPEN = ("perfvalues", "metrics", "tags", "facts", "controls")


def unlike(made, live, where=""):
    """Places where a made-up record has a key, or a value of a type, that a live one has not."""
    if not isinstance(made, dict) or not isinstance(live, dict):
        number = {type(made), type(live)} <= {int, float}
        return [] if number or None in (made, live) or type(made) is type(live) else [where]
    if where.rpartition(".")[2] in OPEN:
        made, live = ({"any": next(iter(part.values()), None)} for part in (made, live))
    lacking = [f"{where}.{key}" for key in made if key not in live]
    both = (unlike(made[key], live[key], f"{where}.{key}") for key in made if key in live)
    return [*lacking, *itertools.chain(*both)]


def test_records_that_tests_make_up_have_the_shape_of_real_ones(first):
    report = json.loads((first.folder / "report.json").read_text())
    launch, test = (
        next(t for t in report["runs"][0]["testcases"] if t["display_name"].startswith(name))
        for name in ("TransposeLaunch", "transpose")
    )
    session, cases = next(sample_file.read_samples(first.folder / sample_file.SPOOLED))
    sample = next(c for c in cases if "time" in c["metrics"])
    made_up_launch, _ = results_made.launched(exit_code=0, geometry="2x1", work="")
    record = json.loads(json.dumps(as_data(made_up_launch.record)))
    pairs = {
        "test": (results_made.entry(), test),
        "report": (results_made.report()["session_info"], report["session_info"]),
        "launch": (record, launch["launch_record"]),
        "session": (made_up.session(1), session),
        "sample": (made_up.case(metrics={"time": 1e-3}, run=0, disturbed=0.5), sample),
    }
    assert [place for name, pair in pairs.items() for place in unlike(*pair, name)] == []
    assert results_made.entry()["result"] == test["result"]


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


@pytest.fixture(scope="session")
def troubled(fake, gallery):
    """Real for what ReFrame says of such files: a run with them, and with kernels of other sources,
    which it accepts, without one. The store cannot be used."""

    def run(home):
        (home / "store.db").mkdir()
        for name, text in FILES.items():
            (home / f"{name}.py").write_text(text)
        added = [word for name in FILES for word in ("-c", str(home / f"{name}.py"))]
        selected, kernels = (*ONE, "-n", "skips"), of_other_sources(home, fake)
        (kernels / "bin" / "left-out").write_text("npar: no ScaLAPACK\n")
        return run_in(home, kernels, *added, "--stale", selected=selected)

    return gallery("troubled", run)


def test_files_that_do_not_load_and_skipped_tests_are_no_pass(troubled):
    assert troubled.code == 3, troubled.text
    assert "NOT MEASURED: 1 of 2 checks passed" in troubled.said
    assert troubled.said.count("does not load: ") == 2
    for words in ("no_such_module", "no_such_thing", "skipped: no processor"):
        assert words in troubled.said


def test_kernels_of_other_sources_are_accepted_by_stale(troubled):
    (build,) = [c["reasons"]["remark"] for c in troubled.verdict["cases"] if c["check"] == "Build"]
    left_out, build = build["remarks"]
    assert left_out["kernels"] == ["npar: no ScaLAPACK"]
    stale = {"code": "KERNELS_STALE", "built": "5" * 12, "accepted": True}
    assert build.items() >= stale.items()
    assert "accepted by --stale" in troubled.said
    assert "left out of the build: npar: no ScaLAPACK" in troubled.said


def test_a_store_that_cannot_be_used_loses_no_night(troubled):
    home = troubled.folder.parents[1]
    assert f"{home / 'store.db'}: unable to open database file" in troubled.said
    assert not (home / "reframe" / "results.db").exists()
    (home / "store.db").rmdir()
    with sync.opened(home) as stored:
        assert [session.uuid for session in stored.sessions()] == [troubled.verdict["session"]]


def test_tests_that_are_gone_and_notes_that_cannot_be_read_are_troubles(tmp_path):
    """Tests of the session before."""
    stopped = made_up.case("never-ran", verdict=Verdict.NOT_MEASURED)
    ran = [made_up.case(method, {"time": 1e-3}) for method in ("p2p", "removed", "lacking")]
    before = sessions(0, [[*ran, stopped]])
    reason = LeftOut(kernels=["transpose: no FFTW"]).as_dict()
    lacking = made_up.case("lacking", verdict=Verdict.NOT_APPLICABLE, reason=reason)
    after = sessions(1, [[made_up.case("p2p", {"time": 1e-3}), lacking]])
    stored = store(tmp_path / "store.db", before, after)
    night = steps.Night(RunVerdict(session="00000001-made-up"), tmp_path, tmp_path)
    steps.compare(night, stored, None)
    gone = [f"transpose cnt40 mpi {method}" for method in ("lacking", "removed")]
    (missing,) = night.verdict.troubles
    assert str(missing) == f"tests of the last session are gone: {', '.join(gone)}"
    (tmp_path / "sessions.json").write_text("{")
    steps.compare(night, stored, None)
    (unusable,) = night.run.troubles
    assert str(unusable).startswith(f"{tmp_path / 'sessions.json'}: not a file of session marks")


# A small disk of its own, in a mount namespace that ends with the run.
SMALL = 'mount -t tmpfs -o size=8M none "$BISECTION_HOME" && cd {checks}/.. && {fill}; exec "$@"'
CMAKE = "echo 'CMake Error: Could NOT find MPI' >&2; exit 1"
BUILD = r"no space left on \S+ \(\d+ MB free, a build takes 24 MB\): CMake Error: Could NOT"


def unshare(folder):
    """The beginning of a command that may mount file systems of its own."""
    words = ["unshare", "--mount", "--map-root-user"]
    if subprocess.run([*words, "mount", "-t", "tmpfs", "none", folder]).returncode:
        pytest.skip("no mount namespaces")
    return words


@pytest.mark.parametrize("when", ["before", "during", "build"])
@pytest.mark.long
def test_a_full_disk_ends_a_run_with_what_fits(fake, tmp_path, commands, when):
    """Where a build fails for it, it is named first: CMake reports a library that it does not find,
    and leaves some room again."""
    home = tmp_path / "home"
    home.mkdir()
    commands("cmake", CMAKE)
    fill = f"cat /dev/zero >{home}/fill || true"
    shell = SMALL.format(checks=CHECKS, fill=fill if when == "before" else "true")
    line = [*unshare(home), "sh", "-c", shell, "sh", sys.executable, "-m", "bisection", "run"]
    line += ["--tier", "quick", *ONE]
    line += ["-S", f"Build.kernels={fake}"] if when != "build" else []
    line += ["-S", f"TransposeLaunch.prerun_cmds={fill}"] if when == "during" else []
    code, text = start(line, home)
    text = " ".join(text.split())
    assert code == 3, text
    assert "NOT MEASURED: 0 of 1 checks passed" in text
    assert re.search(BUILD if when == "build" else "No space left on device", text), text
    assert "Traceback" not in text


SCRATCH = """mount -t tmpfs -o size=4M none {0}/small && mount -t tmpfs -o ro none {0}/fixed &&
cd {1}/.. && exec "$@\""""


@pytest.mark.long
def test_each_scratch_folder_that_cannot_be_written_to_is_one_line(tmp_path):
    """Real for what the kernel says of a file system: a site has three scratch folders, of which
    one has too little space and one is read-only."""
    kernel = paths.home() / "build" / "restart" / "bisection-restart"
    if not kernel.exists():
        pytest.skip("no kernels: `make test-kernels` builds them")
    folders = [str(tmp_path / name) for name in ("good", "small", "fixed")]
    for folder in (*folders, tmp_path / "sites", tmp_path / "bin"):
        Path(folder).mkdir()
    (tmp_path / "bin" / kernel.name).symlink_to(kernel)
    shutil.copytree(SITES, tmp_path / "sites", dirs_exist_ok=True)
    site = tmp_path / "sites" / "localhost.py"
    text = site.read_text().replace('"references": ["ratio"]', '"references": []')
    site.write_text(text.replace('"nodes": 1,', f'"nodes": 1, "scratch": {folders},'))
    shell = SCRATCH.format(tmp_path, CHECKS)
    line = [*unshare(tmp_path), "sh", "-c", shell, "sh", sys.executable, "-m", "bisection", "run"]
    line += ["--system", str(site), "--tier", "quick", "--stale", "--retest", "0"]
    line += ["-n", "^restart%method=root%.*layout=mpi%", "-S", f"Build.kernels={tmp_path}"]
    line += ["-S", "RestartLaunch.options=--share=50"]
    code, text = start(line, tmp_path / "home")
    assert code == Exit.NOT_MEASURED, text
    verdict = json.loads((tmp_path / "home" / "results" / "latest" / "verdict.json").read_text())
    of_launch = {c["case"]: c for c in verdict["cases"] if c["case"] and not c["method"]}
    good, small, fixed = (of_launch[f"waves-mini@{folder}"] for folder in folders)
    assert good["verdict"] == "pass"
    assert f"--directory {folders[1]}: 8.389 MB would be written, allowed are" in small["cause"]
    assert f"--directory {folders[2]}: Read-only file system" in fixed["cause"]
    for folder in folders[1:]:
        assert " ".join(text.split()).count(f"--directory {folder}:") == 1


@pytest.mark.parametrize("words", ["No space left on device", "Disk quota exceeded"])
def test_a_full_disk_is_found_in_the_words_of_a_build_or_by_writing(tmp_path, monkeypatch, words):
    assert launch_faults.of_full_disk(tmp_path, ["error: no such file"]) is None
    line = f"  collect2: error: /tmp/ccA.o: {words}"
    assert clause(launch_faults.of_full_disk(tmp_path, ["error: x", line])) == line.strip()
    missing = tmp_path / "missing"
    assert paths.unwritable(missing) == f"cannot write to {missing}: No such file or directory"
    assert (paths.unwritable(tmp_path), list(tmp_path.iterdir())) == ("", [])
    monkeypatch.setattr(paths, "free_space", lambda _: None)  # of a folder that is gone
    assert launch_faults.of_full_disk(missing, []) is None


def test_fake_kernel_keeps_the_contract(fake, tmp_path):
    schema = CHECKS / "bisection" / "kernels" / "result.schema.json"
    for name, case in (("transpose", "cnt40"), ("patterns", "sweep")):
        output = tmp_path / f"{name}.json"
        line = [fake / "bin" / f"bisection-{name}", "--case", case, "--output", output]
        subprocess.run(line, check=True)
        jsonschema.validate(json.loads(output.read_text()), json.loads(schema.read_text()))
