"""Where performance references are kept, and what a usable one is.

reference/systems/<system>.yaml holds them by check, partition and test attributes; ReFrame reads
them ($ref, $index) and compares. What ReFrame lets pass in silence is refused here, by name.
"""

import math
import os
from pathlib import Path

from reframe.core.exceptions import PerformanceError, ReferenceParseError

from bisection.core import paths

# The kind of reference that a metric of this unit needs; partitions claim kinds.
KIND_OF_UNIT = {"ratio": "ratio", "share": "ratio", "s": "time", "atom-steps/s": "time"}


def path(system):
    """The reference file of a system. RFM_REFERENCE_PREFIX names another folder."""
    return (
        Path(
            os.environ.get("RFM_REFERENCE_PREFIX") or paths.ROOT / "reference" / "systems"
        ).resolve()
        / f"{system}.yaml"
    )


def attach(test):
    """Gives `test` the references of its system, if there are any."""
    file = path(test.current_system.name)
    if not file.exists():
        return
    try:
        test.reference = {"$ref": str(file)}
    except (ReferenceParseError, OSError, TypeError, ValueError, AttributeError) as error:
        raise PerformanceError(f"cannot read references in {file}: {error}") from None


def of(test):
    """The references that apply to `test`: metric -> (value, lower, upper), as fractions."""
    if not test.reference:
        return {}
    try:
        found = test.reference[test]
    except (KeyError, ValueError):
        return {}
    return {name: getattr(ref, "data", ref) for name, ref in found.items()}


def check(test, measured):
    """Raises PerformanceError, naming every reference by which nothing, or anything, could pass.

    Each needs finite bounds on both sides, the lower one above zero (a failed measurement is often
    a zero), and must belong to a metric of `measured`.
    """
    where = f"on {test.current_partition.fullname} in {path(test.current_system.name)}"
    wrong = []
    for name, reference in of(test).items():
        if name not in measured:
            wrong.append(f"{name} has a reference {where}, but is no metric of this check")
        else:
            wrong += [f"{name}: {fault} {where}" for fault in faults(reference)]
    if wrong:
        raise PerformanceError("; ".join(wrong))


def require(test, units, asserted, claimed):
    """Raises PerformanceError, naming what has no reference though the partition claims its kind.

    `units` is name -> unit of all that was measured, `asserted` the names that need a reference.
    """
    file, found = path(test.current_system.name), of(test)
    if claimed and not file.exists():
        raise PerformanceError(
            f"partition {test.current_partition.fullname} claims references of kind "
            f"{', '.join(claimed)}, and there is no {file}"
        )
    missing = [
        name for name in asserted if KIND_OF_UNIT.get(units[name]) in claimed and name not in found
    ]
    if missing:
        raise PerformanceError(
            f"no reference on {test.current_partition.fullname} in {file} for {', '.join(missing)}"
        )


def faults(reference):
    """What is wrong with one reference (value, lower fraction, upper fraction), one phrase each."""
    if len(reference) not in (3, 4):
        return [f"reference {list(reference)} is not [value, lower, upper]"]
    names = ("reference", "lower bound", "upper bound")
    wrong = []
    for name, number in zip(names, reference):  # noqa: B905 (a unit may follow)
        if number is None:
            wrong.append(f"the {name} is open")
        elif isinstance(number, str):
            wrong.append(
                f"the {name} {number!r} is text, not a number (YAML wants 9.0e+6, not 9e6)"
            )
        elif isinstance(number, bool) or not math.isfinite(number):
            wrong.append(f"the {name} {number} is not a finite number")
    if wrong:
        return wrong
    value, lower, upper = reference[:3]
    if value <= 0:
        return [f"the reference {value} is not above zero"]
    if not -1 < lower <= 0:
        return [f"the lower bound {lower} is not a fraction between -1 and 0"]
    if upper < 0:
        return [f"the upper bound {upper} is below zero"]
    return []
