"""Where performance references are kept, what a usable one is, and which apply to a test case.

reference/systems/<system>.yaml holds them by check, partition and test attributes; ReFrame reads
them ($ref, $index) and compares (bisection/rfm/references.py).
"""

import math
import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bisection.core import paths
from bisection.core.reasons import Code, Reason

Case = Mapping[str, Any]  # the values by which references of a test on a partition are found


def path(system: str) -> Path:
    """The reference file of a system. RFM_REFERENCE_PREFIX names another folder."""
    folder = os.environ.get("RFM_REFERENCE_PREFIX") or paths.ROOT / "reference" / "systems"
    return Path(folder).resolve() / f"{system}.yaml"


def is_new_method(entry: Mapping[str, Any], case: Case, others: Collection[str]) -> bool:
    """Whether the place of a test case has references of other methods, and none of its own.

    A key that is no method of the check may be the test's own, mistyped: then the answer is no.

    Args:
        entry: the check's part of a reference file, which has a usable $index.
        case: the values of the test case by the names in $index.
        others: the other methods of the check.
    """
    data = {key: value for key, value in entry.items() if key != "$index"}
    for name in entry["$index"]:
        key = choose(data, case.get(name)) if isinstance(data, dict) else None
        if key is None and name == "method":
            return bool(data) and all(any(matches(key, m) for m in others) for key in data)
        if key is None:
            return False
        data = data[key]
    return False


def matches(key: Any, value: Any) -> bool:
    """Whether ReFrame takes `key` for `value`, which is no key itself."""
    if key == value or not isinstance(key, str) or not isinstance(value, str):
        return key == value
    try:
        return re.match(f"^{key}$", value) is not None
    except re.error:
        return False


def choose(keys: Collection[Any], value: Any) -> Any:
    """The key that ReFrame takes for a value: itself, else the first that matches; or None."""
    return value if value in keys else next((key for key in keys if matches(key, value)), None)


def faults(reference: Sequence[Any]) -> list[Reason]:
    """What is wrong with one reference (value, lower fraction, upper fraction[, unit])."""
    if len(reference) not in (3, 4):
        return [Code.REFERENCE_SHAPE(reference=[str(part) for part in reference])]
    wrong = []
    parts = ("reference", "lower bound", "upper bound")
    for part, number in zip(parts, reference[:3], strict=True):
        if number is None:
            wrong.append(Code.REFERENCE_OPEN(part=part))
        elif isinstance(number, str):
            wrong.append(Code.REFERENCE_TEXT(part=part, value=number))
        elif isinstance(number, bool) or not math.isfinite(number):
            wrong.append(Code.REFERENCE_NOT_FINITE(part=part, value=str(number)))
    if wrong:
        return wrong
    value, lower, upper = reference[:3]
    if value <= 0:
        return [Code.REFERENCE_NOT_ABOVE_ZERO(value=value)]
    if not -1 < lower <= 0:
        return [Code.LOWER_BOUND_RANGE(value=lower)]
    if upper < 0:
        return [Code.UPPER_BOUND_RANGE(value=upper)]
    return []


# ---- which reference applies to a test that does not run: ReFrame has no function for data ----


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
