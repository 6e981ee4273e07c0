"""Runs in a process of its own: loads one site file and all checks, and writes their facts."""

import contextlib
import difflib
import gc
import json
import os
import re
import sys
import traceback
from collections.abc import Iterator, Sequence
from itertools import pairwise
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
from bisection.kernels import layouts
from bisection.kernels.layouts import DoesNotFit
from bisection.rfm import internals
from bisection.sites.rules import is_count
from bisection.sites.site_files import line_of

Located = tuple[str, int, str, bool]  # path, line, what is wrong, whether a name is there twice
Facts = dict[str, Any]

PROCESSOR = (  # facts of one that a $index may have
    "arch model platform num_cpus num_cpus_per_core num_cpus_per_socket num_sockets num_cores "
    "num_cores_per_socket num_numa_nodes num_cores_per_numa_node"
).split()


def write_facts() -> None:
    """Loads one site file and all checks into this process, and writes their facts as JSON.

    The only argument is the job, as JSON: file (of the site), checks (their folder), names
    (patterns of ReFrame's -n, or null) and output, the file to write.
    """
    job = json.loads(sys.argv[1])
    gc.disable()  # this process ends soon
    file = Path(job["file"])
    defects: list[Located] = []
    facts: Facts = {"defects": defects}
    try:
        configuration = config.load_config(str(file))
        configuration.validate()
        # The site's own machine has its modules system, this one need not.
        configuration.add_sticky_option("systems/modules_system", "nomod")
        configuration.select_subconfig(file.stem)
        reframe_runtime.init_runtime(configuration)
        runtime = reframe_runtime.runtime()
        facts |= site_facts(runtime)
        facts |= check_facts(runtime, Path(job["checks"]), job["names"], defects)
    except BaseException as error:  # of the site file: whatever it does is reported
        defects.append(located(error, file))
    Path(job["output"]).write_text(json.dumps(facts, default=str))


def located(error: BaseException, file: Path) -> Located:
    """An error that a site or check file raised, or ReFrame because of it."""
    if isinstance(error.__cause__, ValidationError):
        return rejected(error.__cause__, file)
    # both of site-configs/common_cluster.py
    if (kind := type(error).__name__) in ("SiteError", "NameTwice"):
        of_site: Any = error
        text = f"does not load: {of_site.text}"
        return str(of_site.path), of_site.line, text, kind == "NameTwice"
    path: str | Path = file
    line: int | None = None
    for frame in traceback.extract_tb(error.__traceback__):
        folder = Path(frame.filename).parent
        if folder == file.parent or folder.name in ("site-configs", "checks"):
            path, line = frame.filename, frame.lineno
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, SyntaxError):
        path, line, text = error.filename or path, error.lineno or 1, error.msg
    elif error.__cause__ is not None and str(error.__cause__) not in text:
        text += f": {error.__cause__}"
    if line is None:  # ReFrame's text has names in quotes: the last that the file has, too
        words = [word.rpartition(":")[2] for word in re.findall(r"'([^']+)'", text)]
        line = max((line_of(file, word) for word in words), default=1)
    return str(path), line, f"does not load: {one_line(text)}", False


def rejected(error: ValidationError, file: Path) -> Located:
    """The first part of a site file that ReFrame's schema does not allow."""
    error = best_match([error])
    at = [str(word) for word in error.absolute_path]
    # An object is too large to be found; the schema names the key that it should not have.
    inner = error.message if isinstance(error.instance, dict) else f"'{error.instance}'"
    names = [word for word in at if not word.isdigit()] + re.findall(r"'([^']+)'", inner)
    where = "/".join(at) or "the configuration"
    text = one_line(error.message)
    if error.validator == "additionalProperties":
        near = difflib.get_close_matches(names[-1], error.schema.get("properties", ()), n=1)
        text += f": is it {near[0]}?" if near else ""
    return str(file), line_of(file, *names), f"ReFrame rejects {where}: {text}", False


def site_facts(runtime: Any) -> Facts:
    """The partitions of a runtime, and their environments by name."""
    partitions = runtime.system.partitions
    return {
        "partitions": [partition_facts(runtime, partition) for partition in partitions],
        "environs": {
            environ.name: {
                "features": environ.features,
                "extras": environ.extras,
                "modules": list(environ.modules),
                "variables": dict(environ.env_vars),
            }
            for partition in partitions
            for environ in partition.environs
        },
    }


def partition_facts(runtime: Any, partition: Any) -> Facts:
    """As ReFrame does before a run, a topology file that it has left is read."""
    detected = runtime.get_option("general/0/remote_detect")
    if not partition.processor.info:
        prefix = os.path.expandvars(runtime.get_option("general/0/topology_prefix"))
        file = Path(prefix, f"{runtime.system.name}-{partition.name}", "processor.json")
        with contextlib.suppress(OSError, ValueError):
            internals.set_processor(partition, json.loads(file.expanduser().read_text()))
        by_local = partition.launcher_type.registered_name == "local"
        detected = detected or (partition.scheduler.is_local and by_local)
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


def check_facts(
    runtime: Any, folder: Path, names: Sequence[str] | None, defects: list[Located]
) -> Facts:
    """The checks in a folder, on this runtime's system.

    Args:
        runtime, folder: ReFrame's, and that of the check files.
        names: patterns of -n, before a run: only tests that one of them selects are made, each
            with those that do, and there are no cases. None: all tests.
        defects: gets an entry for each file and test that does not load.
    """
    warnings = internals.recorded_warnings()
    facts: dict[str, Any] = {"files": {}, "checks": {}, "tests": [], "cases": []}
    loader = RegressionCheckLoader([str(folder)])
    patterns = {name: filters.have_any_name([name]) for name in names or ()}
    if names is not None:
        internals.make_only(names)
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
            check = type(test).__name__
            if check not in facts["checks"]:
                facts["checks"][check] = class_facts(test, file)
            places = valid_sysenv_comb(test.valid_systems, test.valid_prog_environs)
            named = [n for n, selects in patterns.items() if selects(SimpleNamespace(check=test))]
            more = {"tags": sorted(test.tags), "places": sum(map(len, places.values()))}
            facts["tests"].append({**test_facts(test), **more, "named": named})
            facts["cases"] += [
                case_facts(test, runtime, partition, environ)
                for partition, environs in places.items()
                for environ in environs
                if names is None
            ]
    return facts


def skipped(file: Path, lines: Sequence[tuple[bool, str]]) -> Iterator[Located]:
    """Yields the warnings in ReFrame's log of a check file: lines are (whether it is a warning,
    text). The traceback that follows a warning has its line."""
    for (warns, text), (_, after) in pairwise([*lines, (False, "")]):
        if not warns:
            continue
        numbers = re.findall(rf'File "{re.escape(str(file))}", line (\d+)', after)
        line = int(numbers[-1]) if numbers else 1
        # An excerpt and advice follow the first line.
        text = text.removeprefix("WARNING: ").splitlines()[0].rstrip(":")
        text = one_line(re.sub(r" \(rerun with '-v' for a backtrace\)", "", text))
        if match := re.match(r"skipping test (file )?'([^']*)': (.*)", text):
            test = "" if match[1] else f"test '{match[2]}' "
            text = f"{test}does not load: {match[3]}"
        yield str(file), line, text, False


def class_facts(test: Any, file: Path) -> Facts:
    """The facts of a check class, by any test of it."""
    metrics = [*getattr(test, "metrics", [])]
    # A check that asks for any metric of the kernel's results gets these too.
    metrics += ["time", "time_min", "time_p99"] if metrics else []
    metrics = getattr(test, "_at_points", list)([*metrics, *getattr(test, "asserted", [])])
    fixtures = type(test).fixture_space
    launch = fixtures["launch"].cls if "launch" in fixtures else None
    before, there, _ = file.read_text().partition(f"\nclass {type(test).__name__}(")
    return {
        "path": str(file),
        "line": before.count("\n") + 2 if there else 1,
        "metrics": list(dict.fromkeys(metrics)),
        "tiers": dict(getattr(test, "tiers", {})),
        # Of the class: where no environment can run it, no launch of it was made.
        "least_nodes": launch.var_space["least_nodes"].default_value if launch else 1,
        "inapplicable": dict(getattr(test, "inapplicable", {})),
        "valid_systems": list(test.valid_systems),
        "valid_prog_environs": list(test.valid_prog_environs),
    }


def test_facts(test: Any) -> Facts:
    """The check, case, layout and method of a test, and its parameters."""
    names = dict.fromkeys(["case", "layout", "method", *type(test).raw_params])
    values = {name: getattr(test, name, "") for name in names}
    keys = (type(None), str, int, float)
    texts = {name: v if isinstance(v, keys) else str(v) for name, v in values.items()}
    name = test.display_name.replace(" ", "")  # which patterns of -n and -x are for
    return {"check": type(test).__name__, "name": name, **texts}


def case_facts(test: Any, runtime: Any, partition: Any, environ: Any) -> Facts:
    """The values by which references of a test on a partition are found, and what it requires."""
    facts = test_facts(test)
    inapplicable = getattr(test, "inapplicable", {}).get(facts["method"], [])
    judged = getattr(test, "_at_points", list)(getattr(test, "_judged", list)())
    return facts | {
        **{f"$processor.{name}": getattr(partition.processor, name) for name in PROCESSOR},
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
        here, devices = processor.topology, layouts.devices_of(partition)
        return str(layouts.geometry(layout, processor.num_cores, nodes, here, devices))
    except (DoesNotFit, KeyError):  # a check may have layouts of its own: mpi-64
        return None
