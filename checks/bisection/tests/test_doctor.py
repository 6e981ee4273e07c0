"""`bisection doctor`: every class of defect is made once, and must be told with its place."""

import dataclasses
import json
import shutil
import sqlite3
import subprocess
import sys
import textwrap

import pytest
from conftest import CHECKS, SITES, start

from bisection import cli, doctor, references, spack

REAL = CHECKS.parent

# A check file that loads in a moment, of which the others are made.
CHECK = """
import reframe as rfm

@rfm.simple_test
class tiny(rfm.RunOnlyRegressionTest):
    valid_systems = ["*"]
    valid_prog_environs = ["+kernels"]
    tags = {"quick"}
    executable = "true"

    @sanity_function
    def ran(self):
        return True
"""


@pytest.fixture(scope="module")
def site():
    """The site `generic` with all checks, as ReFrame loads them."""
    return doctor.load_site("generic")


@pytest.fixture(scope="module")
def silent(site):
    """The same, whose partition claims no references."""
    quiet = [{**one, "extras": {**one["extras"], "references": []}} for one in site.partitions]
    return dataclasses.replace(site, partitions=quiet)


def make_house(folder, patch):
    """A small house, which the doctor takes for its own."""
    shutil.copytree(SITES, folder / "site-configs", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "checks").mkdir()
    (folder / "checks" / "tiny.py").write_text(CHECK)
    (folder / "reference" / "systems").mkdir(parents=True)
    for file in (folder / "site-configs").glob("*.py"):
        text = file.read_text()
        file.write_text(text.replace('"references": ["ratio"]', '"references": []'))
    patch.setattr(doctor, "ROOT", folder)
    patch.setattr(references, "SYSTEMS", folder / "reference" / "systems")
    patch.setenv("BISECTION_HOME", str(folder / "home"))
    patch.delenv("RFM_REFERENCE_PREFIX", raising=False)
    return folder


@pytest.fixture
def house(tmp_path, monkeypatch):
    return make_house(tmp_path, monkeypatch)


def told(defects):
    return "\n".join(map(str, defects))


class TestHouse:
    def test_real_one_has_no_defect_without_a_network(self, tmp_path):
        command = [sys.executable, "-m", "bisection", "doctor"]
        alone = ["unshare", "--map-root-user", "--net"]
        if subprocess.run([*alone, "true"], capture_output=True).returncode == 0:
            command = [*alone, *command]
        code, text = start(command, tmp_path)  # within its limit of time
        assert code == 0, text
        assert text.splitlines()[-1].startswith("doctor: no defects (")

    def test_small_one_has_none(self, house, capsys):
        assert cli.main(["doctor"]) == 0
        said = capsys.readouterr().out
        assert said == (
            "doctor: no defects (1 site file, 1 check file, 0 reference files, 1 test case)\n"
        )

    def test_defects_are_counted(self, house, capsys):
        (house / "checks" / "tiny.py").write_text("import reframe\n\n1 / 0\n")
        assert cli.main(["doctor", "--system", "generic"]) == 1
        lines = capsys.readouterr().out.splitlines()
        assert lines[0].startswith("checks/tiny.py:3: does not load: ")
        assert "division by zero" in lines[0]
        assert lines[-1] == (
            "doctor: 1 defect in 1 site file, 1 check file, 0 reference files, 0 test cases"
        )

    def test_unknown_system_is_usage(self, house, capsys):
        assert cli.main(["doctor", "--system", "genric"]) == 2
        assert "--system genric: unknown; site-configs/ has generic" in capsys.readouterr().err

    def test_references_alone(self, house):
        file = house / "reference" / "systems" / "other.yaml"
        file.write_text("provenance: {date: 2026-11-21, sessions: [a], lock: none}\n")
        assert doctor.examine_references("generic") == []
        assert told(doctor.examine_references()) == (
            "reference/systems/other.yaml:1: there is no site-configs/other.py: "
            "site-configs/ has generic"
        )


# ---- sites ----

# name -> (what is replaced in generic.py, by what, line by its text, what is told)
SITE_DEFECTS = {
    "syntax": ("systems=[", "systems=[)", "systems=[)", "does not load: closing parenthesis"),
    "raises": ('__file__).stem', '__file__).stm', '__file__).stm', "AttributeError: "),
    "exits": ("AS_ROOT =", "raise SystemExit(0)\nAS_ROOT =", "raise", "SystemExit: 0"),
    "dies": ("AS_ROOT =", "os._exit(3)\nAS_ROOT =", "", "the process that tried ended with 3"),
    "schema": ('"max_jobs": 1', '"max_job": 1', '"max_job": 1', "rejects systems/0/partitions/0: "),
    "value": ('"max_jobs": 1', '"max_jobs": "1"', '"max_jobs": "1"', "'1' is not of type"),
    "renamed": ("Path(__file__).stem", '"other"', "", "for the requested system: 'renamed'"),
    "scheduler": ('"scheduler": "local"', '"scheduler": "slrum"', '"slrum"', "no such scheduler"),
    "environs": ('["system", "spack"]', '["sytem"]', '"environs"', "ConfigError"),
    "idle": ('["system", "spack"]', '["builtin"]', '"environs"', "no check can run in any of its"),
    "coreless": ("common.this_machine()", '{"arch": "x"}', '"processor"', "its cores are unknown"),
    "nodes": ('"nodes": 1', '"nodes": "1"', '"nodes": "1"', "extras.nodes is '1': a whole number"),
    "claims": ('"references": []', '"references": ["rato"]', '["rato"]', "allowed are ratio, time"),
    "file": ('"references": []', '"references": ["time"]', '["time"]', "there is no reference/sys"),
}  # fmt: skip


@pytest.fixture(scope="module")
def broken_sites(tmp_path_factory):
    """name -> (the defects of a site file, its text): all loaded at once."""
    with pytest.MonkeyPatch.context() as patch:
        folder = make_house(tmp_path_factory.mktemp("sites"), patch) / "site-configs"
        texts = {}
        for name, (old, new, _, _) in SITE_DEFECTS.items():
            text = (folder / "generic.py").read_text()
            assert old in text
            texts[name] = text.replace(old, new)
            (folder / f"{name}.py").write_text(texts[name])
        sites = doctor.load(list(texts))
        return {
            name: (site.defects + doctor.site_defects(site), texts[name])
            for name, site in sites.items()
        }


@pytest.mark.parametrize("name", SITE_DEFECTS)
def test_site_defect(broken_sites, name):
    _, _, marker, says = SITE_DEFECTS[name]
    defects, text = broken_sites[name]
    assert len(defects) == 1, told(defects)
    line = text[: text.index(marker)].count("\n") + 1 if marker else 1
    assert str(defects[0]).startswith(f"site-configs/{name}.py:{line}: ")
    assert says in defects[0].text


def test_site_that_hangs(house, monkeypatch):
    monkeypatch.setattr(doctor, "PATIENCE", 0.5)
    file = house / "site-configs" / "generic.py"
    file.write_text("import time\n\ntime.sleep(60)\n" + file.read_text())
    found = doctor.load_site("generic").defects
    assert told(found) == "site-configs/generic.py:1: does not load within 0.5 s"


@pytest.mark.parametrize(
    ("extras", "says"),
    [
        ({"nodes": 0}, "extras.nodes is 0: a whole number above 0 is allowed"),
        ({"nodes": True}, "extras.nodes is True"),
        ({"binding": "--bind-to core"}, "extras.binding is '--bind-to core': a list"),
        ({"binding": ["-c {thread}"]}, "extras.binding has {thread} in '-c {thread}': allowed are"),
        ({"binding": ["-c {}"]}, "extras.binding has {} in '-c {}'"),
        ({"binding": ["-c {threads"]}, "extras.binding has '-c {threads': expected '}'"),
        ({"binding": [4]}, "extras.binding has 4: "),
        ({"reference": ["ratio"]}, "extras.reference is not known, and would not be read: is it"),
    ],
)
def test_extras_defect(extras, says):
    partition = {"extras": extras, "cores": 4, "detected": False}
    found = [text for _, text in doctor.partition_faults(partition)]
    assert len(found) == 1
    assert found[0].startswith(says)


def test_good_extras():
    extras = {"nodes": 2, "binding": ["-c {threads} -n {ranks} {{}}"], "queue": "normal"}
    partition = {"extras": extras, "cores": None, "detected": True}
    assert list(doctor.partition_faults(partition)) == []


# ---- checks ----

CHECK_DEFECTS = {
    "syntax": ("return True", "return (", 13, "does not load: "),
    "raises": ('tags = {"quick"}', "tags = 1 / 0", 8, "does not load: "),
    "init": ("@sanity_function", '@run_after("init")', 13, "test 'init' does not load: "),
    "nowhere": ('["*"]', '["nowhere"]', 5, "no partition and environment of any site can run"),
    "featureless": ('"+kernels"', '"+kernel"', 5, "valid_prog_environs ['+kernel']"),
    "untagged": ('{"quick"}', '{"fast"}', 5, "no tier (quick, nightly, upgrade, interconnect)"),
    "testless": ("@rfm.simple_test", "", 1, "ReFrame finds no test in it"),
}


@pytest.fixture(scope="module")
def broken_checks(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        folder = make_house(tmp_path_factory.mktemp("checks"), patch) / "checks"
        for name, (old, new, _, _) in CHECK_DEFECTS.items():
            text = CHECK.replace("class tiny", f"class {name}").replace(old, new)
            if name == "init":
                text = text.replace("return True", "return self.nothing")
            (folder / f"{name}.py").write_text(text)
        site = doctor.load_site("generic")
        return site.defects + doctor.check_defects([site], everywhere=True)


@pytest.mark.parametrize("name", CHECK_DEFECTS)
def test_check_defect(broken_checks, name):
    _, _, line, says = CHECK_DEFECTS[name]
    found = [defect for defect in broken_checks if defect.path == f"checks/{name}.py"]
    assert len(found) == 1, told(broken_checks)
    assert found[0].line == line
    assert says in found[0].text


def test_good_check_among_bad_ones(broken_checks):
    assert "tiny.py" not in told(broken_checks)


def with_tests(site, name, **changes):
    """The site, with every test of a check changed."""
    tests = [{**one, **changes} if one["check"] == name else one for one in site.tests]
    return dataclasses.replace(site, tests=tests)


class TestChecks:
    def test_real_ones_are_good(self, site):
        assert doctor.check_defects([site], everywhere=True) == []

    def test_case_and_layout_without_a_tier(self, site):
        wrong = [
            {**one, "tags": []} if (one["case"], one["layout"]) == ("fe", "mpi") else one
            for one in site.tests
        ]
        found = doctor.check_defects([dataclasses.replace(site, tests=wrong)], everywhere=True)
        assert [d.path for d in found] == ["checks/md.py"]
        assert found[0].text.endswith("selects md fe mpi")

    def test_value_that_can_run_nowhere(self, site):
        wrong = [{**one, "places": 0} if one["method"] == "overlap" else one for one in site.tests]
        found = doctor.check_defects([dataclasses.replace(site, tests=wrong)], everywhere=True)
        assert told(found).endswith("of any site can run method overlap of transpose")
        assert doctor.check_defects([dataclasses.replace(site, tests=wrong)], False) == []

    def test_one_site_that_runs_it_is_enough(self, site):
        nowhere = with_tests(site, "network", places=0)
        assert doctor.check_defects([nowhere, site], everywhere=True) == []

    def test_names_that_do_not_exist(self, site):
        check = {**site.checks["md"], "quick": ["sci"], "inapplicable": {"packd": ["mpi", "nod"]}}
        wrong = dataclasses.replace(site, checks={**site.checks, "md": check})
        found = told(doctor.check_defects([wrong], everywhere=True))
        assert "quick of md names case sci: there are sic, cu3au, fe, test10" in found
        assert "inapplicable of md names method packd: there are packed" in found
        assert "inapplicable of md names layout nod: there are mpi, node" in found
        assert found.count("\n") == 2


# ---- references ----

TREE = """\
provenance: {date: 2026-11-21, sessions: [a], lock: none}
transpose:
  $index: [$partition, geometry, case, method]
  generic:default:
    2x1:
      cnt40:
        alltoallv: {ratio_serial: [0.6, -0.5, 0.5]}
        (p2p|shm): {ratio_serial: [0.7, -0.5, 0.5]}
        .*: {ratio_alltoallv: [1.0, -0.5, 0.5], ratio_serial: [0.8, -0.5, 0.5]}
      .*: &all
        .*: {ratio_alltoallv: [1.0, -0.5, 0.5, ratio]}
    .*:
      .*: *all
network:
  $index: [$partition, method]
  generic:.*:
    .*: {ratio_alltoallv_8B: [1.0, -0.5, 0.5], time_8B: [1.0e-6, -0.5, 0.5, s]}
"""

# (what is replaced, by what, line by its text, what is told)
REFERENCE_DEFECTS = [
    ("provenance: {date", "x: &x {date", "x: &x", "there is no check x: there are md, md_layout"),
    ("date: 2026-11-21, ", "", "provenance", "provenance does not tell date"),
    ("[a]", "[]", "provenance", "provenance does not tell sessions"),
    ("[a]", "a", "provenance", "sessions is 'a', not a list"),
    (", lock: none", "", "provenance", "provenance does not tell lock"),
    ("network:", "transpose:", "transpose:\n  $index: [$partition, m", "transpose is there twice"),
    ("(p2p|shm)", "alltoallv", "alltoallv: {ratio_serial: [0.7", "there twice, first in line 7"),
    ("ratio_serial: [0.8", "ratio_alltoallv: [0.8", "[0.8", "key ratio_alltoallv is there twice"),
    ("network:", "on:", "on:", "key on is bool in YAML: quote it"),
    ("(p2p|shm)", "No", "No:", "key No is bool in YAML: quote it"),
    ("(p2p|shm)", "12", "12:", "key 12 is no text in YAML, and what it stands for is: quote it"),
    ("network:", "netwrk:", "netwrk:", "there is no check netwrk"),
    ("generic:.*", "generc:.*", "generc", "generc:.* is no partition of network: there are gener"),
    ("  generic:default", "  default", "  default", "default is no partition of transpose"),
    ("[$partition, method]", "[$partition, metod]", "metod", "$index of network has metod: the ch"),
    ("[$partition, method]", "[$part, method]", "$part,", "$index of network has $part: ReFrame"),
    ("method]\n  generic:.*", "$processor.cpus]\n  generic:.*", "$processor", "has no cpus"),
    ("  $index: [$partition, method]\n", "", "network", "network has no $index"),
    ("[$partition, method]", "$partition", "$partition\n", "network has no $index, a list"),
    ("cnt40", "cnt41", "cnt41", "cnt41 is no case of transpose for partition generic:default, geo"),
    ("alltoallv: {ratio_serial", "altoall: {ratio_serial", "altoall", "altoall is no method of t"),
    ("(p2p|shm)", "(p2p", "(p2p:", "(p2p is no regular expression: missing )"),
    ("(p2p|shm)", "shm|direct", "shm|direct", "also matches shm-padded, as ReFrame puts ^ and $"),
    ("2x1", "1x1|1x2", "1x1|1x2", "1x1|1x2 also matches 1x10, 1x11 and"),
    ("2x1", "two", "two:", "two is no geometry: those are [nodes x]ranks x threads"),
    ("2x1", "2x1x1x1", "2x1x1x1", "2x1x1x1 is no geometry"),
    ("2x1", "2", "2:", "key 2 is no text in YAML"),
    ("2x1", "2y.*", "2y", "2y.* is no geometry"),
    ("2x1", ".*x.*", ".*:\n      .*: *", ".* is never reached: .*x.* in line 5 comes first"),
    ("(p2p|shm)", ".*", ".*: {ratio_alltoallv: [1.0, -0.5, 0.5], ", ".* is there twice"),
    ("(p2p|shm)", ".+", ".*: {ratio_alltoallv: [1.0, -0.5, 0.5], ", ".* is never reached: "),
    ("ratio_serial: [0.7", "ratio_sereal: [0.7", "sereal", "is no metric of transpose: such are r"),
    ("time_8B", "time_9B", "time_9B", "time_9B is no metric of network"),
    ("[1.0e-6", "[1.0e6", "[1.0e6", "time_8B: the reference '1.0e6' is text, not a number"),
    ("[0.7, -0.5", "[0.7, off", "[0.7, off", "ratio_serial: off is bool in YAML, in place of a"),
    ("[0.7, -0.5", "[0.7, [1]", "[0.7, [1]", "ratio_serial: a YAML seq, in place of a number"),
    ("[0.7, -0.5", f"[1{'0' * 400}, -0.5", "[100", "ratio_serial: a YAML int, in place of a num"),
    ("[0.7, -0.5", "[0.7, null", "[0.7", "ratio_serial: the lower bound is open"),
    ("[0.7, -0.5", "[.nan, -0.5", ".nan", "ratio_serial: the reference nan is not a finite number"),
    ("[0.7, -0.5", "[0, -0.5", "[0,", "ratio_serial: the reference 0 is not above zero"),
    ("[0.7, -0.5, 0.5]", "[0.7, 0.5, -0.5]", "[0.7", "the lower bound 0.5 is not a fraction betw"),
    ("[0.7, -0.5, 0.5]", "[0.7, -1.0, 1]", "[0.7", "the lower bound -1.0 is not a fraction betw"),
    ("[0.7, -0.5, 0.5]", "[0.7, -0.5, -0.1]", "[0.7", "the upper bound -0.1 is below zero"),
    ("[0.7, -0.5, 0.5]", "[0.7, -0.5]", "[0.7", "is not [value, lower, upper]"),
    ("[0.7, -0.5, 0.5]", "0.7", "0.7", "ratio_serial: this is not [reference, lower bound, upper"),
    ("[0.7, -0.5, 0.5]", "[$xfail, why]", "[$xfail", "ratio_serial: this is not [reference"),
    ("0.5, ratio]", "0.5, s]", "0.5, s]", "the unit is s, but is measured in ratio, and ReFrame"),
    ("0.5, s]", "0.5, ms]", "0.5, ms]", "time_8B: the unit is ms, but is measured in s"),
    ("{ratio_serial: [0.7, -0.5, 0.5]}", "[1]", "[1]", "(p2p|shm) must be a mapping of metrics"),
    ("      .*: *all\n", "      .*: 1\n", ".*: 1", "must be a mapping of method of metrics"),
    ("{ratio_serial: [0.7, -0.5, 0.5]}", "{}", "{}", "there is no reference of transpose for part"),
    ("      .*: *all\n", "      {}\n", "    .*:\n      {}", "there is nothing under transpose for"),
]  # fmt: skip


def examine(folder, text, site, recorded=None):
    file = folder / "generic.yaml"
    file.write_text(text)
    return doctor.reference_defects(file, site, recorded)


class TestReferences:
    def test_real_ones_are_good(self, site):
        assert doctor.reference_defects(references.SYSTEMS / "generic.yaml", site) == []

    def test_good_ones(self, tmp_path, silent):
        assert examine(tmp_path, TREE, silent) == []

    @pytest.mark.parametrize(("old", "new", "marker", "says"), REFERENCE_DEFECTS)
    def test_defect(self, tmp_path, silent, old, new, marker, says):
        assert old in TREE
        text = TREE.replace(old, new, 1)
        found = [str(defect) for defect in examine(tmp_path, text, silent)]
        line = text[: text.index(marker)].count("\n") + 1
        where = f"{tmp_path}/generic.yaml:{line}: "
        assert [one for one in found if one.startswith(where) and says in one], found

    @pytest.mark.parametrize(
        ("text", "says"),
        [
            ("", "is not a mapping of checks"),
            ("- 1", "is not a mapping of checks"),
            ("a: [", "is not YAML: "),
            ("a: *b", "is not YAML: found undefined alias 'b'"),
            ("? [1, 2]\n: 3", "is not YAML: found unhashable key"),
            ("a: !x b", "is not YAML: could not determine a constructor"),
            ("&a {network: *a}", "network has no $index"),
            ("network: {$index: [[1]]}", "network has no $index"),
            ("network: {$index: [{a: b}], 1: 2}", "network has no $index"),
            ("network: {$index: [1]}", "network has no $index"),
            ("network:", "network is not a mapping"),
            ("a: \0", "is not YAML: unacceptable character"),
        ],
    )
    def test_what_is_not_a_reference_file(self, tmp_path, silent, text, says):
        assert says in told(examine(tmp_path, text, silent))

    def test_what_is_not_text(self, tmp_path, silent):
        file = tmp_path / "generic.yaml"
        file.write_bytes(b"\xff\xfe\xff")
        assert "cannot be read: " in told(doctor.reference_defects(file, silent))

    def test_without_a_site(self, tmp_path):
        found = examine(tmp_path, TREE.replace("0.6", "0.6e1"), None)
        assert "there is no site-configs/generic.py" in found[0].text
        assert "the reference '0.6e1' is text" in found[1].text
        assert len(found) == 2

    def test_site_that_does_not_load(self, tmp_path):
        broken = doctor.Site("generic", SITES / "generic.py")
        assert examine(tmp_path, TREE, broken) == []

    def test_recorded_metrics_exist(self, tmp_path, silent):
        text = TREE.replace("ratio_serial: [0.7", "hops: [7")
        assert "hops is no metric of transpose" in told(examine(tmp_path, text, silent))
        assert examine(tmp_path, text, silent, {"transpose": {"hops": "hops"}}) == []

    def test_known_failure_is_a_reference(self, tmp_path, silent):
        text = TREE.replace("[0.7, -0.5, 0.5]", "[$xfail, why, [0.7, -0.5, 0.5]]")
        assert examine(tmp_path, text, silent) == []
        text = TREE.replace("[0.7, -0.5, 0.5]", "[$xfail, why, [0.7, -0.5, off]]")
        assert "off is bool" in told(examine(tmp_path, text, silent))

    def test_numbered_methods_follow_from_the_machine(self, tmp_path, silent):
        npar = """
            npar:
              $index: [$partition, method]
              generic:default:
                npar-96: {ratio_best: [1.0, -0.1, 0.1]}
                npar-.*: {ratio_best: [1.0, -0.1, 0.1]}
            """
        text = TREE + textwrap.dedent(npar)
        assert examine(tmp_path, text, silent) == []
        found = examine(tmp_path, text.replace("npar-96", "npar96"), silent)
        assert "npar96 is no method of npar for partition generic:default" in told(found)
        assert "there are npar-N, emulated" in told(found)

    def test_claimed_kinds_are_there(self, tmp_path, site):
        found = told(examine(tmp_path, TREE, site))
        for check in ("md", "npar", "md_layout"):
            assert f"it claims references, and {tmp_path}/generic.yaml has none of {check}" in found
        assert "npar_best" not in found  # groups are of no kind
        line = TREE[: TREE.index("network:")].count("\n") + 1
        assert f"generic.yaml:{line}: generic:default claims references" in found
        assert "none of network for ratio_alltoallv_16B, ratio_alltoallv_32B" in found

    @pytest.mark.parametrize("value", ["1x1", "1x16", "2x1", "shm", "", "a\n", "1x2"])
    def test_keys_are_chosen_as_by_reframe(self, value):
        from reframe.core.pipeline import _KeyMatchingDict

        keys = ["1x1|1x2", "2x1", ".x.*", "shm", "", "a"]
        table = _KeyMatchingDict(lambda _: None, {key: key for key in keys})
        assert doctor.choose(keys, value) == table[value]


# ---- locks ----


@pytest.fixture
def locked(tmp_path, monkeypatch):
    """(a site that builds by Spack, the folder of its lock), where one has been made."""
    monkeypatch.setenv("BISECTION_HOME", str(tmp_path))
    file = spack.environment_file("debian12")
    folder = tmp_path / "spack" / "environments" / "debian12"
    folder.mkdir(parents=True)
    text = spack.render(file, spack.survey_externals(file).installed)
    (folder / "spack.yaml").write_text(text)
    spec = {"name": "k", "version": "1", "arch": {"target": "x86_64"}, "dependencies": []}
    content = {"roots": [{"hash": "h"}], "concrete_specs": {"h": spec}}
    (folder / "spack.lock").write_text(json.dumps(content))
    facts = spack.lock_facts(folder / "spack.lock")
    spack.State(installation={"lock_hash": facts["lock_hash"]}).save(folder / "state.json")
    environs = {"spack": {"features": ["spack"], "extras": {"spack_env": "auto"}}}
    return doctor.Site("generic", SITES / "generic.py", environs=environs), folder


class TestLocks:
    def test_good_one(self, locked):
        assert doctor.lock_findings(locked[0]) == ([], [])

    def test_made_from_an_older_file(self, locked):
        site, folder = locked
        text = (folder / "spack.yaml").read_text()
        line = text[: text.index("fftw@")].count("\n") + 1
        (folder / "spack.yaml").write_text(text.replace("fftw@", "fftw@1.", 1))
        (found,), _ = doctor.lock_findings(site)
        assert str(found).startswith(f"spack-env/debian12/spack.yaml:{line}: ")
        assert "spack.lock was made from" in found.text

    def test_changed_by_hand(self, locked):
        site, folder = locked
        with (folder / "spack.lock").open("a") as file:
            file.write("\n")
        (found,), _ = doctor.lock_findings(site)
        assert "was changed since the kernels were built from it" in found.text

    @pytest.mark.parametrize("text", ["", "[]", "{", '{"roots": []}'])
    def test_no_lock_at_all(self, locked, text):
        site, folder = locked
        (folder / "spack.lock").write_text(text)
        (found,), _ = doctor.lock_findings(site)
        assert "is no lock of Spack" in found.text

    def test_missing_is_a_note(self, locked):
        site, folder = locked
        (folder / "spack.lock").unlink()
        defects, notes = doctor.lock_findings(site)
        assert defects == []
        assert notes[0].startswith("generic, environment spack: nothing is built yet for spack_env")

    def test_nothing_where_spack_was_never_used(self, locked, monkeypatch, tmp_path):
        monkeypatch.setenv("BISECTION_HOME", str(tmp_path / "other"))
        assert doctor.lock_findings(locked[0]) == ([], [])

    def test_unknown_environment(self, locked):
        environs = {"spack": {"features": ["spack"], "extras": {"spack_env": "debian"}}}
        (found,), _ = doctor.lock_findings(dataclasses.replace(locked[0], environs=environs))
        assert "spack_env is debian: allowed are debian12, generic, auto" in found.text


# ---- stored results ----

ENTRY = {
    "display_name": "network %method=alltoall",
    "perfvalues": {"generic:default:time_8B": [1.0, 0, None, None, "s", "pass"]},
}
REPORT = json.dumps({"session_info": {}, "runs": [{"testcases": [ENTRY]}]})


def database(path, *texts):
    with sqlite3.connect(path) as base:
        base.execute(
            "CREATE TABLE sessions(uuid TEXT, session_start_unix REAL, session_end_unix REAL, "
            "json_blob TEXT, report_file TEXT)"
        )
        base.execute(
            "CREATE TABLE testcases(name TEXT, system TEXT, partition TEXT, environ TEXT, "
            "job_completion_time_unix REAL, session_uuid TEXT, uuid TEXT)"
        )
        rows = [(f"u{n}", n, n, text, "") for n, text in enumerate(texts)]
        base.executemany("INSERT INTO sessions VALUES (?, ?, ?, ?, ?)", rows)
    base.close()
    return path


class TestDatabase:
    def test_good_one(self, tmp_path):
        found = doctor.read_database(database(tmp_path / "results.db", REPORT, REPORT))
        assert found == ([], {"network": {"time_8B": "s"}})

    def test_none(self, tmp_path):
        assert doctor.read_database(tmp_path / "results.db") == ([], {})

    @pytest.mark.parametrize("text", ["{", "[]", "{}", None, '{"runs": [1]}'])
    def test_session_that_does_not_parse(self, tmp_path, text):
        (found,), _ = doctor.read_database(database(tmp_path / "results.db", REPORT, text))
        assert found.text.startswith("session u1 is not a report of ReFrame (")

    @pytest.mark.parametrize("content", [b"garbage" * 100, b"SQLite format 3\0" + b"x" * 5000])
    def test_not_sqlite(self, tmp_path, content):
        path = tmp_path / "results.db"
        path.write_bytes(content)
        (found,), _ = doctor.read_database(path)
        assert found.text.startswith("SQLite cannot read it: ")

    def test_damaged(self, tmp_path):
        path = database(tmp_path / "results.db", *[REPORT * 100] * 20)
        content = bytearray(path.read_bytes())
        content[4096:12288] = b"\x55" * 8192
        path.write_bytes(content)
        found, _ = doctor.read_database(path)
        assert found
        assert "is damaged" in found[0].text or "SQLite cannot read it" in found[0].text

    def test_empty(self, tmp_path):
        (tmp_path / "results.db").touch()
        found, _ = doctor.read_database(tmp_path / "results.db")
        assert "has no table sessions" in told(found)

    def test_other_columns(self, tmp_path):
        path = database(tmp_path / "results.db")
        with sqlite3.connect(path) as base:
            base.execute("ALTER TABLE sessions RENAME COLUMN json_blob TO blob")
        found, _ = doctor.read_database(path)
        assert "has no column json_blob in table sessions" in told(found)


class Store:
    """In place of bisection.store."""

    def __init__(self, answer):
        self.answer = answer

    def defects(self, home):
        return self.answer()


class TestStore:
    @pytest.fixture
    def store(self, monkeypatch):
        def put(module):
            monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda _: module)
            monkeypatch.setattr(doctor.importlib, "import_module", lambda _: module)

        return put

    def test_its_lines(self, store, tmp_path):
        lines = [f"{tmp_path}/store.db: damaged", f"{tmp_path}/a:3: odd", "nothing: fits"]
        store(Store(lambda: lines))
        assert [str(one) for one in doctor.store_defects()] == [
            f"{tmp_path}/store.db:1: damaged",
            f"{tmp_path}/a:3: odd",
            f"{doctor.shown(spack.home())}:1: nothing: fits",
        ]

    def test_that_fails_itself(self, store):
        store(Store(lambda: 1 / 0))
        (found,) = doctor.store_defects()
        assert found.text == "the store cannot be examined: ZeroDivisionError: division by zero"

    @pytest.mark.parametrize("module", [None, object()])
    def test_none(self, store, module):
        store(module)
        assert doctor.store_defects() == []
