"""The list of mutants, and how a mutant is made and undone."""

import random
import sys

import pytest

from bisection.core import paths
from workshop.mutation import killing, mutants
from workshop.mutation.mutants import Mutant

SOURCE = '''def half(numbers):
    """Returns half of the numbers."""
    middle = len(numbers) // 2  # a comment
    return numbers[:middle]


def third(numbers):
    return numbers[: len(numbers) // 3]
'''


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "checks").mkdir()
    (tmp_path / "checks" / "half.py").write_text(SOURCE)
    (tmp_path / ".bisection").mkdir()
    (tmp_path / ".bisection" / "venv").symlink_to(sys.prefix)
    return tmp_path


@pytest.mark.parametrize("line", [3, 1, 8])
def test_a_mutant_is_in_force_at_the_nearest_equal_line_and_then_undone(tree, line):
    mutant = Mutant("checks/half.py", line, SOURCE.splitlines()[2], "    middle = 1")
    with mutant.in_force(tree) as path:
        assert path.read_text() == SOURCE.replace("len(numbers) // 2  # a comment", "1")
    assert path.read_text() == SOURCE
    assert Mutant("checks/half.py", 3, "    gone = 1", "    pass").place(tree) is None
    assert Mutant("checks/gone.py", 3, "    gone = 1", "    pass").place(tree) is None


@pytest.mark.parametrize(
    ("number", "text", "same"),
    [
        (2, '    """Another sentence."""', True),
        (3, "    middle = len(numbers) // 2  # another comment", True),
        (3, "    middle = len(numbers) /// 2", True),  # is no program
        (3, "    middle = len(numbers) // 3", False),
        (4, "    return None", False),
    ],
)
def test_what_is_a_mutant(tree, number, text, same):
    mutant = Mutant("checks/half.py", number, SOURCE.splitlines()[number - 1], text)
    assert mutants._same_python(mutant, tree, tree) is same


@pytest.mark.parametrize(
    ("line", "suffix", "mutant"),
    [
        ("    if first < last and ready:", ".py", "    if first <= last and ready:"),
        ("    return total", ".py", "    return None"),
        ("    if (a && b) sum += weight;", ".c", "    if (a || b) sum += weight;"),
        ("    call exchange(halo)", ".f90", "    continue"),
        ("      total = total + x**2", ".f90", "      total = total - x**2"),
    ],
)
def test_operators_and_statements_are_changed(line, suffix, mutant):
    assert mutant in mutants._changes(line, suffix)


def test_a_mutant_is_killed_by_the_tests_of_its_room(tree, monkeypatch):
    tests = tree / "checks" / "bisection" / "tests" / "checks"
    tests.mkdir(parents=True)
    (tests / "test_half.py").write_text(
        "from half import half\n\n\ndef test_half():\n    assert half([1, 2, 3, 4]) == [1, 2]\n"
    )
    monkeypatch.setattr(killing, "SIDE_BY_SIDE", "0")
    mutant = Mutant("checks/half.py", 4, "    return numbers[:middle]", "    return None")
    assert killing.killer(mutant, tree).endswith("test_half.py::test_half")
    other = Mutant("checks/half.py", 8, SOURCE.splitlines()[-1], "    return None")
    assert killing.killer(other, tree) == ""


def test_the_test_that_killed_a_mutant_runs_first(tree):
    far = tree / "checks" / "bisection" / "tests" / "far" / "test_far.py"
    far.parent.mkdir(parents=True)
    far.touch()
    path = far.relative_to(tree).as_posix()
    gone = Mutant("checks/half.py", 4, "", "", "killed: checks/test_gone.py")
    for mutant, first in (
        (Mutant("checks/half.py", 4, "", "", f"killed: {path}"), path),
        (gone, "checks/bisection/tests"),
        (Mutant("src/halo/halo.c", 4, "", "", "killed: unit_halo"), "^unit_halo$"),
        (Mutant("src/halo/halo.c", 4, "", "", "survives: why"), "halo"),
    ):
        command, _ = next(killing._commands(mutant, tree))
        assert first in command


def test_the_list_has_mutants_of_every_room_and_kernel():
    listed = mutants.listed()
    languages = [mutant.language for mutant in listed]
    assert min(languages.count(language) for language in mutants.SOURCES) >= mutants.OF_A_LANGUAGE
    rooms = {path.parent for path in paths.ROOT.glob("checks/bisection/*/*.py")}
    rooms |= {path.parent for path in paths.ROOT.glob("checks/interconnect/*.py")}
    others = {"tests", "probes"}  # the last are programs of the configuration
    kernels = {path.parent for path in paths.ROOT.glob("src/*/*.c") if not others & {*path.parts}}
    drawn = {(paths.ROOT / mutant.file) for mutant in listed}
    empty = {folder for folder in rooms | kernels if not any(folder in f.parents for f in drawn)}
    assert {folder.name for folder in empty} <= {"tests"}


def test_a_draw_is_the_same_for_a_seed(tree):
    places = [(tree / "checks" / "half.py", number) for number in (3, 4, 8)]
    drawn = [mutants._mutant(tree, tree, places, random.Random(7)) for _ in range(2)]
    assert drawn[0] == drawn[1]
