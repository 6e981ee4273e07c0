"""Where performance references are kept, which are usable, and which apply to a test case.

reference/systems/<system>.yaml holds them by check, partition and test attributes; ReFrame reads
them ($ref, $index) and compares (bisection/rfm/check.py).
"""

import math
import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bisection.core import paths
from bisection.core.format import finite, some

Case = Mapping[str, Any]  # the values by which references of a test on a partition are found


def path(system: str) -> Path:
    """The reference file of a system. RFM_REFERENCE_PREFIX names another folder."""
    folder = os.environ.get("RFM_REFERENCE_PREFIX") or paths.ROOT / "reference" / "systems"
    return Path(folder).resolve() / f"{system}.yaml"


def matches(key: Any, value: Any) -> bool:
    """True if ReFrame takes `key` for `value`, which is no key itself."""
    if key == value or not isinstance(key, str) or not isinstance(value, str):
        return key == value
    try:
        return re.match(f"^{key}$", value) is not None
    except re.error:
        return False


def not_judged(method: str, partition: str, file: str, metrics: Iterable[str]) -> str:
    """The note on a method without references where other methods have some."""
    lacks = f"{file} has no reference of it on {partition} for {some(metrics)}"
    return f"{method} is measured and verified, but not judged: {lacks}"


def choose(keys: Collection[Any], value: Any) -> Any:
    """The key that ReFrame takes for a value: itself, else the first that matches; or None."""
    return value if value in keys else next((key for key in keys if matches(key, value)), None)


def faults(reference: Any) -> list[str]:
    """The defects of one reference (value, lower fraction, upper fraction[, unit])."""
    if not isinstance(reference, (list, tuple)) or len(reference) not in (3, 4):
        parts = reference if isinstance(reference, (list, tuple)) else [reference]
        return [f"reference [{some(map(str, parts))}] is not [value, lower, upper]"]
    wrong = []
    parts = ("reference", "lower bound", "upper bound")
    for part, number in zip(parts, reference[:3], strict=True):
        if number is None:
            wrong.append(f"the {part} is open")
        elif isinstance(number, str):
            text = f"{number!r} is text, not a number (YAML wants 9.0e+6, not 9e6)"
            wrong.append(f"the {part} {text}")
        elif not finite(number):
            wrong.append(f"the {part} {number} is not a finite number")
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


# ---- which reference applies to a test that does not run: ReFrame has no function for data ----


def is_index(names: Any) -> bool:
    return isinstance(names, list) and bool(names) and all(isinstance(n, str) for n in names)


def lookup(entry: Any, case: Case) -> Mapping[str, Any] | None:
    """The references of a test case in its check's part of a reference file, metric -> reference;
    None if the $index is not usable, a defect of its own."""
    if entry is None:
        return {}
    index = entry.get("$index") if isinstance(entry, dict) else None
    if index is None or not is_index(index) or any(name not in case for name in index):
        return None
    data, unmatched = _descend(entry, case)
    return data if unmatched is None and isinstance(data, dict) else {}


def is_new_method(entry: Mapping[str, Any], case: Case, others: Collection[str]) -> bool:
    """True if the place of a test case has references of other methods, and none of its own.

    A key that is no method of the check may be the test's own, mistyped: then it is False. `entry`
    is the check's part of a reference file, with a usable $index; `others` are its other methods.
    """
    data, unmatched = _descend(entry, case)
    if unmatched != "method" or not isinstance(data, dict) or not data:
        return False
    return all(any(matches(key, method) for method in others) for key in data)


def _descend(entry: Mapping[str, Any], case: Case) -> tuple[Any, str | None]:
    """The part of an entry for a case, and the attribute that no key fits there, None if all do."""
    data = {key: value for key, value in entry.items() if key != "$index"}
    for name in entry["$index"]:
        key = choose(data, case.get(name)) if isinstance(data, dict) else None
        if key is None:
            return data, name
        data = data[key]
    return data, None


def span_of(bounds: Sequence[Any]) -> tuple[float, float]:
    """(least, most) that passes; an open end is infinite."""
    least, most = (None if end is None else bounds[0] * (1 + end) for end in bounds[1:3])
    return -math.inf if least is None else least, math.inf if most is None else most


def is_numbered_as(name: Any, known: Iterable[Any]) -> bool:
    """True for a name or pattern that begins as a known numbered name: npar-8 where there is
    npar-1, as another machine has other numbers."""
    numbered = (re.fullmatch(r"(.*-)\d+", str(value)) for value in known)
    return str(name).startswith(tuple({match[1] for match in numbered if match}))
