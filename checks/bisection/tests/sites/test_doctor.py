"""`bisection doctor`: every class of defect is made once, and must be reported with its place."""

import dataclasses
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from houses import CHECK, make_house, told
from running import start

from bisection import cli
from bisection.sites import rules, site_files
from bisection.sites.site_files import load_site


class TestHouse:
    @pytest.mark.long
    def test_real_one_has_no_defect_without_a_network(self, tmp_path):
        command = [sys.executable, "-m", "bisection", "doctor"]
        alone = ["unshare", "--map-root-user", "--net"]
        if subprocess.run([*alone, "true"], capture_output=True).returncode == 0:
            command = [*alone, *command]
        code, text = start(command, tmp_path)  # within its limit of time
        assert code == 0, text
        assert text.splitlines()[-1].startswith("doctor: no defects (")

    def test_defects_are_counted(self, house, command_line):
        (house / "checks" / "tiny.py").write_text("import reframe\n\n1 / 0\n")
        code, text, _ = command_line("doctor", "--system", "localhost")
        lines = text.splitlines()
        assert code == 1
        assert lines[0].startswith("checks/tiny.py:3: does not load: ")
        assert "division by zero" in lines[0]
        assert lines[-1].startswith("doctor: 1 defect in 1 site file, 1 check file, ")
        code, text, _ = command_line("doctor", "--system", "localhost", "--json")
        told = json.loads(text)
        assert (code, told["examined"]["check file"]) == (1, 1)
        assert [(d["path"], d["line"]) for d in told["defects"]] == [("checks/tiny.py", 3)]

    def test_unknown_system_is_usage(self, house, capsys):
        assert cli.main(["doctor", "--system", "genric"]) == 2
        assert "system genric: unknown; site-configs/ has localhost" in capsys.readouterr().err


# name -> (what is replaced in localhost.py, by what, line by its text, what is told)
SITE_DEFECTS = {
    "syntax": ("systems=[", "systems=[)", "systems=[)", "does not load: closing parenthesis"),
    "raises": ('__file__).stem', '__file__).stm', '__file__).stm', "AttributeError: "),
    "exits": ("common =", "raise SystemExit(0)\ncommon =", "raise", "SystemExit: 0"),
    "dies": ("common =", "import os; os._exit(3)\ncommon =", "", "tried ended with exit code 3"),
    "schema": ('"max_jobs": 1', '"max_job": 1', '"max_job": 1', "unexpected): is it max_jobs?"),
    "value": ('"max_jobs": 1', '"max_jobs": "1"', '"max_jobs": "1"', "'1' is not of type"),
    "renamed": ("Path(__file__).stem", '"other"', "", "for the requested system: 'renamed'"),
    "scheduler": ('"scheduler": "local"', '"scheduler": "slrum"', '"slrum"', "no such scheduler"),
    "environs": ('["system", "spack"]', '["sytem"]', '"environs"', "ConfigError"),
    "idle": ('["system", "spack"]', '["builtin"]', '"environs"', "no check can run: builtin lack"),
    "coreless": ("common.this_machine()", '{"arch": "x"}', '"processor"', "cores unknown"),
    "nodes": ('"nodes": 1', '"nodes": "1"', '"nodes": "1"', "extras.nodes is '1': a whole number"),
    "claims": ('"references": []', '"references": ["rato"]', '["rato"]', "allowed are ratio, time"),
    "file": ('"references": []', '"references": ["time"]', '["time"]', "there is no reference/sys"),
}  # fmt: skip


@pytest.fixture(scope="session")
def broken_sites(gallery):
    """name -> (the defects of a site file, its text): all loaded at once."""

    def load(folder):
        with pytest.MonkeyPatch.context() as patch:
            folder = make_house(folder, patch) / "site-configs"
            text = (folder / "localhost.py").read_text()
            for name, (old, new, _, _) in SITE_DEFECTS.items():
                assert old in text
                (folder / f"{name}.py").write_text(text.replace(old, new))
            with ThreadPoolExecutor() as pool:
                loaded = list(pool.map(load_site, SITE_DEFECTS))
            return {s.name: ([*rules.site_defects(s)], s.path.read_text()) for s in loaded}

    return gallery("broken-sites", load)


@pytest.mark.parametrize("name", SITE_DEFECTS)
def test_site_defect(broken_sites, name):
    _, _, marker, says = SITE_DEFECTS[name]
    defects, text = broken_sites[name]
    assert len(defects) == 1, told(defects)
    line = text[: text.index(marker)].count("\n") + 1 if marker else 1
    assert told(defects).startswith(f"site-configs/{name}.py:{line}: ")
    assert says in told(defects)


@pytest.mark.parametrize("words", ["doctor", "run --system localhost", "site check localhost"])
def test_site_that_does_not_load_in_time_is_not_measured(house, command_line, monkeypatch, words):
    """A busy host is no defect of the file."""
    monkeypatch.setattr(site_files, "PATIENCE", 0.2)
    file = house / "site-configs" / "localhost.py"
    file.write_text("import time\n\ntime.sleep(60)\n" + file.read_text())
    code, printed, errors = command_line(*words.split())
    assert (code, printed) == (3, ""), errors
    command = words.split()[0]
    (line,) = errors.splitlines()
    assert line.startswith(f"bisection {command}: error: not measured: ")
    assert "localhost.py does not load within 200 ms: this host is too busy" in line


@pytest.mark.parametrize(
    ("extras", "says"),
    [
        ({"nodes": True}, "extras.nodes is True: a whole number above 0 is allowed"),
        ({"binding": "--bind-to core"}, "extras.binding is '--bind-to core': a list"),
        ({"binding": ["-c {thread}"]}, "extras.binding has {thread} in '-c {thread}': allowed are"),
        ({"binding": ["-c {}"]}, "extras.binding has {} in '-c {}'"),
        ({"binding": ["-c {threads"]}, "extras.binding has '-c {threads': expected '}'"),
        ({"binding": [4]}, "extras.binding has 4: "),
        ({"network": "mlx5_0"}, "extras.network is 'mlx5_0': a list is allowed, of adapters"),
        ({"topology": 3}, "extras.topology is 3: the path of a file is allowed"),
        ({"topology": "no/such"}, "extras.topology, no/such: No such file or directory"),
        ({"topology": "Makefile"}, "extras.topology, Makefile: no line has SwitchName="),
        ({"scratch": "tmp"}, "extras.scratch is 'tmp': a folder's absolute path without blanks"),
        ({"scratch": ["/a", "/b c"]}, "extras.scratch is ['/a', '/b c']: "),
        ({"march": "native"}, "extras.march is 'native': a processor is allowed, as the compilers"),
        ({"march": "a b"}, "extras.march is 'a b': a processor is allowed"),
        ({"reference": ["ratio"]}, "extras.reference is not known, and would not be read: is it"),
        ({"nodes": 2, "march": "x86-64-v3", "binding": ["-c {threads} -n {ranks} {{}}"]}, None),
    ],
)
def test_extras_defect(extras, says):
    partition = {"fullname": "a:b", "cores": None, "detected": True, "environs": ["c"]}
    for of_partition, environ in ((extras, {}), ({}, extras)):
        part = partition | {"extras": of_partition}
        faults = [fault for _, fault in rules.partition_faults(part, {"c": {"extras": environ}})]
        assert len(faults) == (says is not None)
        assert all(fault.startswith(f"a:b: {says}") for fault in faults)


FAILS = '@run_after("init")\n    def fails(self):\n        1 / 0\n\n    @sanity'
CHECK_DEFECTS = {
    "syntax": ("return True", "return (", 13, "does not load: "),
    "raises": ('tags = {"quick"}', "tags = 1 / 0", 8, "does not load: "),
    "init": ("@sanity", FAILS, 13, "test 'init' does not load: "),
    "nowhere": ('["*"]', '["nowhere"]', 5, "no partition and environment of any site can run"),
    "featureless": ('"+kernels"', '"+kernel"', 5, "valid_prog_environs ['+kernel']"),
    "untagged": ('{"quick"}', '{"fast"}', 5, "no tier (quick, nightly, upgrade, triage"),
    "testless": ("@rfm.simple_test", "", 1, "ReFrame finds no test in it"),
}


@pytest.fixture(scope="module")
def broken_checks(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        folder = make_house(tmp_path_factory.mktemp("checks"), patch) / "checks"
        for name, (old, new, _, _) in CHECK_DEFECTS.items():
            text = CHECK.replace("class tiny", f"class {name}").replace(old, new)
            (folder / f"{name}.py").write_text(text)
        site = load_site("localhost")
        return [*site.defects, *rules.check_defects([site], everywhere=True)]


@pytest.mark.parametrize("name", CHECK_DEFECTS)
def test_check_defect(broken_checks, name):
    _, _, line, says = CHECK_DEFECTS[name]
    defects = [defect for defect in broken_checks if defect.path == f"checks/{name}.py"]
    assert len(defects) == 1, told(broken_checks)
    assert defects[0].line == line
    assert says in told(defects)
    assert "tiny.py" not in told(broken_checks)  # a good check among bad ones


@pytest.fixture(scope="module")
def published(site):
    """A simulated system, of which only the checks that `site` has not are there."""
    other = load_site("published/hector-xt4")
    return dataclasses.replace(
        other,
        checks={name: check for name, check in other.checks.items() if name not in site.checks},
        tests=[test for test in other.tests if test["check"] not in site.checks],
    )


@pytest.mark.parametrize(
    ("check", "where", "change", "says"),
    [
        ("md", {"case": "fe", "layout": "mpi"}, {"tags": []}, "selects md fe mpi"),
        ("transpose", {"method": "overlap"}, {"places": 0}, "can run method overlap"),
    ],
)
def test_what_no_run_reaches(site, published, check, where, change, says):
    where = {"check": check, **where}
    tests = [test | (change if where.items() <= test.items() else {}) for test in site.tests]
    changed = dataclasses.replace(site, tests=tests)
    (defect,) = rules.check_defects([changed, published], everywhere=True)
    assert (defect.path, says in defect.text) == (f"checks/{check}.py", True)


def test_one_site_that_runs_it_is_enough(site, published):
    nowhere = [{**test, "places": 0} for test in site.tests]
    other = dataclasses.replace(site, tests=nowhere)
    assert not any(rules.check_defects([other, site, published], everywhere=True))
    assert not any(rules.check_defects([other], everywhere=False))


def test_names_that_do_not_exist(site, published):
    tiers = {"quick": {"case": ["sci"], "method": ["packed"]}, "nigthly": {}}
    inapplicable = {"packd": ["mpi", "nod"]}
    check = {**site.checks["md"], "tiers": tiers, "inapplicable": inapplicable}
    wrong = dataclasses.replace(site, checks={**site.checks, "md": check})
    texts = [d.text for d in rules.check_defects([wrong, published], everywhere=True)]
    assert [text.partition(":")[0] for text in texts] == [
        "tiers of md names tier nigthly",
        "tiers of md names case sci",
        "inapplicable of md names method packd",
        "inapplicable of md names layout nod",
    ]
