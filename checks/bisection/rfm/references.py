"""Where performance references are kept, and what a usable one is.

reference/systems/<system>.yaml holds them by check, partition and test attributes; ReFrame reads
them ($ref, $index) and compares. What ReFrame lets pass in silence is refused here, by name.
"""

import math
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from bisection.core import paths
from bisection.core.reasons import Code, Reason

# The kind of reference that a metric of this unit needs; partitions claim kinds.
KIND_OF_UNIT = {"ratio": "ratio", "share": "ratio", "s": "time", "atom-steps/s": "time"}


def path(system: str) -> Path:
    """The reference file of a system. RFM_REFERENCE_PREFIX names another folder."""
    folder = os.environ.get("RFM_REFERENCE_PREFIX") or paths.ROOT / "reference" / "systems"
    return Path(folder).resolve() / f"{system}.yaml"


def attach(test: Any) -> Reason | None:
    """Gives `test` the references of its system, if there are any; the reason if it cannot."""
    from reframe.core.exceptions import ReferenceParseError  # slow; only a run has use for it

    file = path(test.current_system.name)
    if not file.exists():
        return None
    try:
        test.reference = {"$ref": str(file)}
    except (ReferenceParseError, OSError, TypeError, ValueError, AttributeError) as error:
        return Reason.of(Code.REFERENCES_UNREADABLE, file=str(file), error=str(error))
    return None


def of(test: Any) -> dict[str, Sequence[Any]]:
    """The references that apply to `test`: metric -> (value, lower, upper), bounds as fractions."""
    if not test.reference:
        return {}
    try:
        found = test.reference[test]
    except (KeyError, ValueError):
        return {}
    return {name: getattr(ref, "data", ref) for name, ref in found.items()}


def check(test: Any, measured: Collection[str]) -> Reason | None:
    """The references by which nothing, or anything, could pass; None if there are none.

    Each needs finite bounds on both sides, the lower one above zero (a failed measurement is often
    a zero), and must belong to a metric of `measured`.
    """
    wrong = []
    for name, reference in of(test).items():
        if name not in measured:
            wrong.append((name, Reason.of(Code.REFERENCE_OF_NO_METRIC)))
        else:
            wrong += [(name, fault) for fault in faults(reference)]
    if wrong:
        where = {"partition": test.current_partition.fullname}
        where["file"] = str(path(test.current_system.name))
        return Reason.of(Code.REFERENCES_UNUSABLE, **where, faults=wrong)
    return None


def require(
    test: Any, units: Mapping[str, str], asserted: Sequence[str], claimed: Sequence[str]
) -> Reason | None:
    """What has no reference though the partition claims its kind; None if nothing.

    Args:
        test: the test, after its values were recorded.
        units: the unit of every metric that was measured.
        asserted: the metrics that need a reference.
        claimed: the kinds of reference that the partition claims to have.
    """
    file, found = path(test.current_system.name), of(test)
    where = {"partition": test.current_partition.fullname, "file": str(file)}
    if claimed and not file.exists():
        return Reason.of(Code.NO_REFERENCE_FILE, **where, kinds=claimed)
    missing = [
        name for name in asserted if KIND_OF_UNIT.get(units[name]) in claimed and name not in found
    ]
    return Reason.of(Code.NO_REFERENCE, **where, metrics=missing) if missing else None


def faults(reference: Sequence[Any]) -> list[Reason]:
    """What is wrong with one reference (value, lower fraction, upper fraction[, unit])."""
    if len(reference) not in (3, 4):
        return [Reason.of(Code.REFERENCE_SHAPE, reference=[str(part) for part in reference])]
    wrong = []
    parts = ("reference", "lower bound", "upper bound")
    for part, number in zip(parts, reference[:3], strict=True):
        if number is None:
            wrong.append(Reason.of(Code.REFERENCE_OPEN, part=part))
        elif isinstance(number, str):
            wrong.append(Reason.of(Code.REFERENCE_TEXT, part=part, value=number))
        elif isinstance(number, bool) or not math.isfinite(number):
            wrong.append(Reason.of(Code.REFERENCE_NOT_FINITE, part=part, value=str(number)))
    if wrong:
        return wrong
    value, lower, upper = reference[:3]
    if value <= 0:
        return [Reason.of(Code.REFERENCE_NOT_ABOVE_ZERO, value=value)]
    if not -1 < lower <= 0:
        return [Reason.of(Code.LOWER_BOUND_RANGE, value=lower)]
    if upper < 0:
        return [Reason.of(Code.UPPER_BOUND_RANGE, value=upper)]
    return []
