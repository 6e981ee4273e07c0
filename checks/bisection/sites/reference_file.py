"""What is wrong with a reference file, line by line."""

import dataclasses
import difflib
import functools
import re
from dataclasses import dataclass
from itertools import product

import yaml

from bisection.core import paths
from bisection.core.format import one_line, plural, some
from bisection.rfm import references
from bisection.rfm.references import KIND_OF_UNIT
from bisection.sites.reference_lookup import choose, family, family_name, is_index, lookup, matches
from bisection.sites.rules import claims
from bisection.sites.site import Defect, Site, line_of, load, reference_files, site_names
from bisection.sites.stored import read_database


def examine_references(system=None):
    """The defects of a system's reference file, of all of them if None, as a list of Defect."""
    names = site_names() if system is None else [name for name in site_names() if name == system]
    sites = load(names)
    _, recorded = read_database(paths.home() / "reframe" / "results.db")
    found = [defect for site in sites.values() for defect in claims(site)]
    found += [defect for site in sites.values() for defect in site.defects if not site.checks]
    for file in reference_files(system):
        found += reference_defects(file, sites.get(file.stem), recorded)
    return sorted(set(found))


PROVENANCE = ("date", "sessions", "lock")
# Units by the names that kernels give their metrics; a session that recorded one knows better.
UNITS = (
    (r"ratio_.*", "ratio"),
    (r".*_share(_.*)?", "share"),
    (r"time(_.*)?", "s"),
    (r"atom_steps", "atom-steps/s"),
    (r"bytes(_.*)?", "B"),
    (r"messages", "messages"),
    (r"groups", "groups"),
)


def unit_of(metric, recorded=None):
    """The unit of a metric; None if its name does not tell."""
    if recorded and metric in recorded:
        return recorded[metric]
    return next((unit for name, unit in UNITS if re.fullmatch(name, metric)), None)


def reference_defects(file, site, recorded=None):
    """The defects of one reference file. `site` is the Site of its name, None if there is none;
    `recorded` maps a check to the metrics, with units, that stored sessions have of it."""
    name = paths.shown(file)
    if site is None:
        sites = ", ".join(site_names())
        return [
            Defect(name, 1, f"there is no site-configs/{file.stem}.py: site-configs/ has {sites}"),
            *Tree(file).examine(None, {}),
        ]
    return Tree(file).examine(site, recorded or {})


@dataclass(frozen=True)
class Branch:
    """A part of a check's references: what is above it, and the test cases that come to it.

    `check` is None where nothing is known of the check, `cases` where nothing is of the cases.
    """

    name: str
    check: dict | None
    site: Site | None
    recorded: dict[str, str]
    index: tuple[str, ...]  # of the levels that are left
    cases: list[dict] | None
    place: tuple[str, ...] = ()

    @property
    def whose(self):
        return self.name + (f" for {', '.join(self.place)}" if self.place else "")

    def under(self, key, values):
        """The branch under a key that is chosen for `values`; None if they are not known."""
        name, cases = self.index[0], self.cases
        if cases is not None and values is not None and name != "geometry":
            cases = [case for case in cases if case[name] in values] or None
        place = (*self.place, f"{name.removeprefix('$')} {key}")
        return dataclasses.replace(self, index=self.index[1:], cases=cases, place=place)

    def values(self, keys):
        """All values that the first attribute of the index can have, None if that is not known.

        Geometries are any, and numbered names of any number: they follow from the machine.
        """
        name = self.index[0]
        if name == "geometry":
            return geometries(frozenset(n for key in keys for n in re.findall(r"\d+", str(key))))
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


class Tree:
    """A reference file as YAML nodes, which know their lines."""

    def __init__(self, file):
        self.name, self.file = paths.shown(file), file
        self.found, self.content, self.loader = [], None, None

    def add(self, node, text):
        line = node if isinstance(node, int) else node.start_mark.line + 1
        self.found.append(Defect(self.name, line, text))

    def examine(self, site, recorded):
        """All defects. Without a Site that has loaded, those that need no checks to be seen."""
        root = self.parse()
        if root is None:
            return self.found
        known = site.checks if site else {}
        entries = self.entries(root)
        if "provenance" not in [key for key, _, _ in entries]:
            self.add(1, f"there is no provenance, which tells {', '.join(PROVENANCE)}")
        for key, key_node, node in entries:
            if key == "provenance":
                self.provenance(key_node, node)
            elif known and isinstance(key, str) and key not in known:
                self.add(key_node, f"there is no check {key}: there are {some(known)}")
            else:
                cases = [case for case in site.cases if case["check"] == key] if known else []
                mine = recorded.get(key, {})
                branch = Branch(str(key), known.get(key), site, mine, (), cases or None)
                self.check(key_node, node, branch)
        if known:
            self.missing(site, recorded, {key: key_node for key, key_node, _ in entries})
        return self.found

    # -- YAML --

    def parse(self):
        """The root node, with doubtful keys told; None if the file cannot be used at all."""
        try:
            self.loader = yaml.SafeLoader(self.file.read_text())
            root = self.loader.get_single_node()
            if isinstance(root, yaml.MappingNode):
                self.keys(root, set())
                self.content = self.loader.construct_document(root)
                return root
            self.add(1, "is not a mapping of checks")
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            problem = getattr(error, "problem", None) or error
            self.add(mark.line + 1 if mark else 1, f"is not YAML: {one_line(problem)}")
        except (OSError, ValueError, TypeError, RecursionError) as error:
            self.add(1, f"cannot be read: {one_line(error)}")
        return None

    def keys(self, node, seen):
        """Tells keys that are there twice, and words that YAML does not take for text."""
        if id(node) in seen or isinstance(node, yaml.ScalarNode):
            return
        seen.add(id(node))
        pairs = node.value if isinstance(node, yaml.MappingNode) else []
        for part in [value for _, value in pairs] or node.value:
            self.keys(part, seen)
        firsts = {}
        for key, _ in pairs:
            kind = key.tag.rpartition(":")[2]
            if kind in ("bool", "null"):
                self.add(key, f"key {key.value or 'without a name'} is {kind} in YAML: quote it")
            first = firsts.setdefault((kind, str(key.value)), key)
            if first is not key and kind != "merge":
                again = f"key {key.value} is there twice, first in line {first.start_mark.line + 1}"
                self.add(key, f"{again}: only the last would count")

    def entries(self, node):
        """(key, key node, value node) of a mapping, as PyYAML constructs it."""
        found = {self.value(key): (key, value) for key, value in node.value}
        return [(key, *nodes) for key, nodes in found.items()]

    def value(self, node):
        return self.loader.construct_object(node, deep=True)

    # -- what it says --

    def provenance(self, key_node, node):
        told = self.value(node)
        if not isinstance(told, dict):
            self.add(key_node, f"provenance is not a mapping of {', '.join(PROVENANCE)}")
            return
        for name in PROVENANCE:
            if not told.get(name):
                self.add(key_node, f"provenance does not tell {name}")
        if told.get("sessions") and not isinstance(told["sessions"], list):
            self.add(key_node, f"provenance: sessions is {told['sessions']!r}, not a list")

    def check(self, key_node, node, branch):
        """One check's references."""
        if not isinstance(node, yaml.MappingNode):
            self.add(key_node, f"{branch.name} is not a mapping")
            return
        entries = self.entries(node)
        index = next((part for key, _, part in entries if key == "$index"), None)
        names = self.value(index) if index else None
        if not is_index(names):
            self.add(
                index or key_node,
                f"{branch.name} has no $index, a list of attributes: without it none of its "
                "references is found",
            )
            return
        for name in names:
            if text := index_fault(name, branch.check):
                self.add(index, f"$index of {branch.name} has {name}: {text}")
                return
        entries = [entry for entry in entries if entry[0] != "$index"]
        self.level(key_node, entries, dataclasses.replace(branch, index=tuple(names)))

    def level(self, parent, entries, branch):
        """The keys of one level, and what is under them."""
        if not entries:
            self.add(parent, f"there is nothing under {branch.whose}")
        keys = tuple(key for key, _, _ in entries)
        lines = {key: node.start_mark.line + 1 for key, node, _ in entries}
        values = branch.values(keys)
        for key, key_node, node in entries:
            mine = None
            if text := key_fault(key, values):
                self.add(key_node, text)
            elif values is not None:
                mine = self.reach(key, key_node, branch, values, lines)
            below = branch.under(key, mine)
            if not isinstance(node, yaml.MappingNode):
                under = f"a mapping of {' of '.join([*branch.index[1:], 'metrics'])}"
                self.add(node, f"{branch.whose}: under {key} must be {under}")
            elif below.index:
                self.level(key_node, self.entries(node), below)
            else:
                self.leaf(key_node, node, below)

    def reach(self, key, key_node, branch, values, lines):
        """The values for which ReFrame takes this key; tells if there are none, or too many."""
        name = branch.index[0].removeprefix("$")
        matched, mine = takes(tuple(lines), values)[key]
        more = [value for value in matched if value != key and not re.fullmatch(key, str(value))]
        if not matched:
            if name != "geometry":
                there = some(dict.fromkeys(map(family_name, values)))
                self.add(key_node, f"{key} is no {name} of {branch.whose}: there are {there}")
            elif not re.search(r"[^\w]", key) or re.search(r"(?<!\\)[A-Za-wyz]", key):
                self.add(
                    key_node, f"{key} is no geometry: those are [nodes x]ranks x threads, as in 2x1"
                )
        elif more:
            self.add(
                key_node,
                f"{key} also matches {some(more, 2)}, as ReFrame puts ^ and $ around the whole "
                f"of it: write ({key})",
            )
        elif not mine:
            first = next(one for one in lines if one != key and matches(one, matched[0]))
            text = f"{key} is never reached: {first} in line {lines[first]} comes first"
            self.add(key_node, text)
        return mine or None

    def leaf(self, key_node, node, branch):
        """The metrics of one place."""
        if not node.value:
            self.add(key_node, f"there is no reference of {branch.whose}")
        known = [*branch.check["metrics"], *branch.recorded] if branch.check else None
        for metric, metric_node, value in self.entries(node):
            if known is not None and metric not in known:
                near = difflib.get_close_matches(str(metric), known, n=3) or known
                there = some(dict.fromkeys(near), 6)
                self.add(metric_node, f"{metric} is no metric of {branch.name}: such are {there}")
            self.reference(metric, value, branch.recorded)

    def reference(self, metric, node, recorded):
        """One reference, also one that is known to fail: [$xfail, why, reference]."""
        parts = node.value if isinstance(node, yaml.SequenceNode) else []
        if parts and parts[0].value == "$xfail":
            node = parts[-1]
            parts = node.value if isinstance(node, yaml.SequenceNode) else []
        if not parts:
            self.add(node, f"{metric}: this is not [reference, lower bound, upper bound]")
            return
        odd = [part for part in parts[:3] if not number_like(self.value(part))]
        for part in odd:
            self.add(part, f"{metric}: {part_text(part)}, in place of a number")
        values = [self.value(part) for part in parts]
        for fault in [] if odd else references.faults(values):
            self.add(node, f"{metric}: {fault}")
        unit = unit_of(str(metric), recorded)
        if len(values) == 4 and unit and values[3] not in (None, unit):
            self.add(
                parts[3],
                f"{metric}: the unit is {values[3]}, but is measured in {unit}, and ReFrame does "
                "not convert",
            )

    def missing(self, site, recorded, nodes):
        """Tells what a partition claims to have references of, and a test case would not find."""
        lacking = {}
        for case in site.cases:
            partition = next(p for p in site.partitions if p["fullname"] == case["$partition"])
            claimed = partition["extras"].get("references", [])
            names = lookup(self.content.get(case["check"]), case, site.checks[case["check"]])
            if not isinstance(claimed, list) or names is None or case["geometry"] is None:
                continue
            units = {name: unit_of(name, recorded.get(case["check"])) for name in case["required"]}
            kinds = {name: KIND_OF_UNIT.get(unit) for name, unit in units.items()}
            without = [name for name in units if kinds[name] in claimed and name not in names]
            if without:
                lacking.setdefault((case["check"], partition["name"]), []).append((case, without))
        for (check, partition), cases in lacking.items():
            self.lack(site, check, partition, cases, nodes)

    def lack(self, site, check, partition, cases, nodes):
        case, metrics = cases[0]
        where = f"{site.name}:{partition}"
        if check not in nodes:
            line = line_of(site.path, partition, "references")
            text = f"{where}: it claims references, and {self.name} has none of {check}"
            self.found.append(Defect(paths.shown(site.path), line, text))
            return
        words = [f"{name} {case[name]}" for name in ("geometry", "case", "method") if case[name]]
        more = f", nor for {plural(len(cases) - 1, 'other test case')}" if cases[1:] else ""
        text = f"{where} claims references, and there is none of {check} for {some(metrics, 3)} of "
        self.add(nodes[check], f"{text}{', '.join(words)}{more}")


def index_fault(name, check):
    """What is wrong with an attribute in $index, None if nothing is."""
    from reframe.core.systems import ProcessorInfo

    if name in ("$system", "$partition", "$environ"):
        return None
    owner, _, key = name.rpartition(".")
    if owner == "$processor":
        return None if hasattr(ProcessorInfo({}), key) else f"a processor has no {key}"
    if name.startswith("$"):
        known = "$system, $partition, $environ, $processor.NAME"
        return None if name.startswith("$dev.") else f"ReFrame knows {known}"
    if check is None or name in check["attributes"]:
        return None
    return f"the check has no such attribute; it has {some(check['settled'])}, geometry"


def key_fault(key, values):
    """Why a key of a level can match nothing at all, None if it can."""
    if isinstance(key, str):
        try:
            re.compile(f"^{key}$")
        except re.error as error:
            return f"{key} is no regular expression: {error}"
        return None
    # That such a key is one is told where the file is read.
    if key is None or isinstance(key, bool) or values is None:
        return None
    if all(isinstance(value, str) for value in values):
        return f"key {key} is no text in YAML, and what it stands for is: quote it"
    return None


@functools.lru_cache(maxsize=256)
def takes(keys, values):
    """key -> (the values that it matches, those of them for which it is chosen)."""
    found = {key: ([], []) for key in keys}
    for value in values:
        for key in keys:
            if matches(key, value):
                found[key][0].append(value)
        chosen = choose(keys, value)
        if chosen is not None:
            found[chosen][1].append(value)
    return found


@functools.lru_cache(maxsize=64)
def geometries(numbers):
    """Geometries of all sorts, as text, with `numbers` (as text) among theirs."""
    own = {int(number) for number in numbers if 0 < int(number) < 1 << 20}
    counts = sorted({*range(1, 33), 36, 40, 48, 64, 72, 96, 128, 192, 256, *own})
    nodes = sorted({2, 3, 4, 8, 10, 16, 64, 100, *own})
    single = [f"{ranks}x{threads}" for ranks, threads in product(counts, counts)]
    few = sorted({1, 2, 3, 4, 8, 16, 24, 32, 48, 64, 128, *own})
    return tuple(single + [f"{n}x{r}x{t}" for n, r, t in product(nodes, few, few)])


def number_like(value):
    """Whether references.faults can tell what is wrong with a value."""
    if isinstance(value, int):
        return not isinstance(value, bool) and abs(value) < 10**300
    return value is None or isinstance(value, (str, float))


def part_text(node):
    kind = node.tag.rpartition(":")[2]
    return f"{node.value} is {kind} in YAML" if kind == "bool" else f"a YAML {kind}"
