"""What is wrong with the partitions of a site, and with checks."""

import difflib
import string
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bisection.core import paths
from bisection.core.format import some
from bisection.core.verdicts import TIERS
from bisection.rfm import references
from bisection.rfm.references import KIND_OF_UNIT, of_family
from bisection.sites.site import Defect, Site, line_of


def is_count(value: Any) -> bool:
    """Whether it is a whole number above zero."""
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


EXTRAS = ("nodes", "binding", "references")
FIELDS = ("nodes", "ranks", "ranks_per_node", "threads")


def site_defects(site: Site) -> list[Defect]:
    """What is wrong with a site's partitions, beyond ReFrame's own schema."""
    found = []
    used = {case["$partition"] for case in site.cases}
    for partition in site.partitions:
        wrong = list(partition_faults(partition))
        if site.checks and partition["fullname"] not in used:
            text = f"no check can run in any of its environments ({some(partition['environs'])}): "
            wrong.append(("environs", f"{text}kernels ask for the feature kernels"))
        for key, text in wrong:
            line = line_of(site.path, partition["name"], key)
            found.append(Defect(paths.shown(site.path), line, f"{partition['fullname']}: {text}"))
    return found + claims(site)


def partition_faults(partition: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(key, sentence) of everything in one partition by which a launch could not be placed."""
    extras = partition["extras"]
    if not partition["cores"] and not partition["detected"]:
        yield (
            "processor",
            "its cores are unknown: processor needs num_cpus and num_cpus_per_core",
        )
    if not is_count(extras.get("nodes", 1)):
        yield "nodes", f"extras.nodes is {extras['nodes']!r}: a whole number above 0 is allowed"
    yield from (("binding", text) for text in binding_faults(extras.get("binding", [])))
    for name in extras:
        near = difflib.get_close_matches(name, EXTRAS, n=1, cutoff=0.8)
        if name not in EXTRAS and near:
            yield name, f"extras.{name} is not known, and would not be read: is it {near[0]}?"


def binding_faults(templates: Any) -> Iterator[str]:
    """What layouts.bindings would refuse, one sentence each."""
    if not isinstance(templates, list):
        yield f"extras.binding is {templates!r}: a list of launcher options is allowed"
        return
    allowed = ", ".join(f"{{{name}}}" for name in FIELDS)
    for template in templates:
        try:
            names = [name for _, name, _, _ in string.Formatter().parse(template)]
        except (TypeError, ValueError) as error:
            yield f"extras.binding has {template!r}: {error}"
            continue
        for name in dict.fromkeys(names):
            if name is not None and name not in FIELDS:
                yield f"extras.binding has {{{name}}} in {template!r}: allowed are {allowed}"


def claims(site: Site) -> list[Defect]:
    """What is wrong with the kinds of reference that partitions claim."""
    kinds = list(dict.fromkeys(KIND_OF_UNIT.values()))
    found = []
    for partition in site.partitions:
        claimed = partition["extras"].get("references", [])
        text = claim_fault(claimed, kinds, references.path(site.name))
        if text:
            line = line_of(site.path, partition["name"], "references")
            found.append(Defect(paths.shown(site.path), line, f"{partition['fullname']}: {text}"))
    return found


def claim_fault(claimed: Any, kinds: Sequence[str], file: Path) -> str | None:
    """What is wrong with one partition's extras.references, None if nothing is."""
    if not isinstance(claimed, list):
        return f"extras.references is {claimed!r}: a list is allowed, of {some(kinds)}"
    if unknown := [repr(kind) for kind in claimed if kind not in kinds]:
        return f"extras.references has {some(unknown)}: allowed are {some(kinds)}"
    if claimed and not file.exists():
        return f"it claims references of kind {some(claimed)}, and there is no {paths.shown(file)}"
    return None


def check_defects(sites: Iterable[Site], everywhere: bool) -> list[Defect]:
    """What no site runs, if these are all there are, what no tier selects, names without a case."""
    sites = [site for site in sites if site.checks]
    checks = {name: check for site in sites for name, check in site.checks.items()}
    tests = {name: [] for name in checks}
    for site in sites:
        for test in site.tests:
            tests[test["check"]].append(test)
    found = []
    for name, check in checks.items():
        wrong = [*unselected(tests[name]), *misnamed(name, check, tests[name])]
        if everywhere:
            wrong += unreachable(name, check, tests[name])
        found += [Defect(check["path"], check["line"], text) for text in wrong]
    for file in {file for site in sites for file in site.files} if everywhere else ():
        if not any(site.files.get(file) for site in sites):
            found.append(Defect(file, 1, "ReFrame finds no test in it"))
    return found


def unreachable(
    name: str, check: Mapping[str, Any], tests: Sequence[Mapping[str, Any]]
) -> Iterator[str]:
    """One sentence for a check, or for a value of what it is sorted by, that can run nowhere."""
    if not any(test["places"] for test in tests):
        systems, environs = check["valid_systems"], check["valid_prog_environs"]
        yield (
            f"no partition and environment of any site can run {name}: valid_systems of its first "
            f"test is {systems}, valid_prog_environs {environs}"
        )
        return
    for key in ("case", "layout", "method"):
        for value in dict.fromkeys(test[key] for test in tests):
            if not any(test["places"] for test in tests if test[key] == value):
                yield f"no partition and environment of any site can run {key} {value} of {name}"


def unselected(tests: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """One sentence for each case and layout that no tier selects."""
    left_out = [test for test in tests if test["places"] and not set(TIERS) & set(test["tags"])]
    for check, case, layout in dict.fromkeys(
        (test["check"], test["case"], test["layout"]) for test in left_out
    ):
        words = [check, case, layout]
        yield f"no tier ({', '.join(TIERS)}) selects {' '.join(word for word in words if word)}"


def misnamed(
    name: str, check: Mapping[str, Any], tests: Sequence[Mapping[str, Any]]
) -> Iterator[str]:
    """One sentence for each name in `tiers` and `inapplicable` that the check does not have."""
    named = [
        ("tiers", key, value)
        for wanted in check["tiers"].values()
        for key, values in wanted.items()
        for value in values
    ]
    named += [("tiers", "tier", tier) for tier in check["tiers"]]
    for method, names in check["inapplicable"].items():
        named.append(("inapplicable", "method", method))
        named += [("inapplicable", "layout", layout) for layout in names]
    for where, key, value in dict.fromkeys(named):
        there = list(TIERS if key == "tier" else dict.fromkeys(test[key] for test in tests))
        if value not in there and not of_family(value, there):
            yield f"{where} of {name} names {key} {value}: there are {some(there)}"
