"""Finds defects of the partitions of a site, and of checks."""

import difflib
import re
import string
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from bisection.core import paths, topology
from bisection.core.reasons import Code, Reason
from bisection.core.reasons.files import EXTRAS
from bisection.core.references import is_numbered_as
from bisection.core.units import KINDS
from bisection.core.verdicts import TIERS
from bisection.rfm import references, switches
from bisection.sites.site import Defect, Site, line_of

FIELDS = ("nodes", "ranks", "ranks_per_node", "threads")

Facts = Mapping[str, Any]  # of a partition, a check or a test, as the probe reports them
Placed = Iterator[tuple[str, Reason]]  # key of the partition in the site file, what is wrong


def is_count(value: Any) -> bool:
    """True if it is a whole number above zero."""
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def site_defects(site: Site) -> list[Defect]:
    """Returns what is wrong with a site's partitions, beyond ReFrame's own schema."""
    defects = []
    used = {case["$partition"] for case in site.cases}
    for partition in site.partitions:
        wrong = [*partition_faults(partition), *claim_faults(site, partition)]
        if site.checks and partition["fullname"] not in used:
            idle = {"partition": partition["fullname"], "environs": partition["environs"]}
            wrong.append(("environs", Code.PARTITION_IDLE(**idle)))
        defects += in_site_file(site, partition, wrong)
    return defects


def in_site_file(
    site: Site, partition: Facts, wrong: Iterable[tuple[str, Reason]]
) -> Iterator[Defect]:
    """Yields what is wrong with a partition, with file and line.

    Args:
        site: the site.
        partition: the partition.
        wrong: keys of the partition in the site file, each with what is wrong there.
    """
    for key, reason in wrong:
        line = line_of(site.path, partition["name"], key)
        yield Defect.of(site.path, line, reason.code, **reason.values)


def partition_faults(partition: Facts) -> Placed:
    """Everything in a partition by which no launch could be built for it, or placed."""
    extras, name = partition["extras"], partition["fullname"]
    if not partition["cores"] and not partition["detected"]:
        yield "processor", Code.CORES_UNKNOWN(partition=name)
    if not is_count(nodes := extras.get("nodes", 1)):
        yield "nodes", Code.EXTRA_VALUE(partition=name, name="nodes", value=repr(nodes))
    march = extras.get("march", "x86-64")
    # "native" is the processor of the host that builds, which is another one.
    if not isinstance(march, str) or not re.fullmatch(r"[\w.+-]+", march) or march == "native":
        yield "march", Code.EXTRA_VALUE(partition=name, name="march", value=repr(march))
    if not is_count(limit := extras.get("max_time", 1)):
        yield "max_time", Code.EXTRA_VALUE(partition=name, name="max_time", value=repr(limit))
    network = extras.get("network", [])
    if not isinstance(network, list) or not all(isinstance(part, str) for part in network):
        yield "network", Code.EXTRA_VALUE(partition=name, name="network", value=repr(network))
    if reason := topology_fault(name, extras.get("topology")):
        yield "topology", reason
    for reason in binding_faults(name, extras.get("binding", [])):
        yield "binding", reason
    for extra in extras:
        near = difflib.get_close_matches(extra, EXTRAS, n=1, cutoff=0.8)
        if extra not in EXTRAS and near:
            yield extra, Code.EXTRA_UNKNOWN(partition=name, name=extra, near=near[0])


def topology_fault(partition: str, file: Any) -> Reason | None:
    """Returns why the file of a partition's switches cannot be used."""
    if file is None:
        return None
    if not isinstance(file, str) or not file:
        return Code.EXTRA_VALUE(partition=partition, name="topology", value=repr(file))
    try:
        topology.parse(switches.file_of(file).read_text())
    except (OSError, UnicodeDecodeError, topology.TopologyError) as error:
        why = getattr(error, "strerror", None) or str(error)
        return Code.TOPOLOGY_FILE(partition=partition, file=file, error=why)
    return None


def binding_faults(partition: str, templates: Any) -> Iterator[Reason]:
    """Yields what layouts.bindings would refuse of a partition's launcher options."""
    if not isinstance(templates, list):
        yield Code.EXTRA_VALUE(partition=partition, name="binding", value=repr(templates))
        return
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
    """What is wrong with a partition's extras.references."""
    claimed, file = partition["extras"].get("references", []), references.path(site.name)
    at = {"partition": partition["fullname"]}
    if not isinstance(claimed, list):
        yield "references", Code.EXTRA_VALUE(**at, name="references", value=repr(claimed))
    elif unknown := [repr(kind) for kind in claimed if kind not in KINDS]:
        yield "references", Code.CLAIM_UNKNOWN(**at, kinds=unknown, allowed=KINDS)
    elif claimed and not file.exists():
        yield "references", Code.NO_REFERENCE_FILE(**at, file=paths.shown(file), kinds=claimed)


def check_defects(sites: Iterable[Site], everywhere: bool) -> list[Defect]:
    """Returns what is wrong with checks.

    Args:
        sites: the sites that run them; those that do not load are passed over.
        everywhere: whether these are all sites: then what none of them runs is a defect.
    """
    sites = [site for site in sites if site.checks]
    checks = {name: check for site in sites for name, check in site.checks.items()}
    tests = {name: [] for name in checks}
    for site in sites:
        for test in site.tests:
            tests[test["check"]].append(test)
    defects = []
    for name, check in checks.items():
        wrong = [*unselected(tests[name]), *misnamed(name, check, tests[name])]
        if everywhere:
            wrong += unreachable(name, check, tests[name])
        defects += [Defect(check["path"], check["line"], reason) for reason in wrong]
    for file in {file for site in sites for file in site.files} if everywhere else ():
        if not any(site.files.get(file) for site in sites):
            defects.append(Defect(file, 1, Code.FILE_WITHOUT_TEST()))
    return defects


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
    """Each case and layout that no tier selects."""
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
