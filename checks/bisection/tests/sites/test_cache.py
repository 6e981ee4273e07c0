"""Facts of checks are kept while nothing that decides them changes, and never longer."""

import json
import os
import subprocess
import sys

import pytest
from houses import CHECK, REAL, make_house

from bisection.core import paths
from bisection.sites import cache
from bisection.sites.site import load_site

KEPT = "by the cache"


@pytest.fixture
def entries(house):
    """The entries of the house's home, a function."""
    return lambda: sorted((house / "home" / "cache" / "checks").glob("*.json"))


def is_kept(entries, names=None):
    """Whether a load takes an entry: the newest is changed, and the change shows."""
    entry = max(entries(), key=lambda path: path.stat().st_mtime_ns)
    facts = cache.read(entry)
    facts["checks"]["tiny"]["valid_systems"] = [KEPT]
    cache.write(entry, facts)
    return load_site("localhost", names).checks["tiny"]["valid_systems"] == [KEPT]


def test_second_load_takes_what_the_first_kept(house, entries):
    first = load_site("localhost")
    assert len(entries()) == 1
    assert load_site("localhost") == first
    assert is_kept(entries)
    assert len(entries()) == 1


def test_other_names_take_the_same_entry(house, entries):
    """Patterns of -n select by name, hash and variant; what they select is not kept."""
    site = load_site("localhost")
    (test,) = site.tests
    assert len(site.cases) == 2  # environments
    assert test["named"] == []
    (entry,) = entries()
    value = cache.read(entry)["tests"][0]["identity"]["hashcode"]
    names = ["^tiny$", f"/{value}", "tiny@0", "other", "/01234567"]
    site = load_site("localhost", names)
    assert site.tests[0]["named"] == names[:3]
    assert site.cases == []
    assert is_kept(entries, ["^tiny$"])


def edit(text):
    """A function that adds text to a file of the house."""

    def change(house, patch, name):
        with open(house / name, "a", encoding="utf-8") as file:
            file.write(text)

    return change


def add_check(house, patch, name):
    (house / name).write_text(CHECK.replace("tiny", "small"))


def set_variable(house, patch, name):
    patch.setenv(name, "2")


def fewer_cores(house, patch, name):
    file = house / "site-configs" / "localhost.py"
    facts = {"arch": "x", "num_cpus": 7, "num_cpus_per_core": 1, "num_cpus_per_socket": 7}
    text = file.read_text().replace("common.this_machine()", repr({**facts, "num_sockets": 1}))
    file.write_text(text)


CHANGES = {
    "site-configs/localhost.py": edit("\n"),
    "site-configs/common.py": edit("\n"),
    "site-configs/localhost.json": edit("{}"),
    "checks/tiny.py": edit("\n"),
    "checks/small.py": add_check,
    "reference/systems/localhost.yaml": edit("{}\n"),
    "RFM_SAVE_LOG_FILES": set_variable,
    "TINY_SIZE": set_variable,
    "cores": fewer_cores,
}


@pytest.fixture(scope="module")
def settled(tmp_path_factory):
    """A house whose facts are kept, with a check that reads a variable."""
    with pytest.MonkeyPatch.context() as patch:
        house = make_house(tmp_path_factory.mktemp("house"), patch)
        patch.setenv("RFM_REFERENCE_PREFIX", str(house / "reference" / "systems"))
        file = house / "checks" / "tiny.py"
        file.write_text(f"import os\nSIZE = os.environ.get('TINY_SIZE')\n{CHECK}")
        load_site("localhost")
        folder = house / "home" / "cache" / "checks"
        assert is_kept(lambda: list(folder.glob("*.json")))
        yield house


@pytest.mark.parametrize("name", CHANGES)
def test_what_could_be_stale_is_loaded_again(settled, monkeypatch, name):
    files = {file: file.read_bytes() for file in cache_inputs(settled)}
    CHANGES[name](settled, monkeypatch, name)
    site = load_site("localhost")
    for file in cache_inputs(settled):
        file.write_bytes(files[file]) if file in files else file.unlink()
    assert site.checks["tiny"]["valid_systems"] == ["*"]
    assert ("small" in site.checks) == (name == "checks/small.py")


def cache_inputs(house):
    """The files of a house that a change may be made in."""
    folders = (house / "checks", house / "site-configs", house / "reference" / "systems")
    return [file for folder in folders for file in folder.glob("*.*")]


def test_variable_that_no_input_names_decides_nothing(house, entries, monkeypatch):
    load_site("localhost")
    monkeypatch.setenv("INVOCATION_OF_A_SERVICE", "1")
    assert is_kept(entries)


def test_inputs_are_sources_tables_and_references_of_this_checkout(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "ROOT", REAL)  # a house of this module may have its place
    names = {os.path.relpath(name, paths.ROOT) for name in cache.inputs(paths.ROOT, tmp_path)}
    assert {
        "checks/transpose.py",
        "checks/bisection/rfm/check.py",
        "checks/bisection/sites/probe.py",
        "src/transpose/transpose.def",
        "src/md/md_launch.f90",
        "checks/workshop/smpi/machines.csv",
        "reference/systems/localhost.yaml",
        "reference/literature/findings.csv",
        "site-configs/common.py",
    } <= names
    assert not any("tests" in name for name in names if name.startswith("checks"))


def test_each_fact_of_software_and_host_is_in_the_key(monkeypatch):
    before = cache.key({}, None)
    for owner, name, value in (
        (sys, "version", "4.0"),
        (cache.reframe, "VERSION", "5.0"),
        (os, "uname", lambda: ("Linux", "another host")),
        (os, "sched_getaffinity", lambda pid: {5}),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, value)
            assert cache.key({}, None) != before
    assert cache.key({}, None) == before
    assert cache.key({}, "another") != before
    assert cache.key({"a": b"1"}, None) != cache.key({"a": b"2"}, None)


READS = {
    "file": "open('/proc/uptime').read()",
    "folder": "list(__import__('pathlib').Path('/proc/self').iterdir())",
    "process": "__import__('subprocess').run(['true'])",
    "shell": "__import__('os').system('true')",
    "connection": "__import__('socket').socket(2, 2).connect(('127.0.0.1', 9))",
    "module": "__import__('sys').path.insert(0, {folder!r}); import elsewhere",
}


@pytest.mark.parametrize("name", READS)
def test_check_that_reads_anything_else_is_never_kept(house, entries, name):
    (house / "elsewhere.py").touch()
    (house / "checks" / "tiny.py").write_text(READS[name].format(folder=str(house)) + "\n" + CHECK)
    site = load_site("localhost")
    assert site.defects == []
    assert "tiny" in site.checks
    assert entries() == []


def test_file_that_changes_while_it_loads_is_not_kept(house, entries):
    file = house / "checks" / "tiny.py"
    file.write_text(f"open(__file__, 'a').write('# once more\\n')\n{CHECK}")
    assert load_site("localhost").defects == []
    assert entries() == []


def test_defects_are_not_kept(house, entries):
    (house / "checks" / "broken.py").write_text("import reframe\n\n1 / 0\n")
    for _ in range(2):
        (defect,) = load_site("localhost").defects
        assert defect.path == "checks/broken.py"
    assert entries() == []


@pytest.mark.parametrize("damage", ["cut", "changed", "empty", "binary", "folder"])
def test_damaged_entry_is_ignored(house, entries, damage):
    first = load_site("localhost")
    (entry,) = entries()
    content = entry.read_bytes()
    if damage == "folder":
        entry.unlink()
        entry.mkdir()
    else:
        entry.write_bytes(
            {
                "cut": content[: len(content) // 2],
                "changed": content.replace(b'"tiny"', b'"tony"'),
                "empty": b"",
                "binary": b"\xff\xfe\n\x00",
            }[damage]
        )
    assert load_site("localhost") == first


@pytest.mark.parametrize("cache_is", ["a file", "a link to nowhere"])
def test_home_that_cannot_keep_anything_is_no_error(house, cache_is):
    place = house / "home" / "cache"
    place.parent.mkdir()
    if cache_is == "a file":
        place.touch()
    else:
        place.symlink_to("/proc/nowhere")
    assert load_site("localhost").defects == []


def test_oldest_entries_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "ENTRIES", 3)
    files = [tmp_path / "checks" / f"{number}.json" for number in range(5)]
    for number, file in enumerate(files):
        cache.write(file, {"number": number})
        os.utime(file, (number, number))
        if number == 2:
            assert cache.read(files[0]) == {"number": 0}  # which makes it the newest
    left = sorted(file.name for file in (tmp_path / "checks").iterdir())
    assert left == ["0.json", "3.json", "4.json"]


def test_two_at_once_leave_one_whole_entry(house, entries):
    program = "from bisection.sites.site import load_site; print(len(load_site({!r}).tests))"
    file = str(house / "site-configs" / "localhost.py")
    command = [sys.executable, "-c", program.format(file)]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    printed = {process.communicate()[0] for process in both}
    assert len(printed) == 1
    assert int(printed.pop()) > 1
    (entry,) = entries()
    assert len(json.loads(entry.read_text().partition("\n")[2])["tests"]) > 1
    assert [file for file in entry.parent.iterdir() if file.name.startswith(".")] == []
