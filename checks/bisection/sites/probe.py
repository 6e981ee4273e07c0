"""Runs in a process of its own: loads one site file and all checks, and writes what they are."""

import ast
import contextlib
import gc
import json
import os
import re
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from jsonschema import ValidationError
from jsonschema.exceptions import best_match
from reframe.core import config
from reframe.core import runtime as reframe_runtime
from reframe.core.runtime import valid_sysenv_comb
from reframe.frontend import filters
from reframe.frontend.loader import RegressionCheckLoader

from bisection.core.format import one_line
from bisection.core.reasons import Code
from bisection.kernels import layouts
from bisection.kernels.layouts import DoesNotFit
from bisection.rfm import internals
from bisection.sites import cache
from bisection.sites.rules import is_count
from bisection.sites.site import line_of

Located = tuple[str, int, dict[str, Any]]  # path, line, reason
Facts = dict[str, Any]

IDENTITY = ("display_name", "unique_name", "hashcode", "variant_num")  # by which -n selects


def probe() -> None:
    """Loads one site file and all checks into this process, and writes what they are as JSON.

    The only argument is the job, as JSON: root, home, file (of the site), attributes (of tests, to
    be reported), names (patterns of ReFrame's -n, or null) and output, the file to write.
    """
    job = json.loads(sys.argv[1])
    gc.disable()  # this process ends soon
    facts = {"defects": []}
    file, root = Path(job["file"]), Path(job["root"])
    inputs = cache.inputs(root, file)  # first: they may change meanwhile
    try:
        runtime = start_runtime(file)
        facts |= site_facts(runtime)
        attributes, defects = job["attributes"], facts["defects"]
        checks = cache.kept(
            Path(job["home"], "cache", "checks"),
            inputs,
            [job["root"], attributes, facts, dict(runtime.site_config.items())],
            load=lambda: check_facts(runtime, root / "checks", attributes, defects),
            sound=lambda: not defects and cache.inputs(root, file) == inputs,
        )
        facts |= selected(checks, job["names"])
    except BaseException as error:  # of the site file: whatever it does is reported
        facts["defects"].append(located(error, file))
    Path(job["output"]).write_text(json.dumps(facts, default=str))


def start_runtime(file: Path) -> Any:
    """ReFrame's runtime for a site file and the system of its name; raises what ReFrame does."""
    configuration = config.load_config(str(file))
    configuration.validate()
    # The site's own machine has its modules system, this one need not.
    configuration.add_sticky_option("systems/modules_system", "nomod")
    configuration.select_subconfig(file.stem)
    reframe_runtime.init_runtime(configuration)
    return reframe_runtime.runtime()


def located(error: BaseException, file: Path) -> Located:
    """An error that a site or check file raised, or ReFrame because of it."""
    if isinstance(error.__cause__, ValidationError):
        return rejected(error.__cause__, file)
    if type(error).__name__ == "SiteError":  # of site-configs/common_cluster.py
        reason = Code.NOT_LOADING(error=error.text)
        return str(error.path), error.line, reason.as_dict()
    path, line = file, None
    for frame in traceback.extract_tb(error.__traceback__):
        folder = Path(frame.filename).parent
        if folder == file.parent or folder.name in ("site-configs", "checks"):
            path, line = frame.filename, frame.lineno
    if isinstance(error, SyntaxError):
        reason = Code.NOT_LOADING(error=error.msg)
        return str(error.filename or path), error.lineno or 1, reason.as_dict()
    text = f"{type(error).__name__}: {error}"
    if error.__cause__ is not None and str(error.__cause__) not in text:
        text += f": {error.__cause__}"
    if line is None:  # what ReFrame says has names in quotes: the last that the file has, too
        words = [word.rpartition(":")[2] for word in re.findall(r"'([^']+)'", text)]
        line = max((line_of(file, word) for word in words), default=1)
    return str(path), line, Code.NOT_LOADING(error=one_line(text)).as_dict()


def rejected(error: ValidationError, file: Path) -> Located:
    """Returns what ReFrame's schema does not allow in a site file."""
    error = best_match([error])
    at = [str(word) for word in error.absolute_path]
    # An object is too large to be found; the schema names the key that it should not have.
    inner = error.message if isinstance(error.instance, dict) else f"'{error.instance}'"
    names = [word for word in at if not word.isdigit()] + re.findall(r"'([^']+)'", inner)
    where = "/".join(at) or "the configuration"
    reason = Code.REFRAME_REJECTS(where=where, error=one_line(error.message))
    return str(file), line_of(file, *names), reason.as_dict()


def site_facts(runtime: Any) -> Facts:
    """Returns what a runtime says of its partitions and their environments."""
    environs = {}
    for partition in runtime.system.partitions:
        for environ in partition.environs:
            environs[environ.name] = {
                "features": environ.features,
                "extras": environ.extras,
                "modules": list(environ.modules),
                "variables": dict(environ.env_vars),
            }
    return {
        "partitions": [partition_facts(runtime, part) for part in runtime.system.partitions],
        "environs": environs,
    }


def partition_facts(runtime: Any, partition: Any) -> Facts:
    """As ReFrame does before a run, a topology file that it has left is taken in."""
    detected = runtime.get_option("general/0/remote_detect")
    if not partition.processor.info:
        folder = f"{runtime.system.name}-{partition.name}"
        prefix = os.path.expandvars(runtime.get_option("general/0/topology_prefix"))
        with contextlib.suppress(OSError, ValueError):
            text = Path(prefix, folder, "processor.json").expanduser().read_text()
            internals.set_processor(partition, json.loads(text))
        kinds = (partition.scheduler.registered_name, partition.launcher_type.registered_name)
        detected = detected or kinds == ("local", "local")
    surroundings = (runtime.system.preload_environ, partition.local_env)
    return {
        "name": partition.name,
        "fullname": partition.fullname,
        "scheduler": partition.scheduler.registered_name,
        "launcher": partition.launcher_type.registered_name,
        "access": list(partition.access),
        # Of the system, then of the partition: loaded and set before an environment's own.
        "modules": [name for around in surroundings for name in around.modules],
        "variables": {n: v for around in surroundings for n, v in around.env_vars.items()},
        "cores": partition.processor.num_cores,
        "topology": partition.processor.topology or {},
        "detected": bool(detected),
        "extras": partition.extras,
        "environs": [environ.name for environ in partition.environs],
    }


def selected(facts: Facts, names: Sequence[str] | None) -> Facts:
    """Has every test name the patterns of -n that select it, where a run follows; which needs no
    cases."""
    patterns = {name: filters.have_any_name([name]) for name in names or ()}
    for test in facts["tests"]:
        identity = SimpleNamespace(check=type(test["check"], (), test.pop("identity"))())
        test["named"] = [name for name, selects in patterns.items() if selects(identity)]
    return facts if names is None else facts | {"cases": []}


def check_facts(
    runtime: Any, folder: Path, attributes: Sequence[str], defects: list[Located]
) -> Facts:
    """Returns what the checks are on this runtime's system; what does not load is added to
    `defects`."""
    warnings = internals.recorded_warnings()
    facts = {"files": {}, "checks": {}, "tests": [], "cases": []}
    loader = RegressionCheckLoader([str(folder)])
    for file in sorted(folder.glob("*.py")):
        warnings.clear()
        try:
            loaded = loader.load_from_file(str(file), force=True)
        except BaseException as error:  # for some, ReFrame would not run at all
            defects.append(located(error, file))
            facts["files"][str(file)] = 1
            continue
        defects += skipped(file, warnings)
        tests = [test for test in loaded if not test.is_fixture()]
        facts["files"][str(file)] = len(tests) + len(warnings)
        for test in tests:
            name = type(test).__name__
            if name not in facts["checks"]:
                facts["checks"][name] = class_facts(type(test), test, file)
            places = valid_sysenv_comb(test.valid_systems, test.valid_prog_environs)
            number = sum(map(len, places.values()))
            more = {"tags": sorted(test.tags), "places": number}
            more["identity"] = {name: getattr(test, name) for name in IDENTITY}
            facts["tests"].append({**test_facts(test), **more})
            for partition, environs in places.items():
                for environ in environs:
                    facts["cases"].append(case_facts(test, runtime, partition, environ, attributes))
    return facts


def skipped(file: Path, lines: Sequence[tuple[bool, str]]) -> list[Located]:
    """Each warning; the traceback that follows it has the line."""
    located = []
    for index, (warns, text) in enumerate(lines):
        if not warns:
            continue
        after = lines[index + 1][1] if index + 1 < len(lines) else ""
        numbers = re.findall(rf'File "{re.escape(str(file))}", line (\d+)', after)
        # What follows the first line are an excerpt and advice.
        text = text.removeprefix("WARNING: ").splitlines()[0].rstrip(":")
        text = one_line(re.sub(r" \(rerun with '-v' for a backtrace\)", "", text))
        if match := re.match(r"skipping test (file )?'([^']*)': (.*)", text):
            test = None if match[1] else match[2]
            reason = Code.NOT_LOADING(error=match[3], test=test)
        else:
            reason = Code.REFRAME_TEXT(text=text)
        located.append((str(file), int(numbers[-1]) if numbers else 1, reason.as_dict()))
    return located


def class_facts(check: type, test: Any, file: Path) -> Facts:
    """Returns what is known of a check class, by any test of it."""
    names = {*check.raw_params, *check.var_space.vars, *check.fixture_space.fixtures}
    names |= {name for name in dir(check) if not name.startswith("_")}
    metrics = list(getattr(test, "metrics", []))
    # A check that asks for any metric of the kernel's results gets these too.
    metrics += ["time", "time_min", "time_p99"] if metrics else []
    known = [*metrics, *getattr(test, "asserted", [])]
    return {
        "path": str(file),
        "line": class_line(file, check.__name__),
        "attributes": sorted(names),
        # What a test is known by before it runs.
        "settled": sorted({"case", "layout", *check.raw_params} & names),
        "metrics": list(dict.fromkeys(at_points(test, known))),
        "tiers": dict(getattr(test, "tiers", {})),
        "inapplicable": dict(getattr(test, "inapplicable", {})),
        "valid_systems": list(test.valid_systems),
        "valid_prog_environs": list(test.valid_prog_environs),
    }


def at_points(test: Any, metrics: list[str]) -> list[str]:
    """A check's metrics at the points of its sweep."""
    return test._at_points(metrics) if hasattr(test, "_at_points") else metrics


def class_line(file: Path, name: str) -> int:
    """The line on which a class begins, 1 if it is not found."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ClassDef) and node.name == name:
            return node.lineno
    return 1


def test_facts(test: Any) -> Facts:
    """The check, case, layout and method of a test."""
    names = ("case", "layout", "method")
    values = {name: scalar(getattr(test, name, "")) for name in names}
    return {"check": type(test).__name__, **values}


def scalar(value: Any) -> Any:
    """A value as a key; as text where it cannot be one."""
    return value if value is None or isinstance(value, (str, int, float)) else str(value)


def case_facts(
    test: Any, runtime: Any, partition: Any, environ: Any, attributes: Sequence[str]
) -> Facts:
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


def geometry(layout: str, partition: Any) -> str | None:
    """As text; None if the partition's cores are not known, or no such layout fits them."""
    processor, nodes = partition.processor, partition.extras.get("nodes", 1)
    if not layout or not processor.num_cores or not is_count(nodes):
        return None
    try:
        return str(layouts.geometry(layout, processor.num_cores, nodes, processor.topology))
    except (DoesNotFit, KeyError):  # a check may have layouts of its own: mpi-64
        return None
