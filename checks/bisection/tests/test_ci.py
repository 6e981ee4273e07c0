"""What .ci/run counts, and its exit code, by a make that prints what make would."""

import subprocess

import pytest
from running import CHECKS

PYTEST = "30 passed, 2 skipped in 3.21s"
QUICK = "make: *** [Makefile:100: test-quick] Error"
PYTHON = "make: *** [Makefile:99: test-python] Error"
MUTANTS = "C and Fortran: 3 of 4 mutants killed"
TWICE = "FAIL: 8 of 11 checks passed, 2 failed, 1 disturbed, in 9 s"
LOUD = "NOT MEASURED: 99 of 113 checks passed, 14 disturbed, in 9 min 5 s"
QUIET = "NOT MEASURED: all 113 answers are right; the times of 14 were disturbed"
LATE = LOUD.replace("14 dis", "3 not measured, 14 dis")
SLOW = "SLOWER THAN BEFORE: 2 of 2 checks passed, in 9 s"


@pytest.mark.parametrize(
    ("lines", "counts", "code"),
    [
        ([PYTEST, "PASS: 11 of 11 checks passed, in 25 s"], "41 passed, 0 failed, 2 skipped", 0),
        ([PYTEST, MUTANTS, f"{PYTHON} 1"], "33 passed, 1 failed, 2 skipped", 2),
        ([LOUD, f"{QUICK} 3"], "99 passed, 0 failed, 14 skipped", 0),
        ([QUIET, f"{QUICK} 3"], "99 passed, 0 failed, 14 skipped", 0),
        ([TWICE, f"{QUICK} 1"], "8 passed, 2 failed, 1 skipped", 2),
        ([LOUD, "outliers, slower than in all", f"{QUICK} 3"], "99 passed", 2),
        ([LOUD, "FAIL: in the retest, x", f"{QUICK} 3"], "99 passed", 2),
        ([LOUD, "trouble: x", f"{QUICK} 3"], "99 passed, 0 failed", 2),
        ([LOUD, f"{QUICK} 1"], "99 passed", 2),
        ([LOUD, f"{PYTHON} 3"], "99 passed", 2),
        ([LATE, f"{QUICK} 3"], "99 passed, 3 failed", 2),
        (["NOT MEASURED: no check ran, in 1 s", f"{QUICK} 3"], "0 passed", 2),
        ([SLOW, "    3 metrics slower than before", f"{QUICK} 4"], "2 passed, 1 failed", 2),
        (["1 failed, 30 passed in 3.00s", f"{PYTHON} 1"], "30 passed, 1 failed", 2),
    ],
)
def test_counts(commands, lines, counts, code):
    log = "\n".join(lines)
    stops = 2 if "***" in log else 0
    commands("make", f"cat <<'END'\n{log}\nEND\nexit {stops}")
    done = subprocess.run([CHECKS.parent / ".ci" / "run"], capture_output=True, text=True)
    assert counts in done.stdout.splitlines()[-1]
    assert done.returncode == code


@pytest.mark.parametrize("is_new", [True, False])
def test_documentation_is_skipped_where_python_is_older_than_its_packages(tmp_path, is_new):
    """The programs of set-up are made up: make -o takes it as done."""
    (tmp_path / "venv/bin").mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    programs = {"venv/bin/python": 0 if is_new else 1, "venv/bin/pip": 0, "bin/workshop": 0}
    for name, code in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\necho {name}\nexit {code}\n")
        (tmp_path / name).chmod(0o755)
    words = ["make", "-o", "setup-dev", "docs", f"BISECTION_HOME={tmp_path}"]
    done = subprocess.run(words, cwd=CHECKS.parent, capture_output=True, text=True)
    ends = ["venv/bin/pip", "bin/workshop"] if is_new else ["skipped: make docs needs Python 3.11"]
    assert done.stdout.splitlines() == ["== docs", "venv/bin/python", *ends]
    assert done.returncode == 0
