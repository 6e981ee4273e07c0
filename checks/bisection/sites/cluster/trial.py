"""The trial: one job of seconds per queue that shows what its nodes are and which launcher works.

Names say little of a cluster: a launcher may start a world per rank, bind two ranks to one core, or
leave a fast network unused, and every program still exits with 0. So a small MPI program
(probe.c) counts worlds, cores and bytes.
"""

import itertools
import json
import re
import shlex
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from reframe.core.backends import getlauncher, getscheduler
from reframe.core.schedulers import Job

from bisection import schedulers
from bisection.core.commands import telling
from bisection.core.identity import Geometry
from bisection.core.reasons.base import Reason, Text
from bisection.core.reasons.launches import Misplaced, NotEnded, NoWorld, Worlds
from bisection.kernels import layouts
from bisection.sites.cluster import node_facts
from bisection.sites.cluster.jobs import STOPPED, Finished, JobRequest, Step, StepEnd, run

# It shows where a launcher placed the ranks, and which network device carries their messages.
PROBE = Path(__file__).with_name("probe.c")
COMPILERS = ("mpicc", "cc")  # that find MPI by themselves; cc is Cray's


@dataclass(frozen=True)
class Launcher:
    """A way to start an MPI program."""

    name: str  # ReFrame's: srun, mpirun, mpiexec
    options: Sequence[str] = ()  # as the site file has them
    binding: Sequence[str] = ()  # of extras: templates of all options, those for cores, too

    def __str__(self) -> str:
        return " ".join([self.name, *self.options])

    def command(self, shape: Geometry) -> list[str]:
        """The words before the program, as ReFrame writes them for a launch; KeyError, IndexError
        or ValueError where an option is no template of `bindings`."""
        job = Job.create(getscheduler("local")(), getlauncher(self.name)(), "trial")
        job.num_tasks, job.num_tasks_per_node = shape.ranks, shape.ranks_per_node
        job.num_cpus_per_task = shape.threads
        job.launcher.options = layouts.bindings(self.binding, shape)
        return shlex.split(job.launcher.run_command(job))


@dataclass
class LauncherResult:
    """The result of a launcher for a geometry."""

    launcher: Launcher
    shape: Geometry
    ranks: list[tuple[str, str]] = field(default_factory=list)  # (host, CPUs)
    library: str = ""  # of MPI, by its own name
    carried: dict[str, float] = field(default_factory=dict)  # device -> fraction of the bytes
    latency: float | None = None  # s, of the slowest node
    bandwidth: float | None = None  # B/s, likewise
    # (host, host, s, B/s, share of the time in which one of them had no core)
    links: list[Sequence[Any]] = field(default_factory=list)
    fault: Reason | None = None  # None: one world, a core per rank and thread


@dataclass
class Trial(Finished):
    """The results of the job of one queue."""

    nodes: list[dict[str, Any]] = field(default_factory=list)  # facts of each (node_facts.py)
    outcomes: list[LauncherResult] = field(default_factory=list)  # in the order of the launches
    unseen: dict[str, str] = field(default_factory=dict)  # host -> why it left no facts
    modules: dict[str, str] = field(default_factory=dict)  # that did not load -> why
    build: Reason | None = None  # why the MPI program was not built


def try_queue(
    request: JobRequest,
    launchers: Sequence[Launcher],
    modules: Sequence[str] = (),
    *,
    shapes: Sequence[Geometry] = (),
    sees: Sequence[Path] = (),
    builds: Sequence[Step] = (),
    build_here: bool = False,
    further: Sequence[Step] = (),
) -> Trial:
    """Runs one job in a queue: facts of each node, then each launcher with each geometry.

    Args:
        request: of the job; its folder is made.
        launchers: those to try.
        modules: loaded before anything else.
        shapes: the geometries; a rank per core alone if empty. Messages are sent in the first.
        sees: files that every node should see, beside the folder and our Python.
        builds, further: steps after the build of the MPI program, and after the launches.
        build_here: whether to build on this host, as nodes have no compilers.
    """
    shapes, scheduler = shapes or [request.shape], request.scheduler
    facts, probe = request.folder / f"{request.name}.facts", program(request)
    facts.mkdir(parents=True, exist_ok=True)
    for old in (*facts.glob("*.json"), probe):
        old.unlink(missing_ok=True)
    launches = [(launcher, shape) for launcher in launchers for shape in shapes]
    loads = [Step(f"module/{name}", _load(name)) for name in modules]
    building = [Step("build", _building(probe)), *builds]
    here: dict[str, StepEnd] = {}
    if build_here:
        local = schedulers.of("local")
        host = replace(request, name=f"{request.name}.here", access=[], scheduler=local)
        here = run(host, [*loads, *building]).steps
        building = []
    writing = [*scheduler.per_node(request.shape.nodes), *_facts(facts, sees)]
    steps = [*loads, *building, Step("facts", writing)]
    for number, (launcher, shape) in enumerate(launches):
        before = scheduler.shaped(shape) if shape != request.shape else []
        task = [] if shape == shapes[0] else ["seats"]
        words = [*before, *launcher.command(shape), str(probe), *task]
        steps.append(Step(f"launch/{number}", words))
    trial = Trial(**vars(run(request, [*steps, *further])))
    for name in modules:
        if (ended := trial.steps.get(f"module/{name}")) and ended.code:
            trial.modules[name] = telling(ended.text)
    trial.steps = {**here, **trial.steps}
    if (build := trial.steps.get("build")) and build.code:
        mend = "Load an MPI library that has mpicc: modules=[...] in the site file."
        line = telling(build.text)
        trial.build = Text("no MPI program could be built", next=mend, line=line)
    _read_facts(trial, facts)
    for number, (launcher, shape) in enumerate(launches):
        if ended := trial.steps.get(f"launch/{number}"):
            trial.outcomes.append(_outcome(launcher, shape, ended, trial.nodes))
    return trial


def program(request: JobRequest) -> Path:
    return request.folder / f"{request.name}.probe"


def _building(probe: Path) -> list[str]:
    """The command that builds the MPI program, by the first compiler that there is."""
    program = (
        'for compiler in "${@:3}"; do if command -v "$compiler" >&1; then '
        'exec "$compiler" -O1 -o "$1" "$2"; fi; done; echo "no ${@:3} on PATH"; exit 127'
    )
    return ["bash", "-c", program, "build", str(probe), str(PROBE), *COMPILERS]


def _facts(folder: Path, sees: Sequence[Path]) -> list[str]:
    """The command that writes the facts of a node, by our Python or by the node's own."""
    program = (
        'for python in "$1" python3; do if "$python" -c "" 2>/dev/null; then '
        'exec "$python" -c "$2" "${@:3}"; fi; done; '
        r'echo "FACTS {\"host\": \"$(uname -n)\", \"error\": \"no Python 3 on PATH\"}"'
    )
    text = Path(node_facts.__file__).read_text()
    paths_seen = map(str, (folder, sys.executable, *sees))
    return ["bash", "-c", program, "facts", sys.executable, text, *paths_seen]


def _load(name: str) -> str:
    """The command that loads a module, and fails where it is not loaded: not every kind does."""
    word = shlex.quote(name)
    return (
        f'{{ module load {word} && case ":$LOADEDMODULES:" in '
        f"*:{word}:* | *:{word}/*) ;; *) false ;; esac; }}"
    )


def _read_facts(trial: Trial, folder: Path) -> None:
    """Reads what the nodes wrote, and notes those that wrote nothing."""
    if (ended := trial.steps.get("facts")) is None:
        return
    for line in re.findall(r"FACTS (\{.*\})", ended.text):
        answer = json.loads(line)
        try:
            trial.nodes.append(json.loads((folder / f"{answer['host']}.json").read_text()))
        except (OSError, ValueError) as error:
            trial.unseen[answer["host"]] = answer.get("error", str(error))
    wrote = {*trial.unseen, *(name for n in trial.nodes for name in (n["host"], n.get("node", "")))}
    wrote = {name.partition(".")[0] for name in wrote}
    for host in trial.hosts:
        if host.partition(".")[0] not in wrote:
            trial.unseen[host] = telling(ended.text)
    trial.nodes.sort(key=lambda node: node["host"])


def _outcome(
    launcher: Launcher, shape: Geometry, ended: StepEnd, nodes: Sequence[Mapping[str, Any]]
) -> LauncherResult:
    """Returns what a launch printed, and what is wrong with it."""
    worlds = [json.loads(line) for line in re.findall(r"PROBE (\{.*\})", ended.text)]
    if not worlds:
        limit = Step.limit if ended.code == STOPPED else 0.0
        fault = NoWorld(launcher=launcher.name, limit=limit, line=telling(ended.text))
        return LauncherResult(launcher, shape, fault=fault)
    world = worlds[0]
    outcome = LauncherResult(launcher, shape, world["ranks"], world["library"])
    if len(worlds) > 1 or world["size"] != shape.ranks:
        values = {"worlds": len(worlds), "size": world["size"], "asked": shape.ranks}
        outcome.fault = Worlds(launcher=launcher.name, **values)
        return outcome
    if links := world.get("links"):
        outcome.links = links
        outcome.latency = max(link[2] for link in links)
        outcome.bandwidth = min(link[3] for link in links)
        parts: Counter[str] = Counter()
        for name, count in world["sent"]:  # a device may have several ports
            parts[name] += count / world["messages"]
        outcome.carried = {name: min(part, 1.0) for name, part in parts.items() if part >= 0.02}
    if wrong := misplaced(outcome.ranks, shape, nodes):
        outcome.fault = Misplaced(seats=tuple(wrong))
    elif ended.code:
        outcome.fault = NotEnded(line=telling(ended.text))
    return outcome


def misplaced(
    ranks: Sequence[tuple[str, str]], shape: Geometry, nodes: Sequence[Mapping[str, Any]]
) -> list[Reason]:
    """Returns what is wrong with where ranks (host, CPUs) are, for the geometry that was asked for;
    by the facts of the nodes, of which each numbers its CPUs in its own way."""
    masks = {node["host"]: node["processor"]["topology"]["cores"] for node in nodes}
    taken = []
    for rank, (host, cpus) in enumerate(ranks):
        cores = layouts.core_of(masks.get(host))
        places: dict[Any, list[str]] = {}
        for cpu in sorted(layouts.cpulist(cpus)):
            places.setdefault(cores.get(cpu, ("cpu", cpu)), []).append(str(cpu))
        # OMP_PLACES=cores with OMP_PROC_BIND=close: a thread per core, in order
        threads = itertools.islice(itertools.cycle(places.values()), shape.threads)
        texts = [",".join(place) for place in threads]
        taken.append(layouts.Place(host, [rank], [cpus], [texts]))
    return layouts.misplaced(taken, shape, masks)
