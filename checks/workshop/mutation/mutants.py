"""Mutants: changed lines of the sources, each of which a test has to notice.

universalmutator proposes the changes. A change that compiles to the same program is no mutant, and
neither is a change of a text alone: tests repeat no sentences of the program.
"""

from __future__ import annotations

import ast
import contextlib
import csv
import filecmp
import json
import os
import random
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from bisection.core import paths
from bisection.core.grouping import grouped
from bisection.core.verdicts import BisectionError

LIST = Path(__file__).with_name("mutants.csv")
SEED = 31
OF_A_LANGUAGE = 60  # mutants of Python, and of C and Fortran
RULES = {".py": "python.rules", ".c": "c.rules", ".f90": "fortran.rules"}
SOURCES = {
    "Python": ["checks/*.py", "checks/bisection/**/*.py", "checks/interconnect/*.py"],
    "C and Fortran": ["src/*/**/*.c", "src/*/**/*.f90"],
}
COMMENT = {".c": r"//.*", ".f90": r"!.*"}
TEXT = r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'"


@dataclass(frozen=True)
class Mutant:
    """A line, and another in its place."""

    file: str  # below the repository
    line: int  # from 1, when it was drawn
    original: str
    mutant: str
    note: str = ""  # "equivalent: why", "survives: why", "killed: test of ctest or pytest's file"

    @property
    def language(self) -> str:
        """Python, or C and Fortran."""
        return "Python" if self.file.endswith(".py") else "C and Fortran"

    @property
    def equivalent(self) -> bool:
        """True if no test can tell the mutant from the original."""
        return self.note.startswith("equivalent:")

    @property
    def test(self) -> str:
        """The test that killed it last, "" if none is noted."""
        kind, _, test = self.note.partition(": ")
        return test if kind == "killed" else ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.original.strip()}  ->  {self.mutant.strip()}"

    def place(self, tree: Path) -> int | None:
        """Returns the number of the line now, None if the file has no such line any more."""
        path = tree / self.file
        lines = path.read_text().splitlines() if path.exists() else []
        places = [number for number, line in enumerate(lines, 1) if line == self.original]
        return min(places, key=lambda number: abs(number - self.line), default=None)

    @contextlib.contextmanager
    def in_force(self, tree: Path) -> Iterator[Path]:
        """Changes the file in a copy of the repository; yields its path."""
        path = tree / self.file
        before = path.read_bytes()
        lines = before.decode().split("\n")
        place = self.place(tree)
        if place is None:
            raise ValueError(f"{self.file}: the line of a mutant is gone")
        lines[place - 1] = self.mutant
        path.write_text("\n".join(lines))
        try:
            yield path
        finally:
            path.write_bytes(before)


def listed(path: Path = LIST) -> list[Mutant]:
    """Returns the mutants of the list."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    return [Mutant(line=int(row.pop("line")), **row) for row in rows]


def write(mutants: Iterable[Mutant], path: Path = LIST) -> None:
    """Writes the list."""
    with path.open("w", newline="") as file:
        rows = csv.DictWriter(file, [field.name for field in fields(Mutant)], lineterminator="\n")
        rows.writeheader()
        rows.writerows(map(asdict, mutants))


def copied(folder: Path) -> Path:
    """Makes a copy of the repository in a folder, with the programs of this one's set-up."""
    names = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=paths.ROOT,
        capture_output=True,
        check=True,
    ).stdout
    for name in filter(None, os.fsdecode(names).split("\0")):
        source, target = paths.ROOT / name, folder / name
        if source.is_file() and not (target.exists() and filecmp.cmp(source, target)):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
    home = folder / ".bisection"
    home.mkdir(exist_ok=True)
    for name in ("venv", "bin"):
        with contextlib.suppress(FileExistsError):
            (home / name).symlink_to(paths.home() / name)
    return folder


def draw(tree: Path, build: Path, kept: Sequence[Mutant] = ()) -> list[Mutant]:
    """Draws mutants by a seed: of each room of the suite and each folder of the kernels in turn, a
    line by chance, and a change of it.

    Args:
        tree: a copy of the repository.
        build: its kernels, built with CMAKE_EXPORT_COMPILE_COMMANDS.
        kept: mutants that stay in the list.
    """
    mutants = []
    for language, patterns in SOURCES.items():
        files = [path for pattern in patterns for path in sorted(tree.glob(pattern))]
        files = [path for path in files if not {"tests", "probes"} & {*path.parts}]
        chance = random.Random(SEED)
        places = [(path, number) for path in files for number in _lines(path)]
        rooms = grouped(places, lambda place: place[0].relative_to(tree).parts[:-1][:3])
        drawn = {str(mutant): mutant for mutant in kept if mutant.language == language}
        while len(drawn) < OF_A_LANGUAGE:
            for places in rooms.values():
                mutant = _mutant(tree, build, places, chance)
                drawn.setdefault(str(mutant), mutant)
        first = [*drawn.values()][:OF_A_LANGUAGE]
        mutants += sorted(first, key=lambda mutant: (mutant.file, mutant.line))
    return mutants


def _lines(path: Path) -> range:
    return range(1, len(path.read_text().splitlines()) + 1)


def _mutant(
    tree: Path, build: Path, places: list[tuple[Path, int]], chance: random.Random
) -> Mutant:
    """Returns a mutant of one of these lines."""
    for _ in range(1000):
        path, number = chance.choice(places)
        original = path.read_text().splitlines()[number - 1]
        changes = _changes(original, path.suffix)
        if not changes:
            continue
        file = path.relative_to(tree).as_posix()
        mutant = Mutant(file, number, original, chance.choice(changes))
        same = _same_python if path.suffix == ".py" else _same_compiled
        if not same(mutant, tree, build):
            return mutant
    raise BisectionError(f"no line of {places[0][0].parent} has a mutant")


def _changes(line: str, suffix: str) -> list[str]:
    """Returns what universalmutator makes of a line, of one line each."""
    from universalmutator import mutator

    rules = [str(LIST.with_name(name)) for name in ("operators.rules", RULES[suffix])]
    with contextlib.redirect_stdout(None):
        changes = mutator.mutants_regexp([f"{line}\n"], rules, ignorePatterns=[])
    texts = (change[1].rstrip("\n") for change in changes)
    return [text for text in texts if "\n" not in text]


class _Meaning(ast.NodeTransformer):
    """A program without its docstrings, texts and annotations."""

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        return ast.Constant("") if isinstance(node.value, str) else node

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        text = isinstance(node.value, ast.Constant | ast.JoinedStr)
        return None if text else self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.arg:
        return ast.arg(node.arg)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.annotation = ast.Constant("")
        return self.generic_visit(node)


def _same_python(mutant: Mutant, tree: Path, build: Path) -> bool:
    """True if the change is no program, or the same one."""

    def meaning(path: Path) -> str:
        return ast.dump(_Meaning().visit(ast.parse(path.read_text())))

    original = meaning(tree / mutant.file)
    try:
        with mutant.in_force(tree) as path:
            return meaning(path) == original
    except SyntaxError:
        return True


def _same_compiled(mutant: Mutant, tree: Path, build: Path) -> bool:
    """True if the change does not compile, or to the same code."""
    suffix = Path(mutant.file).suffix
    before, after = (
        re.sub(COMMENT[suffix], "", re.sub(TEXT, '""', line)).split()
        for line in (mutant.original, mutant.mutant)
    )
    if before == after:
        return True
    original = _code(tree / mutant.file, build)
    with mutant.in_force(tree) as path:
        changed = _code(path, build)
    return changed in (None, original)


def _code(path: Path, build: Path) -> bytes | None:
    """Returns the object code of a source, as the build compiles it; None if it does not, or the
    build has no such source."""
    commands = json.loads((build / "compile_commands.json").read_text())
    command = next((entry for entry in commands if entry["file"] == str(path)), None)
    if command is None:
        return None
    words = [word for word in shlex.split(command["command"]) if not re.match("-g|-Werror", word)]
    words[words.index("-o") + 1] = "mutant.o"
    done = subprocess.run(words, cwd=command["directory"], capture_output=True, timeout=300)
    output = Path(command["directory"], "mutant.o")
    code = output.read_bytes() if done.returncode == 0 else None
    output.unlink(missing_ok=True)
    return code
