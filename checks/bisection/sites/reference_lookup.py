"""Which reference applies to a test case: ReFrame's `$index`, on plain data.

ReFrame resolves it for a test that runs (RegressionTestDict in reframe.core.pipeline) and has no
function for data; a test compares the two.
"""

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from bisection.rfm.references import choose

Case = Mapping[str, Any]  # the values by which references of a test on a partition are found


def is_index(names: Any) -> bool:
    """Whether it can be a check's $index: a list of attributes."""
    return isinstance(names, list) and bool(names) and all(isinstance(n, str) for n in names)


def lookup(entry: Any, case: Case, settled: Collection[str]) -> Mapping[str, Any] | None:
    """The references of a test case.

    Args:
        entry: the check's part of a reference file.
        case: the test case.
        settled: attributes of the check that are known before it runs.

    Returns:
        metric -> reference; None if that is not known before the test runs.
    """
    if entry is None:
        return {}
    if not isinstance(entry, dict) or not is_index(entry.get("$index")):
        return None  # a defect of its own
    data = {key: value for key, value in entry.items() if key != "$index"}
    for name in entry["$index"]:
        if not name.startswith("$") and name not in {"geometry", *settled}:
            return None
        key = choose(data, case.get(name)) if isinstance(data, dict) else None
        if key is None:
            return {}
        data = data[key]
    return data if isinstance(data, dict) else {}


def span_of(bounds: Sequence[Any]) -> tuple[float, float]:
    """(least, most) that passes; an open end is infinite."""
    least, most = (None if end is None else bounds[0] * (1 + end) for end in bounds[1:3])
    return -math.inf if least is None else least, math.inf if most is None else most


# ---- numbered names ----


def family_name(value: Any) -> str:
    """npar-2 as npar-N; any other value as it is."""
    return re.sub(r"-\d+$", "-N", str(value))


def family(there: Collection[Any], keys: Iterable[Any]) -> tuple[str, ...]:
    """More numbered names of the kinds that are there: npar-1 stands for any npar-N."""
    stems = {name[:-1] for value in there if (name := family_name(value)) != str(value)}
    numbers = {int(n) for key in keys for n in re.findall(r"\d+", str(key))} | set(range(1, 65))
    names = (f"{stem}{number}" for stem in sorted(stems) for number in sorted(numbers))
    return tuple(name for name in names if name not in there)


def of_family(value: Any, there: Iterable[Any]) -> bool:
    """Whether `value` is a numbered name of a kind that is there."""
    name = family_name(value)
    return name != str(value) and name in map(family_name, there)
