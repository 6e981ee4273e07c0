"""The order of the kernels' sources: who may take from whom, without circles; names and lengths."""

import re
from collections import defaultdict
from graphlib import CycleError, TopologicalSorter

from bisection.core import paths

SRC = paths.ROOT / "src"
MOST_LINES = 600
# Rooms below src/ and what they may take from, beside common.
ROOMS = {"npar": {"eigen", "transpose"}, "md": {"transpose"}}
COMMENTS_AND_TEXTS = re.compile(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.S)
FUNCTION = re.compile(r"^(?!static|typedef|extern)[A-Za-z][\w *]*?\b(\w+)\([^;{}]*\)\s*\{", re.M)
TABLE = re.compile(r"^(?!static|typedef|extern)[A-Za-z][\w *]*?\b(\w+)(?:\[\w*\])* = ", re.M)
TYPE = re.compile(r"^\} (\w+);|^struct (\w+) \{|^ *type(?:, [^:]*)? ?:: (\w+)$", re.M)

FILES = {
    path.relative_to(SRC): path.read_text()
    for path in sorted(SRC.rglob("*.*"))
    if path.suffix in {".c", ".h", ".f90", ".F90"} and path.parent.name not in {"src", "tests"}
}
CODE = {file: COMMENTS_AND_TEXTS.sub("", text) for file, text in FILES.items()}


def circle(arrows):
    """The files of a circle; none: an empty list."""
    try:
        TopologicalSorter(arrows).prepare()
    except CycleError as error:
        return [str(file) for file in error.args[1]]
    return []


def included():
    """What each C file includes of these; one of its own folder before another."""
    arrows = defaultdict(set)
    for file, text in FILES.items():
        for name in re.findall(r'^#include "(.+)"', text, re.M):
            others = [other for other in FILES if other.name == name]
            own = file.with_name(name)
            arrows[file].update([own] if own in FILES else others)
    return arrows


def used():
    """The modules that each Fortran file uses, by their files."""
    arrows = {}
    for file, text in FILES.items():
        names = re.findall(r"^ *use(?:, \w+ ::)? (\w+)", text, re.M)
        arrows[file] = {other for other in FILES if other.stem in names and other != file}
    return arrows


def called():
    """The C files of the same room whose functions and tables each one names."""
    owners, words = defaultdict(set), {}
    for file, text in CODE.items():
        if file.suffix == ".c":
            words[file] = {*re.findall(r"\w+", text)}
            for name in [*FUNCTION.findall(text), *TABLE.findall(text)]:
                owners[name].add(file)
    arrows = defaultdict(set)
    for name, (owner, *others) in owners.items():
        if not others:  # bx_kernel_get is each kernel's
            for file in words:
                if name in words[file] and file != owner and file.parent == owner.parent:
                    arrows[file].add(owner)
    return arrows


def test_no_file_needs_another_that_needs_it():
    assert len(FILES) > 200
    for arrows in (included(), used(), called()):
        assert sum(map(len, arrows.values())) > 90
        assert circle(arrows) == []


def test_kernels_take_from_the_common_room_and_it_from_nobody():
    wrong = [
        f"{file} takes from {other}"
        for arrows in (included(), used())
        for file, others in arrows.items()
        for other in others
        if (room := file.parts[0]) != (of := other.parts[0])
        and (room == "common" or of not in {"common", *ROOMS.get(room, ())})
    ]
    assert wrong == []


def test_no_type_is_of_two_kernels():
    rooms = defaultdict(set)
    for file, text in CODE.items():
        for names in TYPE.findall(text):
            rooms["".join(names)].add(file.parts[0])
    assert len(rooms) > 150
    shared = {name: of for name, of in rooms.items() if len(of - {"common"}) > 1}
    assert shared == {}


def test_no_file_is_too_long():
    assert [str(file) for file, text in FILES.items() if text.count("\n") > MOST_LINES] == []
