"""A new method of the transpose is one file and one line; a new case is one line."""

import itertools
import json
import re
import shutil
import subprocess

import pytest
from running import CHECKS

from bisection.core import launchers, paths
from bisection.kernels import local, tables

TOOLS = "cmake mpicc mpif90 mpirun pkg-config".split()


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A copy of the repository with methods `example` and `silent`, and a case `small`."""
    root = tmp_path_factory.mktemp("tree")
    for name in ("checks", "reference", "site-configs", "src"):
        shutil.copytree(CHECKS.parent / name, root / name, ignore=shutil.ignore_patterns("__pyc*"))
    folder = root / "src" / "transpose"
    # One file ...
    text = (folder / "method_p2p.c").read_text()
    text = re.sub(r'(?<=method_)p2p\b|(?<=")p2p(?=")', "example", text)
    (folder / "method_example.c").write_text(text)
    declared = re.search(r',\s+\.calls = "[^"]*"', text)[0]
    silent = text.replace("example", "silent").replace(declared, "")
    (folder / "method_silent.c").write_text(silent)
    # ... and one line; a case is a line too.
    cases, methods, rest = (folder / "transpose.def").read_text().split("/* end */\n")
    cases += 'BX_CASE(small, "a small grid", 16, 12, 10, 25, 1, 1) \\\n'
    methods += "BX_METHOD(example) \\\nBX_METHOD(silent) \\\n"
    (folder / "transpose.def").write_text(f"{cases}/* end */\n{methods}/* end */\n{rest}")
    return root


def call(command, cwd, code=0, **environment):
    """The output of a command that must end with this exit code."""
    words, env = [str(word) for word in command], {**local.environment(), **environment}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    done = subprocess.run(words, cwd=cwd, env=env, timeout=600, **pipes)
    assert done.returncode == code, done.stdout[-4000:]
    return done.stdout


@pytest.mark.long
def test_kernel_has_the_new_method_and_verifies_it(tree, tmp_path):
    if missing := [tool for tool in TOOLS if not shutil.which(tool)]:
        pytest.skip(f"needs {', '.join(missing)}")
    build = tmp_path / "build"
    call(["cmake", "-S", tree / "src", "-B", build, "-DBX_TESTS=OFF"], tree)
    call(["cmake", "--build", build, "-j", "2", "--target", "bisection-transpose"], tree)
    kernel = build / "transpose" / "bisection-transpose"
    for ranks in (2, 3):
        output = tmp_path / f"{ranks}.json"
        launch = ["mpirun", "-n", ranks, kernel, "--case", "small", "--method", "example"]
        launch += ["--repeats", "1", "--block", "1", "--output", output]
        call(launch, tree, **launchers.SHARING)
        result = json.loads(output.read_text())
        entry = next(entry for entry in result["results"] if entry["method"] == "example")
        assert result["verified"]
        assert entry["verification"]["passed"]
        assert entry["verification"]["checks"]
    # A method that does not declare its calls of MPI is not verified.
    launch[launch.index("example")] = "silent"
    assert "declared calls of MPI" in call(launch, tree, code=1, **launchers.SHARING)


def test_checks_have_all_methods_and_cases_of_the_table(site, tree, monkeypatch):
    names = [function("transpose") for function in (tables.methods, tables.cases)]
    listed = {(t["method"], t["case"]) for t in site.tests if t["check"] == "transpose"}
    assert listed == set(itertools.product(*names))
    monkeypatch.setattr(tables, "_names", tables._names.__wrapped__)
    monkeypatch.setattr(paths, "ROOT", tree)
    assert tables.methods("transpose") == [*names[0], "example", "silent"]
    assert tables.cases("transpose") == [*names[1], "small"]


def test_table_that_lists_nothing_is_an_error(tmp_path, monkeypatch):
    tables._names.cache_clear()
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    (tmp_path / "src" / "transpose").mkdir(parents=True)
    (tmp_path / "src" / "transpose" / "transpose.def").write_text("/* BX_METHOD(p2p) */\n")
    with pytest.raises(ValueError, match=r"transpose\.def lists no BX_METHOD"):
        tables.methods("transpose")


def test_baselines_of_a_fortran_table_are_no_methods():
    text = (
        "type(method_t), parameter, public :: methods(*) = [ &\n"
        '  method_t("packed", "a [b]", style_t(), weights=[1, 2], &\n    1.0), &\n'
        '  method_t("cached", "", style_t(), baseline=.true.), &\n'
        '  method_t("later", "", style_t()), &\n'
        '  method_t("old", "", style_t(), family="published")]\n'
        'other = method_t("not one", "")\n'
    )
    assert tables._fortran_names(text, "method_t", "") == ["packed", "later"]
    assert tables._fortran_names(text, "method_t", "published") == ["old"]
