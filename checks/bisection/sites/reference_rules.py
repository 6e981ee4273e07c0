"""Finds defects of reference files, each with its line."""

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from bisection.core import paths, reference_files
from bisection.core.format import one_line, plural, some
from bisection.core.grouping import grouped
from bisection.core.units import KIND_OF_UNIT, UNITS
from bisection.sites.site_files import Defect, Site, site_names

PROVENANCE = ("date", "sessions", "lock")

Faults = Iterator[tuple[int, str]]  # line and text
# (check, partition) -> cases without references, each with its metrics
Lacking = dict[tuple[str, str], list[tuple[reference_files.Case, list[str]]]]


class Lined(dict[Any, Any]):
    """A mapping of a reference file, with the line of each key."""

    lines: Mapping[Any, int]


Safe: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml's, if there


def quote(key: Any, kind: str) -> str:
    """The defect of a key that is no text to YAML."""
    return f"key {key!r} is {kind} in YAML: quote it"


class _Loader(Safe):
    """Loads mappings as Lined; notes keys that ReFrame would not take as they are written."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.faults: list[tuple[int, str]] = []

    def lined(self, node: yaml.MappingNode) -> Iterator[Lined]:
        """Constructs a mapping."""
        data = Lined()
        yield data  # first, as a mapping may contain itself
        firsts = {(key.tag, str(key.value)): key for key, _ in reversed(node.value)}
        for key, _ in node.value:
            line, kind = key.start_mark.line + 1, key.tag.rpartition(":")[2]
            if kind in ("bool", "null"):
                self.faults.append((line, quote(key.value, kind)))
            first = firsts[key.tag, str(key.value)]
            if first is not key and kind != "merge":
                before = first.start_mark.line + 1
                twice = f"key {key.value} is there twice, first in line {before}"
                self.faults.append((line, f"{twice}: only the last would count"))
        data.update(self.construct_mapping(node))
        data.lines = {self.construct_object(k): k.start_mark.line + 1 for k, _ in node.value}


_Loader.add_constructor("tag:yaml.org,2002:map", _Loader.lined)


def read(file: Path) -> tuple[Lined | None, list[tuple[int, str]]]:
    """The content of a reference file, None if it cannot be used at all; its defects as YAML."""
    try:
        loader = _Loader(file.read_text())
        content = loader.get_single_data()
        if isinstance(content, Lined):
            return content, loader.faults
        return None, [(1, "is not a mapping of checks")]
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = one_line(getattr(error, "problem", None) or error)
        return None, [(mark.line + 1 if mark else 1, f"is not YAML: {problem}")]
    except (OSError, ValueError, TypeError, RecursionError) as error:
        return None, [(1, f"cannot be read: {one_line(error)}")]


def reference_defects(
    file: Path, site: Site | None, recorded: Mapping[str, str] | None = None
) -> list[Defect]:
    """The defects of one reference file.

    Args:
        file: the file.
        site: the site of its name; None if there is none. Of one that has not loaded, only
            defects that need no checks are seen.
        recorded: the metrics of stored sessions, with their units.
    """
    content, defects = read(file)
    notes: list[tuple[int, str]] = []
    if site is None:
        lacks = f"there is no site-configs/{file.stem}.py"
        defects.append((1, f"{lacks}: site-configs/ has {some(site_names())}"))
    if content is not None:
        defects += provenance(content)
        for name, entry in content.items():
            if name != "provenance":
                branch = Branch(str(name), {**(recorded or {})})
                defects += _check(entry, content.lines[name], site, branch)
        if site is not None and site.checks:
            lacking, new = _uncovered(content, site, recorded or {})
            defects += coverage(content, lacking)
            for (check, part, method), names in new.items():  # as a run has it
                text = reference_files.not_judged(method, part, paths.shown(file), names)
                notes.append((content.lines[check], text))
    return [
        *(Defect.of(file, line, text) for line, text in defects),
        *(Defect.of(file, line, text, is_note=True) for line, text in notes),
    ]


def provenance(content: Lined) -> Faults:
    """A file must have the day, the sessions and the lock of its references."""
    line, parts = content.lines.get("provenance", 1), content.get("provenance")
    if not isinstance(parts, dict):
        yield line, f"there is no provenance, a mapping of {some(PROVENANCE)}"
        return
    for name in PROVENANCE:
        if not parts.get(name):
            yield line, f"provenance has no {name}"


def coverage(content: Lined, lacking: Lacking) -> Faults:
    """Every test case must find the references whose kind its partition claims."""
    for (check, partition), cases in lacking.items():
        case, metrics = cases[0]
        names = [f"{name} {case[name]}" for name in ("geometry", "case", "method") if case[name]]
        others = f", nor for {plural(len(cases) - 1, 'other test case')}" if cases[1:] else ""
        none = f"there is none of {check} for {some(metrics, 3)} of {', '.join(names)}{others}"
        yield content.lines.get(check, 1), f"{partition} claims references, and {none}"


def _uncovered(
    content: Lined, site: Site, recorded: Mapping[str, str]
) -> tuple[Lacking, dict[tuple[str, str, str], dict[str, None]]]:
    """The cases without a reference that their partition claims; and the metrics by (check,
    partition, method) where the method was added since the file was made."""
    claims = {part["fullname"]: part["extras"].get("references", []) for part in site.partitions}
    of_checks = grouped(site.cases, lambda case: case["check"]).items()
    methods = {check: {case["method"] for case in cases} for check, cases in of_checks}
    lacking: Lacking = {}
    new: dict[tuple[str, str, str], dict[str, None]] = {}
    for case in site.cases:
        entry, claimed = content.get(case["check"]), claims[case["$partition"]]
        known = reference_files.lookup(entry, case)
        if not isinstance(claimed, list) or known is None or case["geometry"] is None:
            continue
        kinds = {name: KIND_OF_UNIT.get(unit_of(name, recorded) or "") for name in case["required"]}
        if without := [name for name in kinds if kinds[name] in claimed and name not in known]:
            place = case["check"], case["$partition"]
            others = methods[case["check"]] - {case["method"]}
            if entry and reference_files.is_new_method(entry, case, others):
                new.setdefault((*place, case["method"]), {}).update(dict.fromkeys(without))
            else:
                lacking.setdefault(place, []).append((case, without))
    return lacking, new


def unit_of(metric: str, recorded: Mapping[str, str]) -> str | None:
    """The unit of a metric, as it was recorded or by its name; None if neither is known."""
    by_name = (name for name, unit in UNITS.items() if re.fullmatch(unit.names, metric))
    return recorded.get(metric) or next(by_name, None)


# ---- one check ----


@dataclass(frozen=True)
class Branch:
    """A part of a check's references."""

    name: str
    recorded: Mapping[str, str]  # metric -> unit
    metrics: tuple[str, ...] = ()  # that the check has; empty if that is not known
    index: tuple[str, ...] = ()  # of the levels that are left
    cases: tuple[reference_files.Case, ...] = ()  # that come to it; empty if that is not known
    place: tuple[str, ...] = ()  # the keys above it

    def __str__(self) -> str:
        return self.name + (f" for {', '.join(self.place)}" if self.place else "")

    def fault(self, key: Any, lines: Mapping[Any, int]) -> str | None:
        """Why ReFrame takes a key of this level, of which `lines` has the line of each, for no
        value, or for too many."""
        name = self.index[0]
        values = list(dict.fromkeys(c[name] for c in self.cases if c[name] is not None))
        if isinstance(key, str):
            try:
                re.compile(f"^{key}$")
            except re.error as error:
                return f"{key} is no regular expression: {error}"
        elif type(key) in (int, float) and set(map(type, values)) == {str}:
            return quote(key, "a number")
        matched = [value for value in values if reference_files.matches(key, value)]
        if more := [v for v in matched if v != key and not re.fullmatch(key, str(v))]:
            also = f"{key} also matches {some(map(str, more))}"
            return f"{also} (ReFrame anchors it as ^{key}$): write ({key})"
        taken = [reference_files.choose(lines, value) for value in matched]
        if name == "geometry" or not values or key in taken:
            return None  # a geometry may be that of another machine
        if matched:
            first = f"{taken[0]} in line {lines[taken[0]]}"
            return f"{key} is never reached: {first} comes first"
        if reference_files.is_numbered_as(key, values):
            return None
        of = f"{name.removeprefix('$')} of {self}"
        return f"{key} is no {of}: there are {some(map(str, values))}"

    def below(self, key: Any, keys: Mapping[Any, int]) -> "Branch":
        """The branch under a key, one of the keys of this level."""
        name, cases = self.index[0], self.cases
        if name != "geometry":
            cases = tuple(case for case in cases if reference_files.choose(keys, case[name]) == key)
        place = (*self.place, f"{name.removeprefix('$')} {key}")
        return replace(self, index=self.index[1:], cases=cases, place=place)


def _check(entry: Any, line: int, site: Site | None, branch: Branch) -> Faults:
    checks, all_cases = (site.checks, site.cases) if site else ({}, [])
    index = entry.get("$index") if isinstance(entry, Lined) else None
    at = entry.lines.get("$index", line) if isinstance(entry, Lined) else line
    cases = tuple(case for case in all_cases if checks and case["check"] == branch.name)
    if checks and branch.name not in checks:
        yield line, f"there is no check {branch.name}: there are {some(checks)}"
    elif not isinstance(entry, Lined):
        yield line, f"{branch.name} is not a mapping"
    elif index is None or not reference_files.is_index(index):
        lacks = f"{branch.name} has no $index, a list of attributes"
        yield at, f"{lacks}: no reference of it is found"
    elif unknown := [name for name in index if cases and name not in cases[0]]:
        known = [name for name in cases[0] if name not in ("check", "required")]
        has = f"$index of {branch.name} has {unknown[0]}"
        yield at, f"{has}, which is not known before a run: {some(known)} are"
    else:
        metrics = tuple(checks[branch.name]["metrics"]) if checks else ()
        whole = replace(branch, metrics=metrics, index=tuple(index), cases=cases)
        yield from _level(entry, line, whole)


def _level(data: Lined, line: int, branch: Branch) -> Faults:
    """The defects of the keys of one level, and of all below them."""
    lines = {key: data.lines[key] for key in data if key != "$index"}
    if not lines:
        yield line, f"there is no reference of {branch}"
    for key, line in lines.items():
        if not branch.index:
            yield from ((line, fault) for fault in _metric(str(key), data[key], branch))
            continue
        if fault := branch.fault(key, lines):
            yield line, fault
        if isinstance(data[key], dict):
            yield from _level(data[key], line, branch.below(key, lines))
        else:
            parts = some([*branch.index[1:], "metrics"])
            yield line, f"{branch}: under {key} must be a mapping, by {parts}"


def _metric(name: str, reference: Any, branch: Branch) -> Iterator[str]:
    """The defects of one reference, also of one that is known to fail: [$xfail, why, reference]."""
    known = [*branch.metrics, *branch.recorded]
    if branch.metrics and name not in known:
        near = difflib.get_close_matches(name, known, n=3) or known
        such = some(dict.fromkeys(near))
        yield f"{name} is no metric of {branch.name}: such are {such}"
    if isinstance(reference, list) and reference[:1] == ["$xfail"]:
        reference = reference[-1]
    for fault in reference_files.faults(reference):
        yield f"{name}: {fault}"
    unit = unit_of(name, branch.recorded)
    if isinstance(reference, list) and unit and reference[3:] not in ([], [None], [unit]):
        yield f"{name}: the unit is {reference[3]}, but is measured in {unit}"
