"""The references of a test that runs: ReFrame reads them and compares.

What ReFrame lets pass in silence is refused here, by name.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from reframe.core.exceptions import ReferenceParseError

from bisection.core.reasons import Code, Reason
from bisection.core.references import faults, is_new_method, path
from bisection.core.units import KIND_OF_UNIT


def attach(test: Any) -> Reason | None:
    """Gives `test` the references of its system, if there are any; the reason if it cannot."""
    file = path(test.current_system.name)
    if not file.exists():
        return None
    try:
        test.reference = {"$ref": str(file)}
    except (ReferenceParseError, OSError, TypeError, ValueError, AttributeError) as error:
        return Code.REFERENCES_UNREADABLE(file=str(file), error=str(error))
    return None


def of(test: Any) -> dict[str, Sequence[Any]]:
    """The references that apply to `test`: metric -> (value, lower, upper), bounds as fractions."""
    if not test.reference:
        return {}
    try:
        references = test.reference[test]
    except (KeyError, ValueError):
        return {}
    return {name: getattr(ref, "data", ref) for name, ref in references.items()}


def check(test: Any, measured: Collection[str]) -> Reason | None:
    """The references by which nothing, or anything, could pass; None if there are none.

    Each needs finite bounds on both sides, the lower one above zero (a failed measurement is often
    a zero), and must belong to a metric of `measured`.
    """
    wrong = []
    for name, reference in of(test).items():
        if name not in measured:
            wrong.append((name, Code.REFERENCE_OF_NO_METRIC()))
        else:
            wrong += [(name, fault) for fault in faults(reference)]
    if wrong:
        where = {"partition": test.current_partition.fullname}
        where["file"] = str(path(test.current_system.name))
        return Code.REFERENCES_UNUSABLE(**where, faults=wrong)
    return None


def require(
    test: Any, units: Mapping[str, str], asserted: Sequence[str], claimed: Sequence[str]
) -> Reason | None:
    """Returns what has no reference though the partition claims its kind; None if nothing.

    Args:
        test: the test, after its values were recorded.
        units: the unit of every metric that was measured.
        asserted: the metrics that need a reference.
        claimed: the kinds of reference that the partition claims to have.
    """
    file, references = path(test.current_system.name), of(test)
    where = {"partition": test.current_partition.fullname, "file": str(file)}
    if claimed and not file.exists():
        return Code.NO_REFERENCE_FILE(**where, kinds=claimed)
    wanted = [name for name in asserted if KIND_OF_UNIT.get(units[name]) in claimed]
    missing = [name for name in wanted if name not in references]
    return Code.NO_REFERENCE(**where, metrics=missing) if missing else None


def is_of_new_method(test: Any) -> bool:
    """True if the test's place has references of other methods, and none of its own."""
    index = test.reference.index or ()
    others = [name for name in type(test).raw_params["method"].values if name != test.method]
    entry = {**test.reference.data, "$index": list(index)}
    return is_new_method(entry, {name: _attribute(test, name) for name in index}, others)


def _attribute(test: Any, name: str) -> Any:
    """The value of an attribute in $index, as ReFrame takes it; None if it has none."""
    partition = test.current_partition
    special = {
        "$system": test.current_system.name,
        "$partition": partition.fullname,
        "$environ": test.current_environ.name,
    }
    owner, _, key = name.rpartition(".")
    source = partition.processor if owner == "$processor" else test
    return special.get(name) or getattr(source, key or name, None)
