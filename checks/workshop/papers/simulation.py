"""Launches on simulated machines: what findings need, as it is or on a machine with other values,
without ReFrame.

A change is words as BX_MACHINE has them, behind the machines that it is for:
"hector-xt4 hector-xt6 gap=0"; without a machine it is for all. Words that begin with -- are options
of the kernels: --ranks-per-node=1.
"""

import contextlib
import csv
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from bisection.core import paths
from bisection.core.verdicts import BisectionError
from bisection.kernels import digests, results
from bisection.kernels.local import BenchError, make, watched
from bisection.kernels.results import Result
from papers.launches import HOLLOW, ONCE, LaunchKey, Wanted, placed, work

MACHINES = Path(__file__).resolve().parents[1] / "smpi" / "machines.csv"
LAUNCHER = MACHINES.with_name("launch.py")
CHANGED = "changed"  # a label of results: options that are not those of a finding


@cache
def rows() -> tuple[dict[str, str], ...]:
    """The rows of machines.csv."""
    with open(MACHINES, newline="", encoding="utf-8") as file:
        return tuple(csv.DictReader(file))


@cache
def names() -> frozenset[str]:
    """The machines of machines.csv."""
    return frozenset(name for row in rows() for name in row["machines"].split())


@dataclass(frozen=True)
class Cost:
    """The cost of the simulation of a launch on this host."""

    launch: LaunchKey
    seconds: float  # of one core
    memory: int  # B, at most


def cores_of(machine: str) -> int:
    """Cores of a node."""
    return next(
        int(row["value"])
        for row in rows()
        if row["quantity"] == "cores" and machine in row["machines"].split()
    )


def changes(texts: Iterable[str]) -> dict[str, str]:
    """Changes as words of BX_MACHINE, by machine.

    Raises:
        BisectionError: a change has no word of the form QUANTITY=VALUE.
    """
    parts: dict[str, list[str]] = {}
    for text in texts:
        words = text.split()
        values = [word for word in words if "=" in word]
        machines = [word for word in words if "=" not in word] or sorted(names())
        unknown = [name for name in machines if name not in names()]
        if unknown or not values:
            wrong = unknown[0] if unknown else "no QUANTITY=VALUE"
            raise BisectionError(f"'{text}': {wrong}; machines: {', '.join(sorted(names()))}")
        for machine in machines:
            parts.setdefault(machine, []).extend(values)
    return {machine: " ".join(values) for machine, values in parts.items()}


def build() -> Path:
    """The folder of kernels that SimGrid's MPI runs.

    Raises:
        BenchError: CMake fails.
    """
    target = paths.home() / "build-simulated"
    make(target, [f"-DBX_SIMULATED={MACHINES.parent}", "-DBX_TESTS=OFF"])
    return target


@dataclass(frozen=True)
class Plan:
    """How a launch is simulated."""

    launch: LaunchKey
    machine: str  # as BX_MACHINE
    ranks: int
    per_node: int
    threads: int
    hollow: bool
    program: Path
    output: Path
    options: tuple[str, ...]


def plans(
    kernels: Path, wanted: Mapping[LaunchKey, Wanted], changed: Mapping[str, str], folder: Path
) -> list[Plan]:
    """How launches are simulated.

    Args:
        kernels: what `build` returns.
        wanted: methods and metrics by launch.
        changed: words of BX_MACHINE by machine.
        folder: takes a result per launch; is created.
    """
    folder.mkdir(parents=True, exist_ok=True)
    label = f"simulator={digests.digest_of(MACHINES.parent)[:16]}"
    return [_plan(kernels, launch, wanted[launch], changed, folder, label) for launch in wanted]


def _plan(
    kernels: Path,
    launch: LaunchKey,
    wanted: Wanted,
    changed: Mapping[str, str],
    folder: Path,
    label: str,
) -> Plan:
    machine, kernel, case, layout, cores = launch
    words = changed.get(machine, "").split()
    extra = [word for word in words if word.startswith("--")]
    output = folder / f"{machine}-{kernel}-{case}-{layout}-{cores}.json"
    options = ["--case", case, *extra, "--label", label]
    options += ["--label", f"{CHANGED}={' '.join(extra)}"] if extra else []
    options += [
        "--method",
        ",".join(sorted(wanted.methods)),
        *work(kernel, case, wanted),
        *ONCE.split(),
    ]
    name = f"bisection-{kernel}"
    return Plan(
        launch,
        " ".join([machine, *(word for word in words if word not in extra)]),
        *placed(layout, cores, cores_of(machine)),
        hollow=kernel in HOLLOW,
        program=next(path for path in kernels.glob(f"*/{name}") if path.is_file()),
        output=output,
        options=(*options, "--output", str(_unfinished(output))),
    )


def _unfinished(output: Path) -> Path:
    """The file that a kernel writes: when all is ended, the last result stays as it is."""
    return output.with_suffix(".unfinished")


def is_kept(plan: Plan) -> bool:
    """True if the result is there already, of the machine as it is: the same sources give the same
    digits; those of the simulator, with the table of machines, are a label in the command."""
    if plan.machine != plan.launch[0]:
        return False
    try:
        result = json.loads(plan.output.read_text("utf-8"))
    except (OSError, ValueError):
        return False
    layout = result["layout"]
    return (
        result["verified"]
        and result["command"] == [str(plan.program), *plan.options]
        and result["build"]["sources"] == digests.built_into(plan.program)
        and result["simulated"]["hollow"] == plan.hollow
        and "changed" not in result["simulated"]
        and [layout["ranks"], layout["threads"]] == [plan.ranks, plan.threads]
    )


def simulate(plans: Iterable[Plan], note: Callable[[str], None]) -> list[Cost]:
    """Runs launches, as many at once as there are cores, the largest first.

    Args:
        plans: what `plans` returns, or a part of it.
        note: takes a line on each launch that fails.
    """

    def run(plan: Plan) -> Cost | None:
        try:
            return _run(plan)
        except BenchError as error:
            plan.output.unlink(missing_ok=True)  # what these kernels no longer give
            note(str(error))
            return None

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        order = sorted(plans, key=lambda plan: -plan.launch[4])
        return [cost for cost in pool.map(run, order) if cost]


def _run(plan: Plan) -> Cost:
    _unfinished(plan.output).unlink(missing_ok=True)
    command = [sys.executable, str(LAUNCHER), "-n", str(plan.ranks)]
    command += ["--per-node", str(plan.per_node), "--machine", plan.machine]
    hollow = {"BX_HOLLOW": str(HOLLOW[plan.launch[1]])} if plan.hollow else {}
    env = {**os.environ, **hollow, "OMP_NUM_THREADS": str(plan.threads)}
    name = "-".join(map(str, plan.launch)) + plan.machine.removeprefix(plan.launch[0])
    usage = watched([*command, str(plan.program), *plan.options], env, name)
    _unfinished(plan.output).replace(plan.output)
    return Cost(plan.launch, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)


def read(folders: Iterable[Path], changed: bool = False) -> list[Result]:
    """The simulated launches among the results below folders; files of another kind are left out,
    and launches on changed machines, unless these are wanted too."""
    launches = []
    for path in (path for folder in folders for path in sorted(folder.rglob("*.json"))):
        text = path.read_text(encoding="utf-8", errors="replace")
        kernel = re.search(r'"kernel":\s*"(\w+)"', text)
        if kernel and '"simulated"' in text:
            with contextlib.suppress(results.ResultError):
                launches.append(results.load(path, kernel[1]))
    return [launch for launch in launches if changed or not _is_changed(launch)]


def _is_changed(result: Result) -> bool:
    """True if it is of a changed machine, or of options that are not those of a finding."""
    return "changed" in result["simulated"] or CHANGED in result.get("labels", {})
