"""Finds defects of the partitions of a site, and of checks."""

import difflib
import re
import string
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any

from bisection.core import paths, reference_files, topology
from bisection.core.format import some
from bisection.core.grouping import grouped
from bisection.core.reference_files import is_numbered_as
from bisection.core.units import KINDS
from bisection.core.verdicts import TIERS
from bisection.kernels.layouts import BUFFERS
from bisection.sites.site_files import Defect, Site, line_of

FIELDS = ("nodes", "ranks", "ranks_per_node", "threads")

Facts = Mapping[str, Any]  # of a partition, a check or a test, as load_process.py reports them
Placed = Iterator[tuple[str, str]]  # key of the partition in the site file, what is wrong


def is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def is_text(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def is_list(value: Any) -> bool:
    return isinstance(value, list)


def is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def is_march(value: Any) -> bool:
    """True if it is a processor, but native, which is that of the host that builds."""
    return isinstance(value, str) and re.fullmatch(r"(?!native$)[\w.+-]+", value) is not None


def is_scratch(value: Any) -> bool:
    """True if it is a folder's path, or a list of them."""
    folders = value if isinstance(value, list) else [value]
    return all(isinstance(each, str) and re.fullmatch(r"/[\w./-]*", each) for each in folders)


def is_buffers(value: Any) -> bool:
    return isinstance(value, list) and {*map(str, value)} <= {*BUFFERS}


def is_order(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch(r"\d+(,\d+)*", value) is not None


# The extras of a partition: whether a value may be one's, and what is allowed.
EXTRAS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "nodes": (is_count, "a whole number above 0 is allowed"),
    "max_time": (is_count, "a whole number of seconds above 0 is allowed"),
    "march": (
        is_march,
        "a processor is allowed, as the compilers' option -march names it, but not native, "
        "which is the processor of the host that builds",
    ),
    "binding": (is_list, "a list of launcher options is allowed"),
    "granted": (is_text, "a text is allowed, such as 1 of 2: CPU quota 0.5"),
    "references": (is_list, "a list is allowed, of ratio, time"),
    "network": (is_names, "a list is allowed, of adapters such as mlx5_0"),
    "buffers": (is_buffers, f"a list is allowed, of {', '.join(BUFFERS)}"),
    "device_ffts": (lambda value: isinstance(value, bool), "True or False is allowed"),
    "device_order": (is_order, "a text is allowed, of numbers of devices such as 2,3,0,1"),
    "topology": (is_text, "the path of a file is allowed"),
    "scratch": (
        is_scratch,
        "a folder's absolute path without blanks is allowed, or a list of them",
    ),
}
NOWHERE = "no partition and environment of any site can run"


def site_defects(site: Site) -> Iterator[Defect]:
    """Yields the defects of a site file: why it does not load, then those of its partitions beyond
    ReFrame's own schema."""
    yield from site.defects
    used, can_run = {case["$partition"] for case in site.cases}, usable(site)
    for partition in site.partitions:
        if can_run and partition not in can_run:
            line = line_of(site.path, partition["name"], "environs")
            text = f"{partition['fullname']}: no check runs: {no_kernels(partition)}"
            yield Defect.of(site.path, line, text, is_note=True)
            continue
        wrong = [*partition_faults(partition, site.environs), *claim_faults(site, partition)]
        if site.checks and partition["fullname"] not in used:
            lack = f"no check can run: {no_kernels(partition)}"
            wrong.append(("environs", f"{partition['fullname']}: {lack}"))
        yield from in_site_file(site, partition, wrong)


def usable(site: Site) -> list[dict[str, Any]]:
    """The partitions with an environment that builds kernels. A site's own ReFrame configuration
    may have others."""

    def builds(environ: str) -> bool:
        return "kernels" in site.environs[environ]["features"]

    return [part for part in site.partitions if any(map(builds, part["environs"]))]


def no_kernels(partition: Facts) -> str:
    return f"{some(partition['environs'])} lack the feature kernels"


def in_site_file(
    site: Site, partition: Facts, wrong: Iterable[tuple[str, str]]
) -> Iterator[Defect]:
    """Yields the defects of a partition, with file and line; each of `wrong` has the key of the
    partition in the site file, and what is wrong with it."""
    for key, text in wrong:
        yield Defect.of(site.path, line_of(site.path, partition["name"], key), text)


def partition_faults(partition: Facts, environs: Facts) -> Placed:
    """All in a partition or its environments by which no launch could be built or placed."""
    name = partition["fullname"]
    if not partition["cores"] and not partition["detected"]:
        needs = "processor needs num_cpus, num_cpus_per_core"
        yield "processor", f"{name}: cores unknown: {needs}"
    of_environs = [environs[environ]["extras"] for environ in partition["environs"]]
    for extra, value in chain.from_iterable(map(dict.items, [partition["extras"], *of_environs])):
        near = difflib.get_close_matches(extra, EXTRAS, n=1, cutoff=0.8)
        if extra in EXTRAS and not EXTRAS[extra][0](value):
            yield extra, f"{name}: extras.{extra} is {value!r}: {EXTRAS[extra][1]}"
        elif find := {"topology": topology_faults, "binding": binding_faults}.get(extra):
            yield from ((extra, fault) for fault in find(name, value))
        elif extra not in EXTRAS and near:
            unknown = f"{name}: extras.{extra} is not known, and would not be read"
            yield extra, f"{unknown}: is it {near[0]}?"


def topology_faults(partition: str, file: str) -> Iterator[str]:
    """Yields why the file of a partition's switches cannot be used."""
    try:
        topology.parse(topology.file_of(file).read_text())
    except (OSError, UnicodeDecodeError, topology.TopologyError) as error:
        why = getattr(error, "strerror", None) or str(error)
        yield f"{partition}: extras.topology, {file}: {why}"


def binding_faults(partition: str, templates: Iterable[Any]) -> Iterator[str]:
    """Yields the defects by which layouts.bindings would reject launcher options."""
    for template in templates:
        has = f"{partition}: extras.binding has"
        try:
            fields = [field for _, field, _, _ in string.Formatter().parse(template)]
        except (TypeError, ValueError) as error:
            yield f"{has} {template!r}: {error}"
            continue
        for field in dict.fromkeys(fields):
            if field is not None and field not in FIELDS:
                allowed = ", ".join(f"{{{name}}}" for name in FIELDS)
                yield f"{has} {{{field}}} in {template!r}: allowed are {allowed}"


def claim_faults(site: Site, partition: Facts) -> Placed:
    """Yields the defects of a partition's list in extras.references."""
    claimed, file = partition["extras"].get("references", []), reference_files.path(site.name)
    name = partition["fullname"]
    if not isinstance(claimed, list):
        return
    if unknown := [repr(kind) for kind in claimed if kind not in KINDS]:
        has = f"{name}: extras.references has {some(unknown)}"
        yield "references", f"{has}: allowed are {some(KINDS)}"
    elif claimed and not file.exists():
        claim = f"{name} claims references of kind {some(claimed)}"
        yield "references", f"{claim}, and there is no {paths.shown(file)}"


def check_defects(sites: Iterable[Site], everywhere: bool) -> Iterator[Defect]:
    """Yields the defects of checks by the sites that run them; those that do not load are passed
    over. Where these are all sites (everywhere), what none of them runs is a defect."""
    sites = [site for site in sites if site.checks]
    checks = {name: check for site in sites for name, check in site.checks.items()}
    tests = grouped((test for site in sites for test in site.tests), itemgetter("check"))
    for name, check in checks.items():
        of_check = tests.get(name, [])
        wrong = [*unselected(of_check), *misnamed(name, check, of_check)]
        if everywhere:
            wrong += unreachable(name, check, of_check)
        yield from (Defect(check["path"], check["line"], text) for text in wrong)
    for file in {file for site in sites for file in site.files} if everywhere else ():
        if not any(site.files.get(file) for site in sites):
            yield Defect(file, 1, "ReFrame finds no test in it")


def unreachable(name: str, check: Facts, tests: Sequence[Facts]) -> Iterator[str]:
    """A check, or values of what it is sorted by, that can run nowhere."""
    if not any(test["places"] for test in tests):
        asks = f"valid_systems of its first test is {check['valid_systems']}"
        asks += f", valid_prog_environs {check['valid_prog_environs']}"
        yield f"{NOWHERE} {name}: {asks}"
        return
    for key in ("case", "layout", "method"):
        for value in dict.fromkeys(test[key] for test in tests):
            if not any(test["places"] for test in tests if test[key] == value):
                yield f"{NOWHERE} {key} {value} of {name}"


def unselected(tests: Sequence[Facts]) -> Iterator[str]:
    left_out = [test for test in tests if test["places"] and not set(TIERS) & set(test["tags"])]
    for words in dict.fromkeys((test["check"], test["case"], test["layout"]) for test in left_out):
        yield f"no tier ({some(TIERS)}) selects {' '.join(filter(None, words))}"


def misnamed(name: str, check: Facts, tests: Sequence[Facts]) -> Iterator[str]:
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
            there = f"there are {some(known)}"
            yield f"{variable} of {name} names {key} {value}: {there}"
