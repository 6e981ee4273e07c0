"""`bisection doctor`: examines sites, checks, references, locks and stored results; runs none.

Each defect is one line, `path:line: what is wrong`. ReFrame tells most of them late, in a warning
beside exit code 0, or not at all: a check file that does not load vanishes, a key of a reference
file that matches nothing is passed over, of two equal keys the last counts.

Every site is loaded together with every check by ReFrame itself, in a process of its own (probe),
which hands back what it found as JSON: the rest compares data.
"""

import ast
import concurrent.futures
import contextlib
import dataclasses
import difflib
import functools
import gc
import importlib
import importlib.util
import json
import os
import re
import sqlite3
import string
import subprocess
import sys
import tempfile
import traceback
from dataclasses import dataclass, field
from itertools import product, zip_longest
from pathlib import Path
from types import SimpleNamespace

import yaml

from bisection import TIERS, references, spack
from bisection import layout as layouts

ROOT = Path(__file__).resolve().parents[2]
USAGE = 2
PATIENCE = 60  # seconds for a site file and all checks to load


@dataclass(frozen=True, order=True)
class Defect:
    """What is wrong, and where; line 1 where it concerns a file as a whole."""

    path: str
    line: int
    text: str

    def __str__(self):
        return f"{self.path}:{self.line}: {self.text}"


@dataclass
class Site:
    """A site file with all checks, as ReFrame loads them; `checks` is empty if it does not."""

    name: str
    path: Path
    partitions: list[dict] = field(default_factory=list)
    environs: dict[str, dict] = field(default_factory=dict)
    checks: dict[str, dict] = field(default_factory=dict)  # by class name
    files: dict[str, int] = field(default_factory=dict)  # check file -> its tests
    tests: list[dict] = field(default_factory=list)  # also those that can run nowhere here
    cases: list[dict] = field(default_factory=list)  # a test on a partition in an environment
    defects: list[Defect] = field(default_factory=list)


def add_commands(commands):
    doctor = commands.add_parser(
        "doctor",
        help="examine sites, checks, references, locks and stored results, offline",
        description="Runs no check and needs no network. Prints one line a defect. Exit code: 0 "
        "none, 1 defects, 2 usage.",
    )
    doctor.add_argument(
        "--system", metavar="NAME", help="only site-configs/NAME.py and what belongs to it"
    )
    doctor.set_defaults(act=act_doctor)


def act_doctor(options):
    known = site_names()
    if options.system is not None and options.system not in known:
        print(
            f"bisection doctor: error: --system {options.system}: unknown; site-configs/ has "
            f"{', '.join(known) or 'no site file'}",
            file=sys.stderr,
        )
        return USAGE
    try:
        return examine_house(known if options.system is None else [options.system], options.system)
    except OSError as error:  # no room for a temporary file, a folder that may not be read
        print(f"bisection doctor: error: {error}", file=sys.stderr)
        return USAGE


def examine_house(names, system):
    """Examines these sites and all that belongs to them, `system` None if they are all there are;
    prints what was found and returns the exit code."""
    stored, recorded = read_database(spack.home() / "reframe" / "results.db")
    sites = load(names)
    defects, notes = [*stored, *store_defects()], []
    for site in sites.values():
        defects += site.defects + site_defects(site)
        found, told = lock_findings(site)
        defects += found
        notes += told
    defects += check_defects(sites.values(), everywhere=system is None)
    files = reference_files(system)
    for file in files:
        defects += reference_defects(file, sites.get(file.stem), recorded)
    return tell(sorted(set(defects)), list(dict.fromkeys(notes)), sites, files)


def tell(defects, notes, sites, files):
    """Prints what was found; the exit code."""
    for line in [*defects, *(f"note: {note}" for note in notes)]:
        print(line)
    checks = len(list((ROOT / "checks").glob("*.py")))
    tests = sum(test["places"] > 0 for site in sites.values() for test in site.tests)
    seen = ", ".join(
        counted(number, what)
        for number, what in (
            (len(sites), "site file"),
            (checks, "check file"),
            (len(files), "reference file"),
            (tests, "test case"),
        )
    )
    if not defects:
        print(f"doctor: no defects ({seen})")
        return 0
    print(f"doctor: {counted(len(defects), 'defect')} in {seen}")
    return 1


def counted(number, what):
    return f"{number} {what}" + ("" if number == 1 else "s")


def examine_references(system=None):
    """The defects of a system's reference file, of all of them if None, as a list of Defect."""
    names = site_names() if system is None else [name for name in site_names() if name == system]
    sites = load(names)
    _, recorded = read_database(spack.home() / "reframe" / "results.db")
    found = [defect for site in sites.values() for defect in claims(site)]
    found += [defect for site in sites.values() for defect in site.defects if not site.checks]
    for file in reference_files(system):
        found += reference_defects(file, sites.get(file.stem), recorded)
    return sorted(set(found))


# ---- files and lines -----------------------------------------------------------------------------


def site_names():
    files = (ROOT / "site-configs").glob("*.py")
    return sorted(path.stem for path in files if path.stem != "common")


def reference_files(system=None):
    """The reference files there are: of all systems, or of one."""
    if system is not None:
        file = references.path(system)
        return [file] if file.exists() else []
    return sorted(references.path("any").parent.glob("*.yaml"))


def shown(path):
    """A path as one types it in the repository's root."""
    path = Path(path).absolute()
    return os.path.relpath(path, ROOT) if path.is_relative_to(ROOT) else str(path)


def line_of(path, *words):
    """The line of the last of `words` that is found in quotes, each looked for behind the one
    before it; 1 if none is."""
    try:
        text = Path(path).read_text(errors="replace")
    except OSError:
        return 1
    at = 0
    for word in words:
        if match := re.compile(rf"[\"']{re.escape(word)}[\"']").search(text, at):
            at = match.start()
    return text.count("\n", 0, at) + 1


def one_line(text, most=300):
    text = " ".join(str(text).split())
    return text if len(text) <= most else f"{text[:most]}..."


def some(names, most=12):
    """Names in a sentence, the first of many."""
    names = [str(name) for name in names]
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more if names else "none"


# ---- loading sites and checks --------------------------------------------------------------------


def load(names):
    """name -> Site, each loaded by ReFrame with all checks, one a core at a time."""
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return dict(zip(names, pool.map(load_site, names), strict=True))


def load_site(name):
    """The Site of one site file, by a process of its own: what it does there is no harm here."""
    site = Site(name, ROOT / "site-configs" / f"{name}.py")
    with tempfile.TemporaryDirectory(prefix="bisection-doctor-") as folder:
        output = Path(folder, "facts.json")
        job = {"root": str(ROOT), "system": name, "output": str(output)}
        job["attributes"] = indexed_attributes(references.path(name))
        program = "from bisection import doctor; doctor.probe()"
        code = "no exit code"
        try:
            code = subprocess.run(
                [sys.executable, "-c", program, json.dumps(job)],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": python_path()},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=PATIENCE,
            ).returncode
            facts = json.loads(output.read_text())
        except subprocess.TimeoutExpired:
            facts = failure(site, f"does not load within {PATIENCE} s")
        except (OSError, ValueError):
            facts = failure(site, f"does not load: the process that tried ended with {code}")
    site.defects = [Defect(*defect) for defect in facts.pop("defects")]
    for key, value in facts.items():
        setattr(site, key, value)
    return site


def failure(site, text):
    return {"defects": [(shown(site.path), 1, text)]}


def python_path():
    """This package must be found by the process, wherever this one found it."""
    mine = str(Path(__file__).resolve().parents[1])
    return os.pathsep.join(filter(None, [mine, os.environ.get("PYTHONPATH")]))


def indexed_attributes(file):
    """The names in all $index lists of a reference file; none if it cannot be read."""
    with contextlib.suppress(OSError, ValueError, yaml.YAMLError, RecursionError):
        content = yaml.safe_load(file.read_text())
        if isinstance(content, dict):
            lists = [entry.get("$index") for entry in content.values() if isinstance(entry, dict)]
            names = {name for names in lists if isinstance(names, list) for name in names}
            return sorted(name for name in names if isinstance(name, str))
    return []


def probe():
    """Loads one site file and all checks into this process, and writes what they are as JSON.

    The only argument is the job, as JSON: root, system, attributes (of tests, to be told) and
    output, the file to write.
    """
    global ROOT
    job = json.loads(sys.argv[1])
    ROOT = Path(job["root"])
    gc.disable()  # this process ends soon
    facts = {"defects": []}
    file = ROOT / "site-configs" / f"{job['system']}.py"
    try:
        runtime = start_runtime(file)
        facts |= site_facts(runtime)
        facts |= check_facts(runtime, job["attributes"], facts["defects"])
    except BaseException as error:  # of the site file: whatever it does is told
        facts["defects"].append(located(error, file))
    Path(job["output"]).write_text(json.dumps(facts, default=str))


def start_runtime(file):
    """ReFrame's runtime for a site file and the system of its name; raises what ReFrame does."""
    from reframe.core import config, runtime

    configuration = config.load_config(str(file))
    configuration.validate()
    # The site's own machine has its modules system, this one need not.
    configuration.add_sticky_option("systems/modules_system", "nomod")
    configuration.select_subconfig(file.stem)
    runtime.init_runtime(configuration)
    return runtime.runtime()


def located(error, file):
    """(path, line, text) of an error that a site or check file raised, or ReFrame because of it."""
    from jsonschema import ValidationError

    if isinstance(error.__cause__, ValidationError):
        return rejected(error.__cause__, file)
    path, line = file, None
    for frame in traceback.extract_tb(error.__traceback__):
        if Path(frame.filename).parent in (ROOT / "site-configs", ROOT / "checks"):
            path, line = frame.filename, frame.lineno
    if isinstance(error, SyntaxError):
        return shown(error.filename or path), error.lineno or 1, f"does not load: {error.msg}"
    text = f"{type(error).__name__}: {error}"
    if error.__cause__ is not None and str(error.__cause__) not in text:
        text += f": {error.__cause__}"
    if line is None:  # what ReFrame says has names in quotes: the last that the file has, too
        words = [word.rpartition(":")[2] for word in re.findall(r"'([^']+)'", text)]
        line = max((line_of(file, word) for word in words), default=1)
    return shown(path), line, f"does not load: {one_line(text)}"


def rejected(error, file):
    """(path, line, text) of what ReFrame's schema does not allow in a site file."""
    from jsonschema.exceptions import best_match

    error = best_match([error])
    at = [str(word) for word in error.absolute_path]
    # An object is too large to be found; the schema names the key that it should not have.
    inner = error.message if isinstance(error.instance, dict) else f"'{error.instance}'"
    names = [word for word in at if not word.isdigit()] + re.findall(r"'([^']+)'", inner)
    where = "/".join(at) or "the configuration"
    text = f"ReFrame rejects {where}: {one_line(error.message)}"
    return shown(file), line_of(file, *names), text


def site_facts(runtime):
    """What a runtime says of its partitions and their environments."""
    environs = {}
    for partition in runtime.system.partitions:
        for environ in partition.environs:
            environs[environ.name] = {"features": environ.features, "extras": environ.extras}
    return {
        "partitions": [partition_facts(runtime, one) for one in runtime.system.partitions],
        "environs": environs,
    }


def partition_facts(runtime, partition):
    """As ReFrame does before a run, a topology file that it has left is taken in."""
    from reframe.core.systems import ProcessorInfo

    detected = runtime.get_option("general/0/remote_detect")
    if not partition.processor.info:
        folder = f"{runtime.system.name}-{partition.name}"
        prefix = os.path.expandvars(runtime.get_option("general/0/topology_prefix"))
        with contextlib.suppress(OSError, ValueError):
            text = Path(prefix, folder, "processor.json").expanduser().read_text()
            partition._processor = ProcessorInfo(json.loads(text))
        kinds = (partition.scheduler.registered_name, partition.launcher_type.registered_name)
        detected = detected or kinds == ("local", "local")
    return {
        "name": partition.name,
        "fullname": partition.fullname,
        "cores": partition.processor.num_cores,
        "detected": bool(detected),
        "extras": partition.extras,
        "environs": [environ.name for environ in partition.environs],
    }


def check_facts(runtime, attributes, defects):
    """What the checks are on this runtime's system; what does not load is added to `defects`."""
    from reframe.core import logging, warnings
    from reframe.core.runtime import valid_sysenv_comb
    from reframe.frontend.loader import RegressionCheckLoader

    class Recorder(logging.LoggerAdapter):
        said = []

        def log(self, level, msg, *args, **kwargs):
            if level >= logging.VERBOSE:
                self.said.append((level >= logging.WARNING, str(msg)))

    # A third of the time would go into looking for whom to tell of deprecated variables.
    warnings.inspect = SimpleNamespace(stack=list)
    # ReFrame tells in warnings alone what it leaves out.
    logging._context_logger = recorder = Recorder()
    facts = {"files": {}, "checks": {}, "tests": [], "cases": []}
    loader = RegressionCheckLoader([str(ROOT / "checks")])
    for file in sorted((ROOT / "checks").glob("*.py")):
        recorder.said.clear()
        try:
            loaded = loader.load_from_file(str(file), force=True)
        except BaseException as error:  # for some, ReFrame would not run at all
            defects.append(located(error, file))
            facts["files"][shown(file)] = 1
            continue
        defects += skipped(file, recorder.said)
        tests = [test for test in loaded if not test.is_fixture()]
        facts["files"][shown(file)] = len(tests) + len(recorder.said)
        for test in tests:
            name = type(test).__name__
            if name not in facts["checks"]:
                facts["checks"][name] = class_facts(type(test), test, file)
            places = valid_sysenv_comb(test.valid_systems, test.valid_prog_environs)
            number = sum(map(len, places.values()))
            facts["tests"].append({**test_facts(test), "tags": sorted(test.tags), "places": number})
            for partition, environs in places.items():
                for environ in environs:
                    case = case_facts(test, runtime, partition, environ, attributes)
                    facts["cases"].append(case)
    return facts


def skipped(file, said):
    """(path, line, text) of each warning; the traceback that follows it tells the line."""
    found = []
    for index, (warns, text) in enumerate(said):
        if not warns:
            continue
        after = said[index + 1][1] if index + 1 < len(said) else ""
        lines = re.findall(rf'File "{re.escape(str(file))}", line (\d+)', after)
        # What follows the first line are an excerpt and advice.
        text = text.removeprefix("WARNING: ").splitlines()[0].rstrip(":")
        text = re.sub(r" \(rerun with '-v' for a backtrace\)", "", text)
        text = re.sub(r"^skipping test file '[^']*': ", "does not load: ", text)
        text = re.sub(r"^skipping test ('[^']*'): ", r"test \1 does not load: ", text)
        found.append((shown(file), int(lines[-1]) if lines else 1, one_line(text)))
    return found


def class_facts(check, test, file):
    """What is known of a check class, by any test of it."""
    names = {*check.raw_params, *check.var_space.vars, *check.fixture_space.fixtures}
    names |= {name for name in dir(check) if not name.startswith("_")}
    metrics = list(getattr(test, "metrics", []))
    # A check that asks for any metric of the kernel's results gets these too.
    metrics += ["time", "time_min", "time_p99"] if metrics else []
    known = [*metrics, *getattr(test, "asserted", [])]
    return {
        "path": shown(file),
        "line": class_line(file, check.__name__),
        "attributes": sorted(names),
        # What a test is known by before it runs.
        "settled": sorted({"case", "layout", *check.raw_params} & names),
        "metrics": list(dict.fromkeys(at_points(test, known))),
        "quick": list(getattr(test, "quick", [])),
        "inapplicable": dict(getattr(test, "inapplicable", {})),
        "valid_systems": list(test.valid_systems),
        "valid_prog_environs": list(test.valid_prog_environs),
    }


def at_points(test, metrics):
    return test._at_points(metrics) if hasattr(test, "_at_points") else metrics


def class_line(file, name):
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ClassDef) and node.name == name:
            return node.lineno
    return 1


def test_facts(test):
    names = ("case", "layout", "method")
    values = {name: scalar(getattr(test, name, "")) for name in names}
    return {"check": type(test).__name__, **values}


def scalar(value):
    """A value that can be a key; what is none is told as text."""
    return value if value is None or isinstance(value, (str, int, float)) else str(value)


def case_facts(test, runtime, partition, environ, attributes):
    """The values by which references of a test on a partition are found, and what it requires."""
    facts = test_facts(test)
    for name in attributes:
        owner, _, key = name.rpartition(".")
        source = partition.processor if owner == "$processor" else test
        facts[name] = scalar(getattr(source, key or name, None))
    inapplicable = getattr(test, "inapplicable", {}).get(facts["method"], [])
    judged = at_points(test, test._judged()) if hasattr(test, "_judged") else []
    return facts | {
        "$system": runtime.system.name,
        "$partition": partition.fullname,
        "$environ": environ.name,
        "geometry": geometry(facts["layout"], partition),
        "required": [] if facts["layout"] in inapplicable else judged,
    }


def geometry(layout, partition):
    """As text; None if the partition's cores are not known, or the layout does not fit them."""
    processor, nodes = partition.processor, partition.extras.get("nodes", 1)
    if not layout or not processor.num_cores or not is_count(nodes):
        return None
    try:
        return str(layouts.geometry(layout, processor.num_cores, nodes, processor.topology))
    except layouts.DoesNotFit:
        return None


def is_count(value):
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


# ---- what sites say of themselves ----------------------------------------------------------------

EXTRAS = ("nodes", "binding", "references")
FIELDS = ("nodes", "ranks", "ranks_per_node", "threads")


def site_defects(site):
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
            found.append(Defect(shown(site.path), line, f"{partition['fullname']}: {text}"))
    return found + claims(site)


def partition_faults(partition):
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


def binding_faults(templates):
    """What layout.bindings would refuse, one sentence each."""
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


def claims(site):
    """What is wrong with the kinds of reference that partitions claim."""
    kinds = list(dict.fromkeys(references.KIND_OF_UNIT.values()))
    found = []
    for partition in site.partitions:
        claimed = partition["extras"].get("references", [])
        text = claim_fault(claimed, kinds, references.path(site.name))
        if text:
            line = line_of(site.path, partition["name"], "references")
            found.append(Defect(shown(site.path), line, f"{partition['fullname']}: {text}"))
    return found


def claim_fault(claimed, kinds, file):
    """What is wrong with one partition's extras.references, None if nothing is."""
    if not isinstance(claimed, list):
        return f"extras.references is {claimed!r}: a list is allowed, of {some(kinds)}"
    if unknown := [repr(kind) for kind in claimed if kind not in kinds]:
        return f"extras.references has {some(unknown)}: allowed are {some(kinds)}"
    if claimed and not file.exists():
        return f"it claims references of kind {some(claimed)}, and there is no {shown(file)}"
    return None


# ---- checks --------------------------------------------------------------------------------------


def check_defects(sites, everywhere):
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


def unreachable(name, check, tests):
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


def unselected(tests):
    """One sentence for each case and layout that no tier selects."""
    left_out = [test for test in tests if test["places"] and not set(TIERS) & set(test["tags"])]
    for check, case, layout in dict.fromkeys(
        (test["check"], test["case"], test["layout"]) for test in left_out
    ):
        words = [check, case, layout]
        yield f"no tier ({', '.join(TIERS)}) selects {' '.join(word for word in words if word)}"


def misnamed(name, check, tests):
    """One sentence for each name in `quick` and `inapplicable` that the check does not have."""
    named = [("quick", "case", case) for case in check["quick"]]
    for method, names in check["inapplicable"].items():
        named.append(("inapplicable", "method", method))
        named += [("inapplicable", "layout", layout) for layout in names]
    for where, key, value in dict.fromkeys(named):
        there = list(dict.fromkeys(test[key] for test in tests))
        if value not in there and not of_family(value, there):
            yield f"{where} of {name} names {key} {value}: there are {some(there)}"


# ---- references ----------------------------------------------------------------------------------

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
    name = shown(file)
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
        self.name, self.file = shown(file), file
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
            kinds = {name: references.KIND_OF_UNIT.get(unit) for name, unit in units.items()}
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
            self.found.append(Defect(shown(site.path), line, text))
            return
        words = [f"{name} {case[name]}" for name in ("geometry", "case", "method") if case[name]]
        more = f", nor for {counted(len(cases) - 1, 'other test case')}" if cases[1:] else ""
        text = f"{where} claims references, and there is none of {check} for {some(metrics, 3)} of "
        self.add(nodes[check], f"{text}{', '.join(words)}{more}")


def is_index(names):
    return isinstance(names, list) and names and all(isinstance(name, str) for name in names)


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


def number_like(value):
    """Whether references.faults can tell what is wrong with a value."""
    if isinstance(value, int):
        return not isinstance(value, bool) and abs(value) < 10**300
    return value is None or isinstance(value, (str, float))


def part_text(node):
    kind = node.tag.rpartition(":")[2]
    return f"{node.value} is {kind} in YAML" if kind == "bool" else f"a YAML {kind}"


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


# ---- locks ---------------------------------------------------------------------------------------


def lock_findings(site):
    """(defects, notes) on the Spack locks that a site's environments are built from.

    A lock is made when an environment is first built, so one that is not there is no defect.
    """
    found, notes = [], []
    base = spack.home() / "spack" / "environments"
    try:
        known = spack.systems()
    except spack.SpackError as error:
        return [Defect(shown(spack.REPOSITORY / "spack-env"), 1, str(error))], []
    for environ, facts in site.environs.items():
        if "spack" not in facts["features"]:
            continue
        wanted = facts["extras"].get("spack_env", spack.AUTO)
        if wanted != spack.AUTO and wanted not in known:
            text = f"environment {environ}: spack_env is {wanted}: allowed are {some(known)}, auto"
            found.append(Defect(shown(site.path), line_of(site.path, environ, "spack_env"), text))
            continue
        names = known if wanted == spack.AUTO else [wanted]
        locks = {name: base / name / "spack.lock" for name in names}
        there = {name: lock for name, lock in locks.items() if lock.is_file()}
        for name, lock in there.items():
            found += lock_defects(known[name], lock)
        if base.exists() and not there:
            text = f"nothing is built yet for spack_env {wanted}: there is no"
            notes.append(f"{site.name}, environment {environ}: {text} {shown(base)}/*/spack.lock")
    return found, notes


def lock_defects(file, lock):
    """What is wrong with the lock that was made from the environment `file`."""
    where, again = shown(lock), "`bisection run -p spack` makes it again"
    try:
        facts = spack.lock_facts(lock)
    except (OSError, ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        text = f"is no lock of Spack ({type(error).__name__}: {one_line(error)}); {again}"
        return [Defect(where, 1, text)]
    known = spack.State.load(lock.with_name("state.json")).installation.get("lock_hash")
    if known not in (None, facts["lock_hash"]):
        return [Defect(where, 1, f"was changed since the kernels were built from it; {again}")]
    try:
        made_from = lock.with_name("spack.yaml").read_text().splitlines()
        now = spack.render(file, spack.survey_externals(file).installed).splitlines()
    except (OSError, ValueError) as error:
        return [Defect(where, 1, f"cannot be compared with {shown(file)}: {one_line(error)}")]
    if made_from == now:
        return []
    pairs = zip_longest(made_from, now, fillvalue="")
    line, (old, new) = next((n, pair) for n, pair in enumerate(pairs, 1) if pair[0] != pair[1])
    text = f"{where} was made from {old.strip()!r}, which is now {new.strip()!r}; {again}"
    return [Defect(shown(file), line, text)]


# ---- stored results ------------------------------------------------------------------------------

TABLES = {
    "sessions": {"uuid", "session_start_unix", "session_end_unix", "json_blob", "report_file"},
    "testcases": {"name", "system", "partition", "environ", "session_uuid", "uuid"},
}
LATEST = 10  # sessions that are asked for the names of metrics


def read_database(path):
    """(defects of ReFrame's database, metrics that its latest sessions have recorded).

    The latter as check -> metric -> unit. A database that is not there is none of the defects.
    """
    if not path.exists():
        return [], {}
    where = shown(path)
    try:
        with contextlib.closing(
            sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=10)
        ) as base:
            answers = [row[0] for row in base.execute("PRAGMA quick_check(3)")]
            if answers != ["ok"]:
                return [Defect(where, 1, f"is damaged: {one_line('; '.join(answers))}")], {}
            texts = [f"has no {text}" for text in missing_columns(base)]
            if texts:
                return [Defect(where, 1, text) for text in texts], {}
            return read_sessions(base, where)
    except sqlite3.Error as error:
        return [Defect(where, 1, f"SQLite cannot read it: {error}")], {}


def missing_columns(base):
    """Tables and columns that ReFrame reads, and are not there."""
    for table, wanted in TABLES.items():
        there = {row[1] for row in base.execute(f"PRAGMA table_info({table})")}
        if not there:
            yield f"table {table}, which ReFrame stores results in"
        elif wanted - there:
            yield f"column {', '.join(sorted(wanted - there))} in table {table}"


def read_sessions(base, where):
    found, recorded = [], {}
    query = "SELECT uuid, json_blob FROM sessions ORDER BY session_start_unix DESC"
    for number, (uuid, text) in enumerate(base.execute(query)):
        try:
            session = json.loads(text)
            runs = [entry for run in session["runs"] for entry in run["testcases"]]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            why = f"{type(error).__name__}: {one_line(error, 100)}"
            found.append(Defect(where, 1, f"session {uuid} is not a report of ReFrame ({why})"))
            continue
        for entry in runs if number < LATEST else ():
            with contextlib.suppress(AttributeError, KeyError, TypeError, IndexError):
                name = re.split(r"[ %]", entry["display_name"])[0]
                for metric, values in (entry["perfvalues"] or {}).items():
                    recorded.setdefault(name, {})[metric.rpartition(":")[2]] = values[4]
    return found, recorded


def store_defects():
    """What the store of results says of itself, if there is one (bisection.store.defects)."""
    if importlib.util.find_spec("bisection.store") is None:
        return []
    file = Path(__file__).with_name("store.py")
    try:
        store = importlib.import_module("bisection.store")
        lines = store.defects(spack.home()) if hasattr(store, "defects") else []
    except Exception as error:
        text = f"the store cannot be examined: {type(error).__name__}: {one_line(error)}"
        return [Defect(shown(file), 1, text)]
    return [as_defect(line) for line in lines]


def as_defect(text):
    """A line of the store's, which may name a file and a line."""
    match = re.match(r"(?P<path>[^\s:]+)(?::(?P<line>\d+))?: (?P<text>.*)", text, re.S)
    if match and ("/" in match["path"] or match["line"]):
        return Defect(shown(match["path"]), int(match["line"] or 1), one_line(match["text"]))
    return Defect(shown(spack.home()), 1, one_line(text))
