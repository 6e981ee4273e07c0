"""The methods and cases of each kernel, as the kernel's own source lists them.

A list stands in one file below src/, which the kernel is built from: a method that is added there
is judged by the checks, advised on and tested without a further line. Two forms are read:

    BX_METHOD(shm_padded)             a line of a .def file, for C and CMake
    method_t("packed", ...)           an entry of a Fortran array of such a type
"""

import functools
import re

from bisection.core import paths

NETWORK = ("pairs", "patterns", "noise", "congestion", "device", "osu")
# Kernels whose methods do the same work and stand in one result.
ALTERNATIVES = ("transpose", "npar", "eigen", "md", "halo", "tasks", "patches", "restart")
# Where each kernel lists its methods and cases; those of the network have no cases.
METHODS = {kernel: (f"{kernel}/{kernel}.def", "BX_METHOD") for kernel in ALTERNATIVES} | {
    "npar": ("npar/npar_launch.f90", "method_t"),
    "md": ("md/md_launch.f90", "md_method_t"),
    "metadata": ("restart/metadata.def", "BX_METHOD"),
    "burn": ("burn/burn.def", "BX_METHOD"),
    **{kernel: (f"network/{kernel}.def", "BX_METHOD") for kernel in NETWORK},
}
CASES = {kernel: (f"{kernel}/{kernel}.def", "BX_CASE") for kernel in ALTERNATIVES} | {
    "npar": ("npar/npar_cases.f90", "case_t"),
    "md": ("md/md_lattice.f90", "md_crystal_t"),
    "metadata": ("restart/metadata.def", "BX_CASE"),
}


def methods(kernel: str, family: str = "") -> list[str]:
    """The methods of a kernel, one of METHODS, as its command line names them; without baselines,
    and those of one family, by default of none.

    The numbers of band groups of the kernel npar, npar-N, follow from the ranks and are not listed.

    Raises:
        OSError, ValueError: the file cannot be read, or lists nothing.
    """
    return list(_names(*METHODS[kernel], family))


def cases(kernel: str) -> list[str]:
    """The cases of a kernel, one of CASES; arguments and errors as of methods()."""
    return list(_names(*CASES[kernel]))


def sizes(method: str, kernel: str = "patterns") -> list[int]:
    """The bytes of the messages that a method of a kernel, patterns or osu, is measured with; empty
    for a method without messages. Errors as of methods()."""
    path = paths.ROOT / "src" / METHODS[kernel][0]
    name = method.replace("-", "_")
    line = re.search(rf"^BX_METHOD\({name}, (\d+), (\d+), (\d+)\)", path.read_text("utf-8"), re.M)
    if not line:
        raise ValueError(f"{paths.shown(path)} has no sizes of {method}")
    size, last, factor = map(int, line.groups())
    listed = []
    while factor and size <= last:
        listed.append(size)
        size *= factor
    return listed


@functools.cache
def _names(file: str, entry: str, family: str = "") -> tuple[str, ...]:
    path = paths.ROOT / "src" / file
    text = path.read_text(encoding="utf-8")
    if entry.startswith("BX_"):
        words = re.findall(rf"^{entry}\(([\w-]+)", text, re.M)
        names = tuple(word.replace("_", "-") for word in words)
    else:
        names = tuple(_fortran_names(text, entry, family))
    if not names:
        raise ValueError(f"{paths.shown(path)} lists no {entry}")
    return names


def _fortran_names(text: str, entry: str, family: str) -> list[str]:
    """The first components of arrays of a type, of one family; those with baseline=.true. are left
    out."""
    array = rf"type\({entry}\), parameter[^\n]*\(\*\) = \[(.*?)\]$"
    names = []
    for body in re.findall(array, text, re.M | re.S):
        for part in re.split(rf"\b{entry}\(", body)[1:]:
            name = re.match(r'"([^"]+)"', part)
            of = re.search(r'family="(\w+)"', part)
            if name and "baseline=.true." not in part and (of[1] if of else "") == family:
                names.append(name[1].strip())
    return names
