"""Folders of built kernels: used again while nothing differs, and never hiding what does."""

import os
import re
import shutil
import subprocess
import time

import pytest

from bisection.core import paths
from bisection.kernels import build_folder

REPOSITORY, RECORD = paths.ROOT, "build.json"
CMAKE = """
cmake_minimum_required(VERSION 3.20)
project(tiny C)
find_library(ANSWER answer PATHS ${OPT}/lib NO_DEFAULT_PATH REQUIRED)
add_executable(bisection-tiny tiny.c)
target_include_directories(bisection-tiny PRIVATE ${OPT}/include)
target_link_libraries(bisection-tiny PRIVATE ${ANSWER})
install(TARGETS bisection-tiny)
"""
SCRIPT = (
    "#!/bin/bash\nmodule load mpi\ncmake -DOPT={opt} -S src -B build\ncmake --build build -j 2\n"
)


def call(*command):
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.PIPE)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A project with a library of its own, after cmake --build."""
    if missing := [tool for tool in ("cmake", "cc", "ldd") if not shutil.which(tool)]:
        pytest.skip(f"needs {', '.join(missing)}")
    root = tmp_path_factory.mktemp("built")
    for name in ("src/tests", "opt/lib", "opt/include"):
        (root / name).mkdir(parents=True)
    (root / "src" / "CMakeLists.txt").write_text(CMAKE)
    (root / "src" / "tiny.c").write_text("#include <answer.h>\nint main(void) { return answer(); }")
    (root / "opt" / "include" / "answer.h").write_text("int answer(void);\n")
    (root / "answer.c").write_text("int answer(void) { return 0; }\n")
    library = root / "opt" / "lib" / "libanswer.so"
    call("cc", "-shared", "-fPIC", root / "answer.c", "-o", library)
    call("cmake", f"-DOPT={root}/opt", "-S", root / "src", "-B", root / "build")
    call("cmake", "--build", root / "build")
    return root


@pytest.fixture
def house(built, tmp_path, monkeypatch):
    """The project with one kept build, which each test may spoil."""
    monkeypatch.setenv("BISECTION_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    shutil.copytree(built / "src", tmp_path / "src")
    (tmp_path / "cc").mkdir()
    (tmp_path / "cc" / "cc").symlink_to(shutil.which("cc"))
    script = tmp_path / "rfm_build.sh"
    script.write_text(SCRIPT.format(opt=built / "opt"))
    record = build_folder.keep(script, built / "build")
    assert not record["kept"]
    return tmp_path


def look_up(house):
    return build_folder.find(house / "rfm_build.sh")


def program_of(house):
    """The kernel of the only build."""
    (path,) = (house / "home" / "kernels").glob("*/bin/bisection-tiny")
    return path


def change(file):
    """Replaces a file by a later one of the same size."""
    status = file.stat()
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns + 1_000_000))


def edit(file, old, new):
    file.write_text(file.read_text().replace(old, new))


def variable(name, value):
    return lambda house, built, patch: patch.setenv(name, value.format(house=house))


def script(old, new):
    return lambda house, built, patch: edit(house / "rfm_build.sh", old, new)


def installed(name):
    return lambda house, built, patch: change(built / "opt" / name)


UNCHANGED = {
    "a time of a source": lambda house, built, patch: change(house / "src" / "tiny.c"),
    "jobs": script("-j 2", "-j 16"),
    "the job's name": script("#!/bin/bash\n", "#!/bin/bash\n#SBATCH --job-name=other\n"),
    "MPI at run time": variable("OMPI_MCA_btl", "tcp,self"),
    "a folder on PATH": variable("PATH", f"{{house}}:{os.environ['PATH']}"),
}
CHANGED = {
    "a source": lambda house, built, patch: edit(house / "src" / "tiny.c", "answer()", "!answer()"),
    "an option": script("-S", "-DA=1 -S"),
    "a module": script("load mpi", "load mpi/5"),
    "flags": variable("CFLAGS", "-O1"),
    "MPI's compiler": variable("OMPI_CC", "clang"),
    "loaded modules": variable("LOADEDMODULES", "gcc/14"),
    "a library": installed("lib/libanswer.so"),
    "a header": installed("include/answer.h"),
    "a new library": lambda house, built, patch: (built / "opt" / "lib" / "libelpa.so").touch(),
    "a program": lambda house, built, patch: change(program_of(house)),
    # A process that was killed while it removed a folder leaves some of its files.
    "half of a build": lambda house, *_: program_of(house).parents[1].joinpath(RECORD).unlink(),
    "another compiler of the same name": variable("PATH", f"{{house}}/cc:{os.environ['PATH']}"),
}


@pytest.mark.parametrize("case", [*UNCHANGED, *CHANGED])
def test_equal_build_alone_is_used(house, built, monkeypatch, case, capfd):
    record = look_up(house)
    assert record["kept"]
    assert os.access(os.path.join(record["prefix"], "bin", "bisection-tiny"), os.X_OK)
    {**UNCHANGED, **CHANGED}[case](house, built, monkeypatch)
    assert look_up(house) == (record if case in UNCHANGED else None)
    printed = re.search(r"rebuilt, as \S+/answer\.h changed", capfd.readouterr().err)
    assert bool(printed) == (case == "a header")


def test_build_that_cannot_be_installed_is_not_kept(house, built):
    (house / "src" / "new.c").write_text("")
    with pytest.raises((OSError, subprocess.CalledProcessError)):
        build_folder.keep(house / "rfm_build.sh", house / "no-build")
    assert os.listdir(house / "home" / "kernels") == [program_of(house).parents[1].name]
    assert look_up(house) is None


def test_builds_of_nodes_with_other_packages_stay_beside_each_other(house, built):
    """Launches of the first partition run its kernels while the second one builds."""
    header = built / "opt" / "include" / "answer.h"
    first, status = look_up(house)["prefix"], header.stat()
    change(header)
    assert look_up(house) is None
    build_folder.keep(house / "rfm_build.sh", built / "build")
    assert look_up(house)["prefix"] != first
    os.utime(header, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert look_up(house)["prefix"] == first


def test_an_equal_build_that_ends_meanwhile_leaves_the_first_one(house, built):
    """As of two partitions with one environment: launches of the first one run already."""
    kernel = program_of(house)
    first = kernel.stat()
    assert build_folder.keep(house / "rfm_build.sh", built / "build")["kept"] is False
    again = kernel.stat()
    assert (again.st_ino, again.st_mtime_ns) == (first.st_ino, first.st_mtime_ns)
    assert look_up(house)["kept"]


def test_unused_folders_are_removed(house, built):
    kernels = house / "home" / "kernels"
    (first,) = kernels.iterdir()
    for name, days in {"used": 6, "unused": 8, ".stopped": 8}.items():
        (kernels / name).mkdir()
        os.utime(kernels / name, (time.time() - days * 86400,) * 2)
    build_folder.keep(house / "rfm_build.sh", built / "build")
    left = {path.name for path in kernels.iterdir()}
    assert {first.name, "used"} < left
    assert left.isdisjoint({"unused", ".stopped"})


def test_make_clean_removes_kept_builds(tmp_path):
    (tmp_path / "kernels" / "one").mkdir(parents=True)
    (tmp_path / "setup.lock").touch()
    call("make", "-C", REPOSITORY, "clean", f"BISECTION_HOME={tmp_path}")
    assert not (tmp_path / "kernels").exists()
