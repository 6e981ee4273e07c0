"""Mutants: changes of a kernel's sources that a launch must call wrong.

Usage: mutants.py write LIST SOURCES FILE OUTPUT     a source that has the mutants of a list
       mutants.py MUTANT_KERNEL LIST [NAME...]       launch them; exit code 1 where one is
                                                  not judged as listed

A list (mutants/KERNEL.txt) has paragraphs:

    name: ocean-rotation-dropped
    file: halo/kind_ocean.c
    - text that stands once in the file: an expression, or statements
    + the text in its place; none: nothing
    launch: RANKS ARGUMENTS...         or RANKSxTHREADS ARGUMENTS...
    device: when a fake device does its work, of fake_device.ORDERS; without this line there is none
    check: the check that tells; without this line any may
    passes: why no launch can tell; without this line the launch must exit with 1
    ends: CODE LINE, which the launch must exit with and print in place of that

Several lines of `-` or `+` are one text.  Statements end with `;` or `}` in C, and are whole lines
in Fortran; all else is an expression.  One executable has all mutants of a kernel: BX_MUTANT names
the one in force; without it the kernel is sound.
"""

import functools
import re
import sys
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import fake_device
from kernel_run import run

# In a block where it can be: gfortran numbers the procedures of a type by all names of its module,
# and other modules know those of the sound one.
USE = "use mutant, only: is_mutant"


def read(path: Path) -> "list[dict[str, str]]":
    """The mutants of a list: name, file, sound and mutated text, launch, passes."""
    mutants = []
    for paragraph in re.split(r"\n\s*\n", re.sub(r"(?m)^#.*\n", "", path.read_text())):
        mutant = {"-": "", "+": "", "passes": "", "check": "", "device": "", "ends": ""}
        for line in filter(None, paragraph.splitlines()):
            key, _, value = line.partition(" ")
            key = key.rstrip(":")
            mutant[key] = f"{mutant[key]}\n{value}" if mutant.get(key) else value
        if missing := {"name", "file", "launch"} - set(mutant) if len(mutant) > 6 else {}:
            raise SystemExit(f"{path}: no {', '.join(sorted(missing))}: in {paragraph!r}")
        if len(mutant) > 6:
            mutants.append(mutant)
    return mutants


def mutated(source: str, name: str, mutant: "dict[str, str]") -> str:
    """The source with a mutant in it, beside the sound text."""
    fortran = name.endswith((".f90", ".F90"))
    sound, broken = mutant["-"], mutant["+"]
    pattern = r"\s*\n\s*".join(map(re.escape, sound.split("\n")))
    places = list(re.finditer(pattern, source))
    if len(places) != 1:
        raise SystemExit(f"mutant {mutant['name']}: {name} has {len(places)} times: {sound}")
    before, after = source[: places[0].start()], source[places[0].end() :]
    if fortran:
        whole = not before.rpartition("\n")[2].strip() and after[:1] == "\n"
        chosen = f"is_mutant('{mutant['name']}')"
        text = f"merge( &\n{broken}, &\n{sound}, &\n{chosen})"
        if whole:
            text = f"if ({chosen}) then\n{broken}\nelse\n{sound}\nend if"
            text = f"block\n{USE}\n{text}\nend block"
    else:
        whole = sound.endswith((";", "}"))
        chosen = f'bx_is_mutant("{mutant["name"]}")'
        text = f"({chosen} ? ({broken}) : ({sound}))"
        if whole:
            text = f"if ({chosen}) {{ {broken} }} else {{ {sound} }}"
    return before + text + after


def write(listing: Path, sources: Path, name: str, output: Path) -> None:
    source = (sources / name).read_text()
    for mutant in read(listing):
        if mutant["file"] == name:
            source = mutated(source, name, mutant)
    if name.endswith("90") and "merge( &\n" in source:
        scope = "implicit none (type, external)"
        source = source.replace(scope, f"{USE}\n{scope}", 1)
    elif not name.endswith("90"):
        source = f'#include "mutant.h"\n#line 1 "{name}"\n{source}'
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(source)


def verdict(executable: str, mutant: "dict[str, str]") -> str:
    """Nothing, or what is wrong with the launch of a mutant."""
    layout, *arguments = mutant["launch"].split()
    ranks, _, threads = layout.partition("x")
    short = ["--repeats", "1", "--warmup", "0"]
    start = functools.partial(fake_device.launch if mutant["device"] else run, executable)
    try:
        out = start(int(ranks), *arguments, *short, threads=int(threads or 1),
                    BX_MUTANT=mutant["name"], FAKE_ORDER=mutant["device"])  # fmt: skip
    except unittest.SkipTest:
        return ""
    code, _, line = mutant["ends"].partition(" ")
    wanted = int(code) if code else 0 if mutant["passes"] else 1
    check = mutant["check"]
    told = re.search(f" (wrong|not what its name says): {re.escape(check)}", out.stdout)
    if out.code == wanted and (told or not check) and line in out.stderr:
        return ""
    expected = f"{wanted} by {check or line}" if check or line else wanted
    return f"{mutant['name']}: exit code {out.code}, not {expected}\n{out.stdout}{out.stderr}"


def main() -> int:
    if sys.argv[1] == "write":
        write(Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4], Path(sys.argv[5]))
        return 0
    executable, listing, *names = sys.argv[1:]
    mutants = [m for m in read(Path(listing)) if not names or m["name"] in names]
    # Each launch passes while no mutant is in force.
    sound = {"name": "none", "passes": "sound", "check": "", "ends": ""}
    launches = {(m["launch"], m["device"]): {**m, **sound} for m in mutants}
    with ThreadPoolExecutor(2) as pool:
        faults = list(pool.map(lambda m: verdict(executable, m), [*launches.values(), *mutants]))
    print(*filter(None, faults), f"{len(mutants)} mutants, {len(launches)} launches", sep="\n")
    return 1 if any(faults) else 0


if __name__ == "__main__":
    sys.exit(main())
