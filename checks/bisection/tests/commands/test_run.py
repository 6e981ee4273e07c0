"""`bisection run`, whole: real ReFrame, real checks, real mpirun, a fake kernel."""

import json
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import jsonschema
import pytest
from running import CHECKS, ONE, first_cores, start

from bisection.core.paths import TEMPORARY
from bisection.sites import site
from bisection.store import sample_file, sync
from bisection.store.selection import select

ONE_CORE = first_cores(1)


class TestVerdict:
    def test_all_methods_pass(self, bisection, fake):
        run = bisection(selected=("-n", "%launch.layout=mpi"))
        assert run.code == 0, run.text
        named = site.load_site("localhost", ["%launch.layout=mpi"]).tests
        of_tier = [test for test in named if "quick" in test["tags"] and test["places"]]
        count = sum(bool(test["named"]) for test in of_tier)
        assert f"PASS: {count} of {count} checks passed" in run.said
        assert run.verdict["troubles"] == []
        for name in ("verdict.txt", "report.json", "junit.xml", "reframe.log"):
            assert (run.folder / name).exists()
        launches = [launch for launch in run.verdict["launches"] if launch["kernel"]]
        assert len(list((run.folder / "kernels").glob("*.json"))) == len(launches) > 0
        assert not (run.folder / "stage").exists()
        metric = run.metric("p2p", "ratio_alltoallv")
        assert metric["asserted"]
        assert metric["low"] < metric["value"] < metric["high"]
        assert not run.metric("p2p", "time")["asserted"]
        suite = ET.parse(run.folder / "junit.xml").getroot()
        assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("107", "0", "0")

    def test_command_line_is_printed_and_runs(self, bisection, tmp_path):
        run = bisection()
        lines = run.text.replace("\\\n", "").splitlines()
        (printed,) = [line[9:] for line in lines if line.startswith("command: ")]
        code, text = start(["sh", "-c", printed], tmp_path)
        assert code == 0, text
        assert "Ran 3/3 test case(s)" in text, text

    def test_rerun_command_selects_the_failed_case(self, bisection, fake):
        run = bisection(faults={"p2p": "slow"})
        assert run.code == 1
        rerun = next(line for line in run.text.splitlines() if "rerun: " in line)
        run = bisection(selected=rerun.split()[-2:])
        assert run.code == 0, run.text
        assert "PASS: 1 of 1 checks passed" in run.said

    def test_verdict_is_printed_again(self, bisection, tmp_path):
        run = bisection(faults={"p2p": "slow"})
        for path in (run.folder, run.folder / "report.json"):
            code, text = start([sys.executable, "-m", "bisection", "verdict", str(path)], tmp_path)
            assert code == 1
            assert "ratio_alltoallv is 2.50" in text

    def test_layout_that_does_not_fit_is_told(self, bisection):
        run = bisection(selected=("-n", "transpose%method=p2p.*case=cnt40"), cpus=ONE_CORE)
        assert run.code == 0, run.text
        assert "PASS: 1 of 1 checks passed, in" in run.said
        assert "not applicable" not in run.said  # what a machine cannot have is no news
        assert "not applicable: 1 x layout node is the same as mpi here (1x1)" in run.whole
        assert "not applicable: 1 x layout node2 needs 2 cores per node, there are 1" in run.whole

    def test_equal_layouts_are_launched_once(self, bisection):
        run = bisection(selected=("-n", "^transpose%method=p2p.*case=cnt40"))
        assert run.code == 0, run.text
        assert len(list((run.folder / "kernels").glob("*.json"))) == 2
        assert run.case("p2p", "node2")["verdict"] == "not applicable"
        assert "not applicable: 1 x layout node2 is the same as mpi here (2x1)" in run.whole

    def test_only_layouts_that_do_not_fit_are_no_pass(self, bisection):
        run = bisection(selected=("-n", "method=p2p.*layout=node2"), cpus=ONE_CORE)
        assert run.code == 3
        assert "NOT MEASURED" in run.said


class TestUsage:
    @pytest.mark.parametrize(
        ("arguments", "says"),
        [
            (["--tier", "quikc"], "invalid choice: 'quikc'"),
            (["--system", "genric"], "--system genric: unknown; site-configs/ has "),
            (
                ["--max-retries=1"],
                "--max-retries=1 is rejected: a check that fails once has failed",
            ),
            (["--skip-performance-check"], "is rejected: a slow method would pass"),
            (["--skip-sanity-check"], "is rejected: a wrong answer would pass"),
            (["--dry-run"], "is rejected: it runs nothing"),
            (["-S", "transpose.asserted=time"], "is rejected: it changes what is judged"),
        ],
    )
    def test_is_refused(self, command_line, tmp_path, monkeypatch, arguments, says):
        monkeypatch.setenv("BISECTION_HOME", str(tmp_path))
        code, _, errors = command_line("run", *arguments)
        assert code == 2
        assert says in errors
        assert not (tmp_path / "results").exists()


class TestSelection:
    """Zero tests, files that do not load and skipped tests are PASSED to ReFrame, with exit 0."""

    BROKEN = (
        "import reframe as rfm\nimport no_such_module\n@rfm.simple_test\nclass t(rfm.X): pass",
        "import reframe as rfm\n@rfm.simple_test\nclass u(rfm.RunOnlyRegressionTest):\n"
        "    @run_after('init')\n    def fail(self):\n        self.no_such_thing()\n",
    )

    def test_files_that_do_not_load(self, bisection, tmp_path):
        files = [tmp_path / f"broken{number}.py" for number in range(len(self.BROKEN))]
        for file, text in zip(files, self.BROKEN, strict=True):
            file.write_text(text)
        run = bisection(*(word for file in files for word in ("-c", str(file))))
        assert run.code == 3, run.text
        assert run.said.count("does not load: ") == len(files)
        assert "no_such_module" in run.said
        assert "no_such_thing" in run.said
        assert "1 of 1 checks passed" in run.said

    @pytest.mark.parametrize(
        ("name", "code", "says"),
        [
            ("skips", 3, "skipped: no processor information"),
            ("no_such_check", 2, "error: no check is left by"),
        ],
    )
    def test_nothing_measured_of_an_added_file(self, bisection, tmp_path, name, code, says):
        (tmp_path / "skips.py").write_text(
            "import reframe as rfm\n"
            "@rfm.simple_test\n"
            "class skips(rfm.RunOnlyRegressionTest):\n"
            "    valid_systems = valid_prog_environs = ['*']\n"
            "    tags = {'quick'}\n"
            "    @run_after('setup')\n"
            "    def leave(self):\n"
            "        self.skip('no processor information')\n"
        )
        run = bisection("-c", str(tmp_path / "skips.py"), selected=("-n", name))
        assert run.code == code
        assert says in run.said


FLAKY = """
import reframe as rfm
import reframe.utility.sanity as sn

@rfm.simple_test
class flaky(rfm.RunOnlyRegressionTest):
    valid_systems = valid_prog_environs = ["*"]
    local = True
    executable = "echo -n x >>{marker}; wc -c <{marker}"
    reference = {{"*": {{"rate": (2, -0.1, 0.1, "x")}}}}

    @sanity_function
    def ran(self):
        return True

    @performance_function("x")
    def rate(self):
        return sn.extractsingle(r"\\d+", self.stdout, 0, float)
"""


class TestRecord:
    def test_failure_before_a_retry_counts(self, tmp_path):
        (tmp_path / "flaky.py").write_text(FLAKY.format(marker=tmp_path / "marker"))
        report = tmp_path / "report.json"
        command = ["reframe", "-C", "site-configs/localhost.py", "-c", str(tmp_path / "flaky.py")]
        command += ["-p", "system", "-r", "--max-retries=1", f"--report-file={report}"]
        code, text = start([*command, f"--prefix={tmp_path}"], tmp_path)
        assert code == 0, text  # ReFrame's own verdict
        code, text = start([sys.executable, "-m", "bisection", "verdict", str(report)], tmp_path)
        assert code == 1
        assert "rate is 1.00 x, allowed is 1.80..2.20" in text

    GARBAGE = (b"this is no database" * 100, b"SQLite format 3\0" * 9)

    @pytest.mark.parametrize("contents", [GARBAGE, GARBAGE[::-1], (*GARBAGE[:1], None)])
    def test_databases_are_garbage(self, bisection, tmp_path, contents):
        (tmp_path / "reframe").mkdir()
        names = ("reframe/results.db", "store.db")
        damaged = [pair for pair in zip(names, contents, strict=True) if pair[1]]
        for name, content in damaged:
            (tmp_path / name).write_bytes(content)
        run = bisection()
        assert run.code == 3, run.text
        assert "NOT MEASURED: 1 of 1 checks passed" in run.said
        for name, content in damaged:
            assert f"{Path(name).name} was damaged" in run.said
            (aside,) = (tmp_path / name).parent.glob("*.broken-*")
            assert aside.read_bytes() == content
        with sync.opened(tmp_path) as stored:
            assert [session.uuid for session in stored.sessions()] == [run.verdict["session"]]
        assert list(sync.recorded(tmp_path))

    def test_database_cannot_be_written(self, bisection, tmp_path):
        (tmp_path / "reframe" / ".db.lock").mkdir(parents=True)
        run = bisection()
        assert run.code == 3, run.text
        assert "trouble: failed to store results in the database" in run.said
        with sync.opened(tmp_path) as stored:  # the night is not lost
            assert [session.uuid for session in stored.sessions()] == [run.verdict["session"]]

    def test_store_cannot_be_written(self, bisection, tmp_path):
        (tmp_path / "store.db").mkdir()
        (tmp_path / "store.db" / "x").touch()
        assert sync.damage(tmp_path / "store.db")  # a folder, which is set aside
        run = bisection()
        assert run.code == 3, run.text
        assert (run.folder / sample_file.SPOOLED).exists()

    def test_second_run_is_set_beside_the_first(self, bisection):
        first = bisection()
        assert "\nbeside" not in first.text
        assert "report.html" in first.text
        again = bisection()
        assert again.code == 0, again.text
        assert "compared with the session before: " in again.text
        page = (again.folder / "report.html").read_text()
        assert first.verdict["session"][:8] in page
        assert "<script src" not in page

    def test_work_is_kept_with_the_session(self, bisection):
        run = bisection(
            *("-S", "TransposeLaunch.work=cnt40:--bands 2"),
            selected=("-n", "^transpose%method=p2p%.*layout=mpi%launch.case=cnt(40|80)"),
            tier="upgrade",
        )
        session, _ = next(sample_file.read_samples(run.folder / sample_file.SPOOLED))
        assert session["work"] == {"transpose": {"cnt40": "--bands 2", "cnt80": ""}}
        commands = [
            json.loads(path.read_text()) for path in (run.folder / "kernels").glob("*.json")
        ]
        assert {c["case"]: "--bands" in c["command"] for c in commands} == {
            "cnt40": True,
            "cnt80": False,
        }

    def test_test_that_is_gone(self, bisection, tmp_path):
        first = bisection()
        session, cases = next(sample_file.read_samples(first.folder / sample_file.SPOOLED))
        with sync.opened(tmp_path) as stored:  # the session before had another method
            test = next(line for line in cases if not line.get("control"))
            control = next(line for line in cases if line.get("control"))
            more = [{**test, "method": "removed"}, {**control, "method": "not made any more"}]
            older = {**session, "session": "another", "start": session["start"] + 1}
            stored.add([(older, [*cases, *more])])
        run = bisection()
        assert run.code == 3, run.text
        told = "trouble: 1 tests of the last session are gone: transpose cnt40 mpi removed"
        assert told in run.said

    def test_tags_name_a_session(self, bisection, tmp_path):
        run = bisection("--tag", "phase=before")
        with sync.opened(tmp_path) as stored:
            (session,) = select("phase=before", stored)
        assert session.uuid == run.verdict["session"]
        assert session.tags["tier"] == "quick"
        assert session.facts["MPI"] == "none"

    def test_tag_that_is_none(self, bisection, fake, tmp_path):
        command = [sys.executable, "-m", "bisection", "run", "--tag", "before"]
        code, text = start(command, tmp_path)
        assert code == 2
        assert "--tag before: not NAME=VALUE" in text

    def test_reruns_are_samples_of_one_session(self, bisection, tmp_path):
        run = bisection("--reruns=2")
        assert run.code == 0, run.text
        assert (run.folder / "verdict.txt").read_text().count("pass x3") == 1
        assert "PASS: 3 of 3 checks passed" in run.said
        with sync.opened(tmp_path) as stored:
            rows = stored.samples()
            tests, metrics = stored.tests(), stored.metrics()
        times = [
            row
            for row in rows
            if tests[row["test"]].method == "p2p" and metrics[row["metric"]].name == "time"
        ]
        assert sorted(row["run"] for row in times) == [0, 1, 2]

    def test_build_fails(self, bisection, tmp_path):
        run = bisection("-S", f"Build.kernels={tmp_path}/nothing")
        assert run.code == 3
        assert run.case("p2p")["verdict"] == "not measured"
        assert "not measured: Build (system)" in run.said


class TestByHand:
    """ReFrame itself, as its users know it."""

    def reframe(self, tmp_path, *arguments):
        command = ["reframe", "-C", "site-configs/localhost.py", "-c", "checks", *arguments]
        return start(command, tmp_path)

    def test_dry_run(self, tmp_path, fake):
        how = ["--dry-run", "-p", "system", "-S", f"Build.kernels={fake}"]
        code, text = self.reframe(tmp_path, *how, *ONE)
        assert code == 0, text
        assert "Ran 3/3 test case(s)" in text
        assert "PASSED" in text

    def test_set_a_variable(self, tmp_path, fake):
        how = ["-r", "-p", "system", "-S", f"Build.kernels={fake}", "-S", "asserted=no_such"]
        code, text = self.reframe(tmp_path, *how, "-t", "quick", *ONE)
        assert code == 1
        assert 'METRICS_MISSING method="p2p" metrics=["no_such"]' in text

    def test_launch_that_bypassed_the_network_that_its_partition_claims(self, tmp_path, fake):
        shutil.copytree(CHECKS.parent / "site-configs", tmp_path / "sites")
        site = tmp_path / "sites" / "localhost.py"
        site.write_text(site.read_text().replace('"nodes": 1', '"nodes": 1, "network": ["mlx5_0"]'))
        command = ["reframe", "-C", str(site), "-c", "checks", "-r", "-p", "system"]
        command += ["-S", f"Build.kernels={fake}", f"--prefix={tmp_path}", "-t", "quick", *ONE]
        code, text = start(command, tmp_path, faults={"mpi/cnt40": "tcp"})
        assert code == 1
        assert 'NETWORK_BYPASSED carried=[["eth0", 1.0]] expected=["mlx5_0"]' in text
        code, text = start(command, tmp_path)
        assert code == 0, text


def test_fake_kernel_keeps_the_contract(fake, tmp_path):
    schema = CHECKS.parent / "src" / "common" / "result.schema.json"
    for name, case in (("transpose", "cnt40"), ("patterns", "sweep")):
        output = tmp_path / f"{name}.json"
        command = [fake / "bin" / f"bisection-{name}", "--case", case, "--output", output]
        subprocess.run(command, check=True)
        jsonschema.validate(json.loads(output.read_text()), json.loads(schema.read_text()))


def test_nothing_is_left_in_the_folder_of_temporary_files(bisection, tmp_path, monkeypatch):
    """ReFrame leaves the log of its start; launches have the machine's own folder."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    told = tmp_path / "told"
    run = bisection("-S", f"TransposeLaunch.prerun_cmds=echo $TMPDIR ${{{TEMPORARY}-none}} >{told}")
    assert run.code == 0, run.text
    assert told.read_text() == f"{folder} none\n"
    assert list(folder.iterdir()) == []
    assert list(run.folder.glob(".reframe-*")) == []
