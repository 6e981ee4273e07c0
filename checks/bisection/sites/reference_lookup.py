"""Which reference applies to a test case: ReFrame's `$index`, on plain data."""

import math
import re


def is_index(names):
    return isinstance(names, list) and names and all(isinstance(name, str) for name in names)


def matches(key, value):
    """Whether ReFrame takes `key` for `value`, which is no key itself."""
    if key == value or not isinstance(key, str) or not isinstance(value, str):
        return key == value
    try:
        return re.match(f"^{key}$", value) is not None
    except re.error:
        return False


def choose(keys, value):
    """The key that ReFrame takes for a value: itself, else the first that matches; or None."""
    return value if value in keys else next((key for key in keys if matches(key, value)), None)


def lookup(entry, case, check):
    """The names of the metrics that have a reference for a test case; None if that is not known."""
    if entry is None:
        return []
    if not isinstance(entry, dict) or not is_index(entry.get("$index")):
        return None  # which is told
    data = {key: value for key, value in entry.items() if key != "$index"}
    for name in entry["$index"]:
        if not name.startswith("$") and name not in {"geometry", *check["settled"]}:
            return None
        key = choose(data, case.get(name)) if isinstance(data, dict) else None
        if key is None:
            return []
        data = data[key]
    return list(data) if isinstance(data, dict) else []


def flattened(tree, keys=()):
    """A tree of references as (check, ..., metric) -> entry."""
    found = {}
    for key, branch in tree.items():
        if isinstance(branch, dict):
            found |= flattened(branch, (*keys, str(key)))
        elif key != "$index":
            found[(*keys, str(key))] = branch
    return found


def resolved(entry, case, check):
    """metric -> reference of a test case, as ReFrame finds it."""
    if not lookup(entry, case, check):
        return {}
    data = {key: value for key, value in entry.items() if key != "$index"}
    for name in entry["$index"]:
        data = data[choose(data, case.get(name))]
    return data


def span_of(bounds):
    """(least, most) that passes; an open end is infinite."""
    least, most = (None if end is None else bounds[0] * (1 + end) for end in bounds[1:3])
    return -math.inf if least is None else least, math.inf if most is None else most


def family_name(value):
    """npar-2 as npar-N; any other value as it is."""
    return re.sub(r"-\d+$", "-N", str(value))


def family(there, keys):
    """More numbered names of the kinds that are there: npar-1 stands for any npar-N."""
    stems = {name[:-1] for value in there if (name := family_name(value)) != str(value)}
    numbers = {int(n) for key in keys for n in re.findall(r"\d+", str(key))} | set(range(1, 65))
    names = (f"{stem}{number}" for stem in sorted(stems) for number in sorted(numbers))
    return tuple(name for name in names if name not in there)


def of_family(value, there):
    """Whether `value` is a numbered name of a kind that is there."""
    name = family_name(value)
    return name != str(value) and name in map(family_name, there)
