"""Provisioning by Spack: all but tests of `spack` with a stand-in for Spack, and no network."""

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import fake_spack
import pytest
import yaml
from running import ONE, command

from bisection.core import paths
from bisection.kernels.local import environment
from bisection.kernels.spack import __main__, externals
from bisection.kernels.spack import install as installing
from bisection.kernels.spack import program as spack

FILE = externals.environment_file("debian12").read_text()
DEBIAN = {match["name"]: match["version"] for match in externals.EXTERNAL.finditer(FILE)}


def lock(path="/home/a/src", fftw="3.3.10"):
    mpi = {"name": "openmpi", "hash": "o", "parameters": {"virtuals": ["mpi"]}}
    edges = [mpi, {"name": "fftw", "hash": "f", "parameters": {}}]
    root = {"name": "bisection-kernels", "version": "develop", "parameters": {"dev_path": path}}
    root["dependencies"] = edges
    nodes = {"o": {"name": "openmpi", "version": "4.1.4"}, "f": {"name": "fftw", "version": fftw}}
    return json.dumps({"roots": [{"hash": "r"}], "concrete_specs": {"r": root, **nodes}})


class Place:
    """A checkout with a stand-in for Spack."""

    def __init__(self, folder):
        self.repository = folder / "checkout"
        self.home = folder / "home"
        self.root = folder / "spack"
        self.source = self.repository / "src" / "main.c"
        self.built = self.home / "spack" / "environments" / "debian12"

    def calls(self, questions=False):
        """What Spack was asked to do since the last look, with or without mere questions."""
        path = self.root / "calls"
        words = [line.split()[0] for line in path.read_text().splitlines()] if path.exists() else []
        path.unlink(missing_ok=True)
        return [word for word in words if questions or word not in ("--version", "repo", "find")]

    def update(self, version):
        """Puts another version in the place of the Spack that there is."""
        (self.root / fake_spack.VERSION).write_text(version)

    def install(self):
        return installing.install("debian12")

    def append(self, name):
        """Changes a file below spack-env."""
        with (self.repository / "spack-env" / name).open("a") as file:
            file.write("# changed\n")


@pytest.fixture
def place(tmp_path, monkeypatch):
    checkout = Place(tmp_path)
    shutil.copytree(paths.ROOT / "spack-env", checkout.repository / "spack-env")
    checkout.source.parent.mkdir()
    checkout.source.write_text("int main;")
    fake_spack.make(checkout.root, lock(), checkout.source)

    for variable in (spack.SPACK.variable, spack.PACKAGES.variable, "SPACK_PYTHON"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("SPACK_ROOT", str(checkout.root))
    monkeypatch.setenv("BISECTION_HOME", str(checkout.home))
    monkeypatch.setattr(paths, "ROOT", checkout.repository)
    monkeypatch.setattr(spack, "imports_clingo", lambda python: True)
    monkeypatch.setattr(installing, "commit_of", lambda folder: "abc")
    pretend(monkeypatch, DEBIAN)
    return checkout


def pretend(monkeypatch, versions):
    """Makes this a machine with these system packages."""
    known = {id(probe): versions.get(name) for name, probe in externals.PROBES.items()}
    monkeypatch.setattr(externals, "installed_version", lambda probe, _: known[id(probe)])


def test_every_dependency_of_the_recipe_and_external_of_debian12_can_be_checked():
    lines = (paths.ROOT / "spack-env" / RECIPE).read_text().splitlines()
    required = [line for line in lines if 'when="+' not in line]  # not those of a variant
    names = re.findall(r'depends_on\("([\w-]+)', "\n".join(required))
    providers = yaml.safe_load(FILE)["spack"]["packages"]["all"]["providers"]
    needed = {providers.get(name, [name])[0] for name in names}
    assert needed == set(DEBIAN) == set(externals.PROBES)


@pytest.mark.parametrize("system", ["debian12", "generic"])
def test_render_names_this_checkout(system):
    text = externals.render(externals.environment_file(system), {"openmpi": "4.1.9"})
    assert f'path: "{paths.ROOT / "src"}"' in text
    repository = paths.ROOT / "spack-env" / "repo" / "spack_repo" / "bisection"
    assert f'bisection: "{repository}"' in text
    assert (repository / "repo.yaml").is_file()
    settings = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    assert "../" not in settings
    assert ("openmpi@4.1.9" in text) == (system == "debian12")
    assert "openmpi@4.1.4" not in text


def test_versions_that_differ_are_named_and_used(place, monkeypatch, capsys):
    pretend(monkeypatch, {**DEBIAN, "openmpi": "4.1.6", "cmake": "3.28.3"})
    survey = externals.survey_externals(externals.environment_file("debian12"))
    assert survey.differing == [
        "openmpi: the file says 4.1.4, /usr has 4.1.6",
        "cmake: the file says 3.25.1, /usr has 3.28.3",
    ]
    assert __main__.main(["externals", "--system", "debian12"]) == 1
    place.install()
    assert "building for what is installed" in capsys.readouterr().err
    used = (place.built / "spack.yaml").read_text()
    assert "openmpi@4.1.6" in used
    assert "fftw@3.3.10 +openmp" in used


def test_a_needed_package_that_is_missing_is_refused(place, monkeypatch, capsys):
    kept = {name: v for name, v in DEBIAN.items() if name not in ("fftw", "openblas")}
    pretend(monkeypatch, kept)
    assert __main__.main(["install", "--system", "debian12"]) == 1
    message = capsys.readouterr().err
    assert "fftw (libfftw3-dev)" in message
    assert "openblas (libopenblas-dev)" in message
    assert message.count("\n") == 1
    assert place.calls() == []
    assert externals.environment_file("auto").parent.name == "generic"


def test_auto_is_debian12_where_its_packages_are(place, capsys):
    assert externals.environment_file("auto").parent.name == "debian12"
    assert __main__.main(["externals", "--system", "auto"]) == 0
    assert "all as the file says" in capsys.readouterr().out
    assert installing.install()["system"] == "debian12"
    assert __main__.main(["install", "--system", "nowhere"]) == 1
    assert "'nowhere': choose from debian12, generic, auto" in capsys.readouterr().err


def test_a_prefix_of_the_site_is_taken_at_its_word(place):
    file = place.repository / "spack-env" / "ours" / "spack.yaml"
    file.parent.mkdir()
    file.write_text("    - spec: openmpi@5.0.1\n      prefix: /opt/openmpi\n")
    assert externals.survey_externals(file) == externals.SystemPackages(file)
    assert "openmpi@5.0.1" in externals.render(file, DEBIAN)


def test_a_probe_takes_no_other_mpi_for_open_mpi(tmp_path):
    (tmp_path / "bin").mkdir()
    for printed, version in (("mpicc: Open MPI 4.1.4 (Language: C)", "4.1.4"), ("MPICH 4", None)):
        command(tmp_path / "bin", "mpicc", f"echo '{printed}'")
        assert externals.installed_version(externals.PROBES["openmpi"], str(tmp_path)) == version


def test_spack_root_comes_first(place, monkeypatch):
    assert spack.find_spack() == place.root / "bin" / "spack"
    monkeypatch.delenv("SPACK_ROOT")
    monkeypatch.setenv("PATH", str(place.root / "bin"))
    assert spack.find_spack() == place.root / "bin" / "spack"
    monkeypatch.setenv("PATH", str(place.root))
    assert spack.find_spack() is None


def variable(name, value):
    return lambda _, patch: patch.setenv(name, value)


REFUSED = {
    r"is Spack 0\.23\.1, older than 1\.0": lambda place, _: place.update("0.23.1"),
    "--version says 'no such command'": lambda place, _: place.update("no such command"),
    "SPACK_ROOT is '/no/such/folder'": variable("SPACK_ROOT", "/no/such/folder"),
    "cannot provision in": variable("BISECTION_HOME", __file__),
    "'/tmp/a b=c/spack' because of ' ' '='": variable("BISECTION_HOME", "/tmp/a b=c"),
}


@pytest.mark.parametrize("why", REFUSED)
def test_an_old_spack_and_a_folder_that_does_not_do_are_refused(place, monkeypatch, why):
    place.update("1.0.0.dev0 (abc)")
    assert spack.Spack(place.home / "log").version == "1.0.0.dev0"
    REFUSED[why](place, monkeypatch)
    with pytest.raises(externals.SpackError, match=why):
        place.install()


def test_nothing_is_done_twice(place):
    first = place.install()
    assert place.calls() == ["concretize", "install"]
    assert first["prefix"] == str(place.root / "opt")
    assert (first["mpi"], first["mpi_prefix"]) == ("openmpi@4.1.4", "/usr")
    os.utime(place.source)
    assert place.install() == first
    assert place.calls(questions=True) == []  # Spack is not even started


def test_a_mirror_changes_nothing_that_is_there(place, monkeypatch):
    monkeypatch.delenv("SPACK_ROOT")
    for pin in (spack.SPACK, spack.PACKAGES):
        clone = place.home / "spack" / f"{pin.name}-{pin.release}"
        shutil.copytree(place.root, clone)
        (clone / "repos" / "spack_repo" / "builtin").mkdir(parents=True)
    first = place.install()
    place.root = place.home / "spack" / f"spack-{spack.SPACK.release}"
    assert "concretize" in place.calls()
    monkeypatch.setenv(spack.PACKAGES.variable, "file:///mirror")
    assert place.install() == first
    assert place.calls(questions=True) == []


def test_each_lock_is_kept_under_its_hash(place):
    """Its software's hash is of packages, versions and options alone."""
    texts, built = [lock(), lock("/b"), lock(fftw="3.3.11")], []
    for text in texts:
        (place.root / "lock").write_text(text)
        place.append(RECIPE)
        built.append(place.install())
    kept = sorted((place.home / "locks").iterdir())
    assert kept == sorted(Path(facts["lock"]) for facts in built)
    for facts, text in zip(built, texts, strict=True):
        assert Path(facts["lock"]).read_text() == text
        digest = hashlib.sha256(text.encode()).hexdigest()
        assert Path(facts["lock"]).stem == facts["lock_hash"] == digest
    here, elsewhere, upgraded = (facts["software_hash"] for facts in built)
    assert here == elsewhere != upgraded
    Path(built[-1]["lock"]).unlink()
    assert Path(place.install()["lock"]).exists()


def commit(monkeypatch, folder):
    """Makes a folder that of another commit."""
    monkeypatch.setattr(installing, "commit_of", lambda path: "def" if path == folder else "abc")


RECIPE = "repo/spack_repo/bisection/packages/bisection_kernels/package.py"
COMPILED, CONCRETISED = ["install"], ["concretize", "install"]
# What changes, and what is done again.
CHANGES = {
    "source": (lambda place, _: place.source.write_text("int other;"), COMPILED),
    "new file": (lambda place, _: (place.source.parent / "new.c").touch(), COMPILED),
    "commit": (lambda place, to: commit(to, place.repository), COMPILED),
    "recipes of Spack": (lambda place, to: commit(to, place.root / "recipes"), CONCRETISED),
    "lost program": (lambda place, _: shutil.rmtree(place.root / "opt"), COMPILED),
    "lost lock": (lambda place, _: (place.built / "spack.lock").write_text("{}"), CONCRETISED),
    "lost state": (lambda place, _: (place.built / "state.json").write_text("{}"), CONCRETISED),
    "environment": (lambda place, _: place.append("debian12/spack.yaml"), CONCRETISED),
    "recipe": (lambda place, _: place.append(RECIPE), CONCRETISED),
    "Spack": (lambda place, _: place.update("1.1.1"), CONCRETISED),
    "site's Spack": (lambda place, _: (place.root / "etc" / "spack" / "a").touch(), CONCRETISED),
    "compiler": (lambda _, patch: pretend(patch, {**DEBIAN, "gcc": "12.3.0"}), CONCRETISED),
}


@pytest.mark.parametrize("name", CHANGES)
def test_only_what_changed_is_done_again(place, monkeypatch, name):
    change, calls = CHANGES[name]
    first = place.install()
    place.calls()
    change(place, monkeypatch)
    again = place.install()
    assert place.calls() == calls
    program = Path(again["prefix"], "bin", "bisection-transpose")
    assert program.read_text() == place.source.read_text()
    assert again == first or "lost" not in name
    place.install()
    assert place.calls() == []


def test_an_older_source_is_compiled_from_scratch(place):
    place.install()
    tree = place.home / "spack" / "stage"
    tree.mkdir()
    (tree / "main.o").touch()
    (place.home / "spack" / "build-abc").symlink_to(tree)
    place.source.write_text("int newer;")
    os.utime(place.source, (4e9, 4e9))
    place.install()
    assert (tree / "main.o").exists()
    place.source.write_text("int older;")
    os.utime(place.source, (0, 0))
    place.install()
    assert not tree.exists()
    assert place.calls() == ["concretize", "install", "install", "install"]


def test_a_failed_build_shows_why_and_is_tried_again(place, capsys):
    """It prints its lock and commits; without a lock, the commits that it would be made by."""
    command = ["install", "--system", "debian12"]
    place.source.write_text("broken")
    assert __main__.main(command) == 1
    known = json.loads(capsys.readouterr().out)
    assert known == {"system": "debian12", "spack_commit": "", "packages_commit": "abc"}
    place.source.write_text("int main;")
    built = place.install()
    assert place.calls() == ["concretize", "concretize", "install"]
    place.source.write_text("broken")
    for _ in range(2):
        capsys.readouterr()
        assert __main__.main(command) == 1
        assert place.calls() == ["install"]
        printed = capsys.readouterr()
        assert "building bisection-kernels failed with 1, all of it in" in printed.err
        assert "main.c:1: error: broken" in printed.err
        assert "compiling" not in printed.err
        known = json.loads(printed.out)
        assert known == {n: built[n] for n in known}
        assert known["lock_hash"] == Path(built["lock"]).stem
    place.source.write_text("int mended;")
    assert __main__.main(command) == 0
    prefix = json.loads(capsys.readouterr().out)["prefix"]
    assert Path(prefix, "bin/bisection-transpose").read_text() == "int mended;"


def test_two_calls_take_turns(place, capsys):
    with ThreadPoolExecutor() as threads:
        calls = [threads.submit(place.install) for _ in range(2)]
    assert calls[0].result() == calls[1].result()
    assert place.calls() == ["concretize", "install"]
    assert capsys.readouterr().err.count("waiting for another build") == 1


def test_nothing_of_the_user_reaches_spack(place, monkeypatch):
    monkeypatch.setenv("SPACK_ENV", "/some/environment")
    monkeypatch.setenv("PYTHONPATH", "/some/modules")
    env = spack.Spack(place.home / "log").env
    assert "SPACK_ENV" not in env
    assert "PYTHONPATH" not in env
    assert env["SPACK_DISABLE_LOCAL_CONFIG"] == "1"
    place.install()
    config = json.loads((place.home / "spack" / "config" / "config.yaml").read_text())["config"]
    places = [config["install_tree"]["root"], *config["build_stage"], env["SPACK_USER_CACHE_PATH"]]
    assert all(path.startswith(str(place.home)) for path in places)
    repositories = json.loads((place.home / "spack" / "config" / "repos.yaml").read_text())
    assert repositories == {"repos": {"builtin": f"{place.root}/recipes"}}  # the site's own


def test_a_moved_folder_is_built_again(place, monkeypatch):
    place.install()
    (place.home / "spack" / "opt").mkdir()
    place.home = place.home.rename(place.home.with_name("moved"))
    monkeypatch.setenv("BISECTION_HOME", str(place.home))
    installed = place.install()
    assert installed["lock"].startswith(str(place.home))
    assert not (place.home / "spack" / "opt").exists()
    assert place.calls() == ["concretize", "install"] * 2


@pytest.mark.spack
def test_debian12_builds_and_runs(spack_at_hand, debian, tmp_path):
    built = installing.install("debian12")
    assert built["mpi"] == f"openmpi@{debian['openmpi']}"
    assert installing.install("debian12") == built

    result = tmp_path / "result.json"
    mpirun = f"{built['mpi_prefix']}/bin/mpirun"
    kernel = f"{built['prefix']}/bin/bisection-transpose"
    options = f"--case cnt40 --method alltoallv --repeats 1 --output {result}"
    command = [mpirun, "--oversubscribe", "-n", "2", kernel, *options.split()]
    ran = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0, textwrap.shorten(ran.stderr, 2000)
    assert json.loads(result.read_text())["verified"] is True


@pytest.mark.spack
def test_the_suite_installs_with_its_kernels(spack_at_hand, debian, tmp_path):
    with installing.provisioning("debian12") as environment:
        content = yaml.safe_load(environment.text)
        content["spack"]["specs"] = ["bisection"]
        suite = {"spec": "bisection@=develop", "path": str(paths.ROOT)}
        content["spack"]["develop"]["bisection"] = suite
        python = f"python@{platform.python_version()} +ssl +zlib"
        external = {"spec": python, "prefix": sys.base_prefix}
        content["spack"]["packages"]["python"] = {"buildable": False, "externals": [external]}
        (tmp_path / "spack.yaml").write_text(yaml.safe_dump(content))
        spack = environment.spack
        spack("concretising the suite", tmp_path, "concretize")
        install = ("install", "--overwrite", "--yes-to-all", "bisection")
        spack("installing the suite", tmp_path, *install)
        places = spack.prefixes(tmp_path)
        try:
            program = f"{places['bisection']}/bin/bisection"
            home = tmp_path / "home"
            env = {**os.environ, "BISECTION_HOME": str(home)}
            command = [program, "run", "--tier", "quick", *ONE]
            ran = subprocess.run(command, env=env, capture_output=True, text=True, timeout=600)
        finally:
            spack("removing the suite", tmp_path, "uninstall", "--yes-to-all", "bisection")
    verdict = json.loads((home / "results/latest/verdict.json").read_text())
    build = next(case for case in verdict["cases"] if case["check"] == "Build")
    assert build["verdict"] == "pass", ran.stdout + ran.stderr
    lock = Path(places["bisection-kernels"]).name.rpartition("-")[2]
    assert verdict["launches"][build["launch"]]["facts"]["lock"] == lock
    assert not (home / "kernels").exists()
