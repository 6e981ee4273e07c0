"""Finds defects of the partitions of a site, and of checks."""

import difflib
import re
import string
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any

from bisection.core import paths, references, topology
from bisection.core.grouping import grouped
from bisection.core.reasons import Code, Reason
from bisection.core.reasons.files import EXTRAS
from bisection.core.references import is_numbered_as
from bisection.core.units import KINDS
from bisection.core.verdicts import TIERS
from bisection.sites.site import Defect, Site, line_of

FIELDS = ("nodes", "ranks", "ranks_per_node", "threads")

Facts = Mapping[str, Any]  # of a partition, a check or a test, as the probe reports them
Placed = Iterator[tuple[str, Reason]]  # key of the partition in the site file, reason


def is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def is_text(value: Any) -> bool:
    return isinstance(value, str) and value != ""


# Values that extras of a partition may have.
ALLOWED: dict[str, Callable[[Any], bool]] = {
    "nodes": is_count,
    # native is the processor of the host that builds, which is another.
    "march": lambda v: isinstance(v, str) and re.fullmatch(r"(?!native$)[\w.+-]+", v) is not None,
    "max_time": is_count,
    "granted": is_text,
    "network": lambda v: isinstance(v, list) and all(isinstance(part, str) for part in v),
    "topology": is_text,
    "scratch": lambda value: all(
        isinstance(folder, str) and re.fullmatch(r"/[\w./-]*", folder)
        for folder in (value if isinstance(value, list) else [value])
    ),
    "binding": lambda value: isinstance(value, list),
    "references": lambda value: isinstance(value, list),
}


def site_defects(site: Site) -> Iterator[Defect]:
    """Yields the defects of a site's partitions, beyond ReFrame's own schema."""
    used = {case["$partition"] for case in site.cases}
    for partition in site.partitions:
        wrong = [*partition_faults(partition, site.environs), *claim_faults(site, partition)]
        if site.checks and partition["fullname"] not in used:
            idle = {"partition": partition["fullname"], "environs": partition["environs"]}
            wrong.append(("environs", Code.PARTITION_IDLE(**idle)))
        yield from in_site_file(site, partition, wrong)


def in_site_file(
    site: Site, partition: Facts, wrong: Iterable[tuple[str, Reason]]
) -> Iterator[Defect]:
    """Yields the defects of a partition, with file and line.

    Args:
        site: the site.
        partition: the partition.
        wrong: keys of the partition in the site file, each with a reason.
    """
    for key, reason in wrong:
        yield Defect.of(site.path, line_of(site.path, partition["name"], key), reason)


def partition_faults(partition: Facts, environs: Facts) -> Placed:
    """All in a partition or its environments by which no launch could be built or placed."""
    name = partition["fullname"]
    if not partition["cores"] and not partition["detected"]:
        yield "processor", Code.CORES_UNKNOWN(partition=name)
    of_environs = [environs[environ]["extras"] for environ in partition["environs"]]
    for extra, value in chain.from_iterable(map(dict.items, [partition["extras"], *of_environs])):
        near = difflib.get_close_matches(extra, EXTRAS, n=1, cutoff=0.8)
        if extra in ALLOWED and not ALLOWED[extra](value):
            yield extra, Code.EXTRA_VALUE(partition=name, name=extra, value=repr(value))
        elif find := {"topology": topology_faults, "binding": binding_faults}.get(extra):
            yield from ((extra, reason) for reason in find(name, value))
        elif extra not in EXTRAS and near:
            yield extra, Code.EXTRA_UNKNOWN(partition=name, name=extra, near=near[0])


def topology_faults(partition: str, file: str) -> Iterator[Reason]:
    """Yields why the file of a partition's switches cannot be used."""
    try:
        topology.parse(topology.file_of(file).read_text())
    except (OSError, UnicodeDecodeError, topology.TopologyError) as error:
        why = getattr(error, "strerror", None) or str(error)
        yield Code.TOPOLOGY_FILE(partition=partition, file=file, error=why)


def binding_faults(partition: str, templates: Iterable[Any]) -> Iterator[Reason]:
    """Yields the defects by which layouts.bindings would reject launcher options."""
    for template in templates:
        at = {"partition": partition, "template": repr(template)}
        try:
            fields = [field for _, field, _, _ in string.Formatter().parse(template)]
        except (TypeError, ValueError) as error:
            yield Code.BINDING_FORMAT(**at, error=str(error))
            continue
        for field in dict.fromkeys(fields):
            if field is not None and field not in FIELDS:
                yield Code.BINDING_FIELD(**at, field=field, fields=FIELDS)


def claim_faults(site: Site, partition: Facts) -> Placed:
    """Yields the defects of a partition's list in extras.references."""
    claimed, file = partition["extras"].get("references", []), references.path(site.name)
    at = {"partition": partition["fullname"]}
    if not isinstance(claimed, list):
        return
    if unknown := [repr(kind) for kind in claimed if kind not in KINDS]:
        yield "references", Code.CLAIM_UNKNOWN(**at, kinds=unknown, allowed=KINDS)
    elif claimed and not file.exists():
        yield "references", Code.NO_REFERENCE_FILE(**at, file=paths.shown(file), kinds=claimed)


def check_defects(sites: Iterable[Site], everywhere: bool) -> Iterator[Defect]:
    """Yields the defects of checks.

    Args:
        sites: the sites that run them; those that do not load are passed over.
        everywhere: whether these are all sites: then what none of them runs is a defect.
    """
    sites = [site for site in sites if site.checks]
    checks = {name: check for site in sites for name, check in site.checks.items()}
    tests = grouped((test for site in sites for test in site.tests), itemgetter("check"))
    for name, check in checks.items():
        of_check = tests.get(name, [])
        wrong = [*unselected(of_check), *misnamed(name, check, of_check)]
        if everywhere:
            wrong += unreachable(name, check, of_check)
        yield from (Defect(check["path"], check["line"], reason) for reason in wrong)
    for file in {file for site in sites for file in site.files} if everywhere else ():
        if not any(site.files.get(file) for site in sites):
            yield Defect(file, 1, Code.FILE_WITHOUT_TEST())


def unreachable(name: str, check: Facts, tests: Sequence[Facts]) -> Iterator[Reason]:
    """A check, or values of what it is sorted by, that can run nowhere."""
    if not any(test["places"] for test in tests):
        systems, environs = check["valid_systems"], check["valid_prog_environs"]
        yield Code.CHECK_NOWHERE(check=name, systems=systems, environs=environs)
        return
    for key in ("case", "layout", "method"):
        for value in dict.fromkeys(test[key] for test in tests):
            if not any(test["places"] for test in tests if test[key] == value):
                yield Code.VALUE_NOWHERE(check=name, key=key, value=value)


def unselected(tests: Sequence[Facts]) -> Iterator[Reason]:
    left_out = [test for test in tests if test["places"] and not set(TIERS) & set(test["tags"])]
    for words in dict.fromkeys((test["check"], test["case"], test["layout"]) for test in left_out):
        yield Code.NO_TIER(test=" ".join(filter(None, words)), tiers=list(TIERS))


def misnamed(name: str, check: Facts, tests: Sequence[Facts]) -> Iterator[Reason]:
    """Each name in `tiers` and `inapplicable` that the check does not have."""
    named = [("tiers", "tier", tier) for tier in check["tiers"]]
    for wanted in check["tiers"].values():
        named += [("tiers", key, value) for key, values in wanted.items() for value in values]
    for method, layouts in check["inapplicable"].items():
        named.append(("inapplicable", "method", method))
        named += [("inapplicable", "layout", layout) for layout in layouts]
    for variable, key, value in dict.fromkeys(named):
        known = list(TIERS if key == "tier" else dict.fromkeys(test[key] for test in tests))
        if value not in known and not is_numbered_as(value, known):
            where = {"check": name, "variable": variable, "key": key}
            yield Code.NAME_UNKNOWN(**where, value=value, known=known)
