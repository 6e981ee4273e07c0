"""Finds defects of reference files, each with its line."""

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from bisection.core import paths, references
from bisection.core.format import one_line
from bisection.core.reasons import Code, Reason
from bisection.core.units import KIND_OF_UNIT, UNITS
from bisection.sites.site import Defect, Site, site_names

PROVENANCE = ("date", "sessions", "lock")

Faults = Iterator[tuple[int, Reason]]  # line and reason


class Lined(dict):
    """A mapping of a reference file that knows the line of each key."""

    lines: Mapping[Any, int]


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
    """Loads mappings as Lined; notes keys that ReFrame would not take as they are written."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.faults: list[tuple[int, Reason]] = []

    def lined(self, node: yaml.MappingNode) -> Iterator[Lined]:
        """Constructs a mapping."""
        data = Lined()
        yield data  # first, as a mapping may contain itself
        firsts = {(key.tag, str(key.value)): key for key, _ in reversed(node.value)}
        for key, _ in node.value:
            line, kind = key.start_mark.line + 1, key.tag.rpartition(":")[2]
            if kind in ("bool", "null"):
                self.faults.append((line, Code.KEY_KIND(key=key.value, kind=kind)))
            first = firsts[key.tag, str(key.value)]
            if first is not key and kind != "merge":
                before = first.start_mark.line + 1
                self.faults.append((line, Code.KEY_TWICE(key=key.value, first=before)))
        data.update(self.construct_mapping(node))
        data.lines = {self.construct_object(k): k.start_mark.line + 1 for k, _ in node.value}


_Loader.add_constructor("tag:yaml.org,2002:map", _Loader.lined)


def read(file: Path) -> tuple[Lined | None, list[tuple[int, Reason]]]:
    """The content of a reference file, None if it cannot be used at all; its defects as YAML."""
    try:
        loader = _Loader(file.read_text())
        content = loader.get_single_data()
        if isinstance(content, Lined):
            return content, loader.faults
        return None, [(1, Code.NOT_A_MAPPING())]
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = one_line(getattr(error, "problem", None) or error)
        return None, [(mark.line + 1 if mark else 1, Code.NOT_YAML(error=problem))]
    except (OSError, ValueError, TypeError, RecursionError) as error:
        return None, [(1, Code.FILE_UNREADABLE(error=one_line(error)))]


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
    if site is None:
        defects.append((1, Code.NO_SITE_FILE(system=file.stem, known=site_names())))
    if content is not None:
        defects += provenance(content)
        for name, entry in content.items():
            if name != "provenance":
                branch = Branch(str(name), {**(recorded or {})})
                defects += _check(entry, content.lines[name], site, branch)
        if site is not None and site.checks:
            defects += coverage(content, paths.shown(file), site, recorded or {})
    return [Defect.of(file, line, reason) for line, reason in defects]


def provenance(content: Lined) -> Faults:
    """A file must have the day, the sessions and the lock of its references."""
    line, parts = content.lines.get("provenance", 1), content.get("provenance")
    if not isinstance(parts, dict):
        yield line, Code.NO_PROVENANCE(parts=PROVENANCE)
        return
    for name in PROVENANCE:
        if not parts.get(name):
            yield line, Code.PROVENANCE_LACKS(part=name)


def coverage(content: Lined, shown: str, site: Site, recorded: Mapping[str, str]) -> Faults:
    """Every test case must find the references whose kind its partition claims.

    A method that was added since the file was made is a note, as in a run.
    """
    claims = {part["fullname"]: part["extras"].get("references", []) for part in site.partitions}
    methods: dict[str, set[str]] = {}
    for case in site.cases:
        methods.setdefault(case["check"], set()).add(case["method"])
    lacking: dict[tuple[str, str], list[tuple[references.Case, list[str]]]] = {}
    new: dict[tuple[str, str, str], dict[str, None]] = {}
    for case in site.cases:
        check, partition, method = case["check"], case["$partition"], case["method"]
        entry, claimed = content.get(check), claims[partition]
        known = references.lookup(entry, case)
        if not isinstance(claimed, list) or known is None or case["geometry"] is None:
            continue
        kinds = {name: KIND_OF_UNIT.get(unit_of(name, recorded)) for name in case["required"]}
        without = [name for name in kinds if kinds[name] in claimed and name not in known]
        if without and entry and references.is_new_method(entry, case, methods[check] - {method}):
            new.setdefault((check, partition, method), {}).update(dict.fromkeys(without))
        elif without:
            lacking.setdefault((check, partition), []).append((case, without))
    for (check, partition, method), metrics in new.items():
        where = {"method": method, "partition": partition, "file": shown}
        yield content.lines[check], Code.METHOD_NOT_JUDGED(**where, metrics=list(metrics))
    for (check, partition), cases in lacking.items():
        case, metrics = cases[0]
        names = [f"{name} {case[name]}" for name in ("geometry", "case", "method") if case[name]]
        example = {"metrics": metrics, "case": ", ".join(names), "others": len(cases) - 1}
        where = {"partition": partition, "check": check}
        yield content.lines.get(check, 1), Code.CASES_NOT_COVERED(**where, **example)


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
    cases: tuple[references.Case, ...] = ()  # that come to it; empty if that is not known
    place: tuple[str, ...] = ()  # the keys above it

    def __str__(self) -> str:
        return self.name + (f" for {', '.join(self.place)}" if self.place else "")

    def fault(self, key: Any, lines: Mapping[Any, int]) -> Reason | None:
        """The reason why ReFrame takes a key of this level for no value, or for too many.

        Args:
            key: the key.
            lines: key -> line, of all keys of the level.
        """
        name = self.index[0]
        values = list(dict.fromkeys(c[name] for c in self.cases if c[name] is not None))
        if isinstance(key, str):
            try:
                re.compile(f"^{key}$")
            except re.error as error:
                return Code.KEY_NO_REGEX(key=key, error=str(error))
        elif type(key) in (int, float) and set(map(type, values)) == {str}:
            return Code.KEY_KIND(key=key, kind="a number")
        matched = [value for value in values if references.matches(key, value)]
        if more := [v for v in matched if v != key and not re.fullmatch(key, str(v))]:
            return Code.KEY_TAKES_MORE(key=key, more=more)
        taken = [references.choose(lines, value) for value in matched]
        if name == "geometry" or not values or key in taken:
            return None  # a geometry may be that of another machine
        if matched:
            return Code.KEY_UNREACHED(key=key, first=str(taken[0]), line=lines[taken[0]])
        if references.is_numbered_as(key, values):
            return None
        where = {"name": name.removeprefix("$"), "branch": str(self)}
        return Code.KEY_UNKNOWN(key=str(key), **where, known=values)

    def below(self, key: Any, keys: Mapping[Any, int]) -> "Branch":
        """The branch under a key, one of the keys of this level."""
        name, cases = self.index[0], self.cases
        if name != "geometry":
            cases = tuple(case for case in cases if references.choose(keys, case[name]) == key)
        place = (*self.place, f"{name.removeprefix('$')} {key}")
        return replace(self, index=self.index[1:], cases=cases, place=place)


def _check(entry: Any, line: int, site: Site | None, branch: Branch) -> Faults:
    checks, index = site.checks if site else {}, None
    if isinstance(entry, dict):
        index, at = entry.get("$index"), entry.lines.get("$index", line)
    cases = tuple(case for case in site.cases if case["check"] == branch.name) if checks else ()
    if checks and branch.name not in checks:
        yield line, Code.CHECK_UNKNOWN(check=branch.name, known=list(checks))
    elif not isinstance(entry, dict):
        yield line, Code.CHECK_NO_MAPPING(check=branch.name)
    elif not references.is_index(index):
        yield at, Code.NO_INDEX(check=branch.name)
    elif unknown := [name for name in index if cases and name not in cases[0]]:
        known = [name for name in cases[0] if name not in ("check", "required")]
        yield at, Code.INDEX_UNKNOWN(check=branch.name, name=unknown[0], known=known)
    else:
        metrics = tuple(checks[branch.name]["metrics"]) if checks else ()
        known = replace(branch, metrics=metrics, index=tuple(index), cases=cases)
        yield from _level(entry, line, known)


def _level(data: Lined, line: int, branch: Branch) -> Faults:
    """The defects of the keys of one level, and of all below them."""
    lines = {key: data.lines[key] for key in data if key != "$index"}
    if not lines:
        yield line, Code.BRANCH_EMPTY(branch=str(branch))
    for key, line in lines.items():
        if not branch.index:
            yield from ((line, reason) for reason in _metric(str(key), data[key], branch))
            continue
        if reason := branch.fault(key, lines):
            yield line, reason
        if isinstance(data[key], dict):
            yield from _level(data[key], line, branch.below(key, lines))
        else:
            parts = [*branch.index[1:], "metrics"]
            yield line, Code.BRANCH_NO_MAPPING(branch=str(branch), key=str(key), by=parts)


def _metric(name: str, reference: Any, branch: Branch) -> Iterator[Reason]:
    """The defects of one reference, also of one that is known to fail: [$xfail, why, reference]."""
    known = [*branch.metrics, *branch.recorded]
    if branch.metrics and name not in known:
        near = difflib.get_close_matches(name, known, n=3) or known
        yield Code.METRIC_UNKNOWN(check=branch.name, metric=name, near=list(dict.fromkeys(near)))
    if isinstance(reference, list) and reference[:1] == ["$xfail"]:
        reference = reference[-1]
    for fault in references.faults(reference):
        yield Code.METRIC_REFERENCE(metric=name, fault=fault)
    unit = unit_of(name, branch.recorded)
    if isinstance(reference, list) and unit and reference[3:] not in ([], [None], [unit]):
        yield Code.METRIC_UNIT(metric=name, unit=str(reference[3]), measured=unit)
