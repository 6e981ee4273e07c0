"""Finds defects of the references of a file: each rule yields defects."""

import dataclasses
import difflib
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from reframe.core.systems import ProcessorInfo

from bisection.core import paths, references
from bisection.core.reasons import Code, Reason
from bisection.core.references import (
    choose,
    family,
    family_name,
    is_index,
    is_new_method,
    lookup,
    matches,
)
from bisection.core.units import KIND_OF_UNIT, UNITS
from bisection.sites.reference_file import Entry, ReferenceFile
from bisection.sites.rules import claims
from bisection.sites.site import Defect, Site, line_of, load, reference_files, site_names
from bisection.sites.stored import Units, recorded_units

PROVENANCE = ("date", "sessions", "lock")
Defects = Iterator[Defect]


def examine_references(system: str | None = None) -> list[Defect]:
    """The defects of reference files.

    Args:
        system: the system of the file; None for the files of all.

    Returns:
        Defects and notes in the order of their files and lines.
    """
    names = [name for name in site_names() if system in (None, name)]
    sites = load(names)
    recorded = recorded_units(paths.results_db(paths.home()))
    defects = [defect for site in sites.values() for defect in claims(site)]
    defects += [defect for site in sites.values() for defect in site.defects if not site.checks]
    for file in reference_files(system):
        defects += reference_defects(file, sites.get(file.stem), recorded)
    return sorted(set(defects))


def reference_defects(file: Path, site: Site | None, recorded: Units | None = None) -> list[Defect]:
    """The defects of one reference file.

    Args:
        file: the file.
        site: the site of its name; None if there is none. One that has not loaded shows only
            defects that need no checks to be seen.
        recorded: the metrics, with units, that stored sessions have of each check.
    """
    nodes = ReferenceFile(file)
    defects = list(nodes.defects)
    if site is None:
        known = site_names()
        defects.append(nodes.defect(1, Code.NO_SITE_FILE, system=file.stem, known=known))
    if nodes.root is not None:
        for rule in RULES:
            defects += rule(nodes, site, recorded or {})
    return defects


def provenance(file: ReferenceFile, site: Site | None, recorded: Units) -> Defects:
    """A file must say when, from which sessions and with which lock its references were made."""
    entry = next((entry for entry in file.entries(file.root) if entry[0] == "provenance"), None)
    if entry is None:
        yield file.defect(1, Code.NO_PROVENANCE, parts=PROVENANCE)
        return
    _, key_node, node = entry
    content = file.value(node)
    if not isinstance(content, dict):
        parts = ", ".join(PROVENANCE)
        yield file.defect(key_node, Code.NOT_A_MAPPING, name="provenance", of=parts)
        return
    for name in PROVENANCE:
        if not content.get(name):
            yield file.defect(key_node, Code.PROVENANCE_LACKS, part=name)
    if content.get("sessions") and not isinstance(content["sessions"], list):
        value = repr(content["sessions"])
        yield file.defect(key_node, Code.PROVENANCE_NO_LIST, value=value)


def checks(file: ReferenceFile, site: Site | None, recorded: Units) -> Defects:
    """Every key must be reached by a test, and every leaf be a usable reference of a metric."""
    known = site.checks if site else {}
    for key, key_node, node in file.entries(file.root):
        if key == "provenance":
            continue
        if known and isinstance(key, str) and key not in known:
            yield file.defect(key_node, Code.CHECK_UNKNOWN, check=key, known=list(known))
            continue
        cases = [case for case in site.cases if case["check"] == key] if known else []
        mine = recorded.get(key, {})
        branch = Branch(str(key), known.get(key), site, mine, (), cases or None)
        yield from _check(file, key_node, node, branch)


def coverage(file: ReferenceFile, site: Site | None, recorded: Units) -> Defects:
    """Returns what a partition claims to have references of, every test case must find.

    A method that was added since the file was made is noted, as a run notes it.
    """
    if site is None or not site.checks:
        return
    methods: dict[str, set[str]] = {}
    for case in site.cases:
        methods.setdefault(case["check"], set()).add(case["method"])
    lacking: dict[tuple[str, str], list[tuple[references.Case, list[str]]]] = {}
    new: dict[tuple[str, str, str], dict[str, None]] = {}
    for case in site.cases:
        partition = next(p for p in site.partitions if p["fullname"] == case["$partition"])
        claimed = partition["extras"].get("references", [])
        check, method = case["check"], case["method"]
        entry = file.content.get(check)
        own = lookup(entry, case, site.checks[check]["settled"])
        if not isinstance(claimed, list) or own is None or case["geometry"] is None:
            continue
        units = {name: unit_of(name, recorded.get(check)) for name in case["required"]}
        kinds = {name: KIND_OF_UNIT.get(unit) for name, unit in units.items()}
        without = [name for name in units if kinds[name] in claimed and name not in own]
        if without and entry and is_new_method(entry, case, methods[check] - {method}):
            new.setdefault((check, case["$partition"], method), {}).update(dict.fromkeys(without))
        elif without:
            lacking.setdefault((check, partition["name"]), []).append((case, without))
    shown = paths.shown(file.path)
    nodes = {key: key_node for key, key_node, _ in file.entries(file.root)}
    for (check, partition, method), names in new.items():
        where = {"method": method, "partition": partition, "file": shown}
        yield file.defect(nodes[check], Code.METHOD_NOT_JUDGED, **where, metrics=list(names))
    for (check, partition), cases in lacking.items():
        case, metrics = cases[0]
        where = {"partition": f"{site.name}:{partition}", "check": check}
        if check not in nodes:
            line = line_of(site.path, partition, "references")
            yield Defect.of(site.path, line, Code.CHECK_NOT_COVERED, **where, file=shown)
            continue
        first = [f"{name} {case[name]}" for name in ("geometry", "case", "method") if case[name]]
        where |= {"metrics": metrics, "case": ", ".join(first), "others": len(cases) - 1}
        yield file.defect(nodes[check], Code.CASES_NOT_COVERED, **where)


# Takes the file, the site of its name (None if there is none) and what sessions have recorded.
Rule = Callable[[ReferenceFile, Site | None, Units], Defects]
RULES: tuple[Rule, ...] = (provenance, checks, coverage)


# ---- one check ----


@dataclass(frozen=True)
class Branch:
    """A part of a check's references: what is above it, and the test cases that come to it.

    `check` is None where nothing is known of the check, `cases` where nothing is of the cases.
    """

    name: str
    check: dict[str, Any] | None
    site: Site | None
    recorded: dict[str, str]
    index: tuple[str, ...]  # of the levels that are left
    cases: list[dict[str, Any]] | None
    place: tuple[str, ...] = ()

    @property
    def whose(self) -> str:
        """The branch and the values that lead to it, as text."""
        return self.name + (f" for {', '.join(self.place)}" if self.place else "")

    def under(self, key: Any, values: Sequence[Any] | None) -> "Branch":
        """The branch under a key that is chosen for `values`; None if they are not known."""
        name, cases = self.index[0], self.cases
        if cases is not None and values is not None and name != "geometry":
            cases = [case for case in cases if case[name] in values] or None
        place = (*self.place, f"{name.removeprefix('$')} {key}")
        return dataclasses.replace(self, index=self.index[1:], cases=cases, place=place)

    def values(self, keys: Sequence[Any]) -> tuple[Any, ...] | None:
        """All values that the first attribute of the index can have, None if that is not known.

        Geometries are those of the site's test cases. Numbered names have any number, as they
        follow from the machine.
        """
        name = self.index[0]
        if name == "geometry":
            there = dict.fromkeys(case[name] for case in self.cases or () if case[name])
            return tuple(there)
        if self.site is None or self.check is None:
            return None
        if name in ("$system", "$environ", "$partition"):
            partitions = [partition["fullname"] for partition in self.site.partitions]
            there = {"$system": [self.site.name], "$environ": self.site.environs}
            return tuple(there.get(name, partitions))
        if self.cases is None or name not in self.check["settled"]:
            return None
        there = tuple(dict.fromkeys(case[name] for case in self.cases))
        return there + family(there, keys)


def _check(file: ReferenceFile, key_node: yaml.Node, node: yaml.Node, branch: Branch) -> Defects:
    if not isinstance(node, yaml.MappingNode):
        yield file.defect(key_node, Code.NOT_A_MAPPING, name=branch.name)
        return
    entries = file.entries(node)
    index = next((part for key, _, part in entries if key == "$index"), None)
    names = file.value(index) if index else None
    if not is_index(names):
        yield file.defect(index or key_node, Code.NO_INDEX, check=branch.name)
        return
    for name in names:
        if fault := index_fault(name, branch):
            yield file.defect(index, fault.code, **fault.values)
            return
    entries = [entry for entry in entries if entry[0] != "$index"]
    yield from _level(file, key_node, entries, dataclasses.replace(branch, index=tuple(names)))


def _level(
    file: ReferenceFile, parent: yaml.Node, entries: Sequence[Entry], branch: Branch
) -> Defects:
    """The keys of one level, and what is under them."""
    if not entries:
        yield file.defect(parent, Code.BRANCH_EMPTY, branch=branch.whose)
    lines = {key: node.start_mark.line + 1 for key, node, _ in entries}
    values = branch.values(tuple(lines))
    taken = takes(lines, values or ())
    for key, key_node, node in entries:
        fault, chosen = key_fault(key, values), None
        if fault is None and values is not None:
            matched, chosen = taken[key]
            fault = _unreached(key, matched, chosen, branch, values, lines)
        if fault:
            yield file.defect(key_node, fault.code, **fault.values)
        below = branch.under(key, chosen or None)
        if not isinstance(node, yaml.MappingNode):
            parts = [*branch.index[1:], "metrics"]
            yield file.defect(
                node, Code.BRANCH_NO_MAPPING, branch=branch.whose, key=str(key), of=parts
            )
        elif below.index:
            yield from _level(file, key_node, file.entries(node), below)
        else:
            yield from _leaf(file, key_node, node, below)


def _unreached(
    key: Any,
    matched: Sequence[Any],
    chosen: Sequence[Any],
    branch: Branch,
    values: Sequence[Any],
    lines: Mapping[Any, int],
) -> Reason | None:
    """Returns why ReFrame takes a key for no value, or for too many; None if neither."""
    name = branch.index[0].removeprefix("$")
    more = [value for value in matched if value != key and not re.fullmatch(key, str(value))]
    if not matched and name != "geometry":
        known = list(dict.fromkeys(map(family_name, values)))
        return Code.KEY_UNKNOWN(key=key, name=name, branch=branch.whose, known=known)
    if not matched:  # a geometry of another machine, or a pattern without letters
        odd = re.fullmatch(r"\w*", key) or re.search(r"(?<!\\)[A-Za-wyz]", key)
        another = re.fullmatch(r"(\d+x){1,2}\d+", key)
        return Code.KEY_NO_GEOMETRY(key=key) if odd and not another else None
    if more:
        return Code.KEY_TAKES_MORE(key=key, more=more)
    if not chosen and name != "geometry":  # else it may be for other machines
        first = next(other for other in lines if other != key and matches(other, matched[0]))
        return Code.KEY_UNREACHED(key=key, first=str(first), line=lines[first])
    return None


def _leaf(file: ReferenceFile, key_node: yaml.Node, node: yaml.Node, branch: Branch) -> Defects:
    """The metrics of one place."""
    if not node.value:
        yield file.defect(key_node, Code.BRANCH_EMPTY, branch=branch.whose)
    known = [*branch.check["metrics"], *branch.recorded] if branch.check else None
    for metric, metric_node, value in file.entries(node):
        if known is not None and metric not in known:
            near = difflib.get_close_matches(str(metric), known, n=3) or known
            names = {"metric": str(metric), "near": list(dict.fromkeys(near))}
            yield file.defect(metric_node, Code.METRIC_UNKNOWN, check=branch.name, **names)
        yield from _reference(file, metric, value, branch.recorded)


def _reference(
    file: ReferenceFile, metric: Any, node: yaml.Node, recorded: Mapping[str, str]
) -> Defects:
    """One reference, also one that is known to fail: [$xfail, why, reference]."""
    parts = node.value if isinstance(node, yaml.SequenceNode) else []
    if parts and parts[0].value == "$xfail":
        node = parts[-1]
        parts = node.value if isinstance(node, yaml.SequenceNode) else []
    if not parts:
        yield file.defect(node, Code.METRIC_NO_REFERENCE, metric=str(metric))
        return
    odd = [part for part in parts[:3] if not number_like(file.value(part))]
    for part in odd:
        kind = part.tag.rpartition(":")[2]
        value = part.value if kind == "bool" else None
        yield file.defect(part, Code.METRIC_PART, metric=str(metric), kind=kind, value=value)
    values = [file.value(part) for part in parts]
    for fault in [] if odd else references.faults(values):
        yield file.defect(node, Code.METRIC_REFERENCE, metric=str(metric), fault=fault)
    unit = unit_of(str(metric), recorded)
    if len(values) == 4 and unit and values[3] not in (None, unit):
        units = {"unit": str(values[3]), "measured": unit}
        yield file.defect(parts[3], Code.METRIC_UNIT, metric=str(metric), **units)


# ---- what a key, an attribute, a value may be ----


def unit_of(metric: str, recorded: Mapping[str, str] | None = None) -> str | None:
    """The unit of a metric, as it was recorded or by its name; None if neither is known."""
    if recorded and metric in recorded:
        return recorded[metric]
    return next((name for name, unit in UNITS.items() if re.fullmatch(unit.names, metric)), None)


def index_fault(name: str, branch: Branch) -> Reason | None:
    """Returns what is wrong with an attribute in the $index of a check; None if nothing is."""
    check = branch.check
    owner, _, key = name.rpartition(".")
    if owner == "$processor" and not hasattr(ProcessorInfo({}), key):
        return Code.INDEX_NO_PROCESSOR(check=branch.name, name=name, key=key)
    if name in ("$system", "$partition", "$environ") or owner in ("$processor", "$dev"):
        return None
    if name.startswith("$"):
        return Code.INDEX_NO_SPECIAL(check=branch.name, name=name)
    if check is None or name in check["attributes"]:
        return None
    known = [*check["settled"], "geometry"]
    return Code.INDEX_NO_ATTRIBUTE(check=branch.name, name=name, known=known)


def key_fault(key: Any, values: Sequence[Any] | None) -> Reason | None:
    """Returns why a key of a level can match nothing at all, None if it can."""
    if isinstance(key, str):
        try:
            re.compile(f"^{key}$")
        except re.error as error:
            return Code.KEY_NO_REGEX(key=key, error=str(error))
        return None
    # Such a key is reported where the file is read.
    if key is None or isinstance(key, bool) or values is None:
        return None
    if all(isinstance(value, str) for value in values):
        return Code.KEY_NUMBER(key=key)
    return None


def takes(keys: Collection[Any], values: Sequence[Any]) -> dict[Any, tuple[list[Any], list[Any]]]:
    """key -> (the values that it matches, those of them for which it is chosen)."""
    return {
        key: (
            [value for value in values if matches(key, value)],
            [value for value in values if choose(keys, value) == key],
        )
        for key in keys
    }


def number_like(value: Any) -> bool:
    """True if references.faults can say what is wrong with a value."""
    if isinstance(value, int):
        return not isinstance(value, bool) and abs(value) < 10**300
    return value is None or isinstance(value, (str, float))
