"""Before a run: what a person may ask for, the site and its partitions, nodes, a quiet machine."""

import contextlib
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bisection import schedulers
from bisection.analysis import rotation
from bisection.core import paths
from bisection.core.format import duration, plural, some
from bisection.core.reasons.base import Reason, Text
from bisection.core.verdicts import TIERS, BisectionError, NotMeasured
from bisection.night.actions import Most
from bisection.report.lines import wrapped
from bisection.report.words import defect_line
from bisection.runs import command, waiting
from bisection.runs.run_verdict import Request
from bisection.schedulers.scheduler import Scheduler
from bisection.sites import before_run
from bisection.sites.cluster import facts
from bisection.sites.site_files import load_site, require_site
from bisection.store.database import Store
from bisection.store.sample_file import StoreError

# ReFrame's options that would make a failure pass. It rejects those itself that run nothing.
REFUSED = {
    "--max-retries": "a check that fails once has failed",
    "--skip-sanity-check": "a wrong answer would pass",
    "--skip-performance-check": "a slow method would pass",
    **dict.fromkeys(
        ("-l", "-L", "--list-detailed", "--list-tags", "--describe", "--dry-run"),
        "it measures nothing; `.bisection/bin/reframe -l` lists tests",
    ),
}
# Variables of checks that say what is judged: set from outside they would let a failure pass.
JUDGING = re.compile(r"(^|[.=])(asserted|metrics|points|strict_check)=")


@dataclass(frozen=True)
class Order:
    """What a person asks for."""

    tier: str = "nightly"
    system: str = "localhost"
    environ: str | None = None  # None: the site's first
    arguments: tuple[str, ...] = ()  # further ones of ReFrame
    tags: tuple[str, ...] = ()  # NAME=VALUE
    retest: float = 0.0  # s
    against: str | None = None  # sessions; None: earlier ones of its kind
    wait: float | None = None  # s for a quiet machine
    deadline: float | None = None  # s after the start, by which launches must start
    accepts_stale: bool = False  # kernels of other sources
    sweeps_nodes: bool = False
    every_node: str = ""  # name of a campaign; "": this is none
    node_hours: float = math.inf  # that a campaign may use
    at_once: int = 0  # jobs of a campaign in the queue
    anew: bool = False  # a campaign measures nodes again that earlier sessions of it have measured
    reservation: str = ""  # of all jobs; "": that of the site file
    on_suspect: str | None = None  # a command for bad nodes; None: that of the site file
    acts: Most | None = None  # how many nodes it may be called for; None: it is only printed
    notify: tuple[str, ...] = ()  # [TEMPLATE=]URL; none: those of the site file


def prepare(order: Order) -> tuple[Request, Path, before_run.Partitions]:
    """Returns what is asked for, the site file, and the partitions, once the files of the site load
    and all names are known. BisectionError: they do not or are not, or no launch can be placed."""
    file = require_site(order.system)
    for argument in order.arguments:
        if why := refused(argument):
            raise BisectionError(f"{argument} is rejected: {why}")
    names = before_run.name_patterns(order.arguments)
    site = load_site(order.system.partition(":")[0], names, order.reservation)
    loads = site.partitions and not site.files.keys() <= {defect.path for defect in site.defects}
    defects = [] if loads else site.defects
    partitions = before_run.choose_partitions(site, order.system) if site.partitions else []
    environ = before_run.choose_environ(site, partitions, order.environ) if partitions else ""
    if defects := defects or before_run.unusable(site, partitions):
        raise BisectionError("\n".join(map(defect_line, defects)))
    if order.reservation:
        before_run.require_reserved(partitions, order.reservation)
    before_run.enter_cluster(partitions)
    before_run.require_tests(site, order.tier, names)
    needed = {check["path"] for check in site.checks.values()}
    chosen = before_run.not_excluded(site.tests, order.arguments)
    of_tier = [test["check"] for test in chosen if order.tier in test["tags"]]
    sizes = sorted({min(site.checks[name]["least_nodes"], 2) for name in of_tier})
    request = Request(
        order.tier,
        file.stem + "".join(order.system.partition(":")[1:]),
        environ,
        [*order.arguments, *(["-S", "Build.stale=yes"] if order.accepts_stale else [])],
        site="" if file.parent == paths.ROOT / "site-configs" else str(file),
        files=[paths.from_root(f) for f in command.check_files() if paths.shown(f) in needed],
        reservation=order.reservation,
        campaign=order.every_node,
        sizes=sizes if order.every_node else (),
    )
    return request, file, partitions


def refused(argument: str) -> str | None:
    """Returns why an argument of ReFrame is not taken, None if it is; long ones may be
    abbreviated."""
    if JUDGING.search(argument):
        return "it changes what is judged"
    name = argument.partition("=")[0]
    full = (o for o in REFUSED if o == name or (len(name) > 3 and o.startswith(name)))
    return REFUSED.get(next(full, ""))


def look_at_machine(
    site: Path,
    partitions: before_run.Partitions,
    used: Sequence[Scheduler],
    patience: float | None,
) -> None:
    """Waits for the machine, for so long (s), and prints what is odd. BisectionError: the scheduler
    does not know a queue, or keeps a reservation from this user. NotMeasured: it does not answer,
    or the host is not quiet."""
    wait(used, patience)
    defects = before_run.unknown_queues(site, partitions)
    if defects := defects or before_run.unusable_reservations(site, partitions):
        raise BisectionError("\n".join(map(defect_line, defects)))
    if outdated := facts.outdated(site, used):
        reports = f"`bisection site check {site.stem}` reports what changed"
        records = f"`bisection site new {site.stem} --refresh` records it"
        tell(Text(f"{outdated}; {reports}, and {records}"))


def choose_partitions(request: Request, partitions: before_run.Partitions) -> before_run.Partitions:
    """The partitions that the tier measures; prints which, and what it leaves out."""
    if not TIERS[request.tier].largest:
        return partitions
    names = set()
    for name, wanted, nodes, others in rotation.largest(partitions):
        names.add(name)
        text = f"{name}: {request.tier} launches on {wanted} of {nodes or '?'} nodes"
        if others:
            text += f"; left out, with smaller launches on the same nodes: {some(others)}"
        if wanted < (nodes or 0):
            text += f"; nodes={nodes} in {request.system.partition(':')[0]}.py judges all"
        if ";" in text:
            tell(text)
    if len(names) < len(partitions):
        request.partitions = sorted(names)
    return [part for part in partitions if part["fullname"] in names]


def choose_nodes(request: Request, partitions: before_run.Partitions, sweep: bool) -> None:
    """Has launches ask for nodes, other ones than earlier runs did, and prints which.
    BisectionError: there is nothing to sweep over."""
    asking = [part for part in partitions if schedulers.of(part["scheduler"]).takes_nodes]
    store = None
    if asking:
        with contextlib.suppress(StoreError):  # as the run's end says
            store = Store(paths.store_db(paths.home()))
    choices = rotation.choose(asking, request.arguments, store, sweep)
    if sweep and not choices:
        why = "no partition has more idle nodes than a launch uses"
        raise BisectionError(f"--sweep-nodes: {request.system}: {why}")
    request.nodes = {name: choice.sets for name, choice in choices.items()}
    request.reruns = max((len(sets) - 1 for sets in request.nodes.values()), default=0)
    for name, choice in choices.items():
        where = some(choice.sets[0], 8)
        if sweep:
            used = Counter(node for nodes in choice.sets for node in nodes)
            sets = f"{plural(len(choice.sets), 'set')} of {len(choice.sets[0])}"
            where = f"{len(used)} nodes in turn, {sets}, each in {min(used.values())}"
        idle = f"{choice.idle} of {choice.nodes} nodes are idle"
        print(f"{name}: runs on {where}; {idle}", flush=True)


def wait(used: Sequence[Scheduler], budget: float | None) -> None:
    """Waits until the schedulers of a run answer. On one host, prints what else uses the cores, or,
    with a budget (s), waits until it is quiet. NotMeasured: a scheduler does not answer, or the
    host is not quiet."""
    for scheduler in used:
        if error := waiting.silence(scheduler, say_waiting):
            raise NotMeasured(f"{scheduler.title} does not answer, nothing was run: {error}")
    here = all(scheduler.is_local for scheduler in used)
    if here and (reason := waiting.until_quiet(budget or 0.0, say_waiting)):
        if budget:
            raise NotMeasured(f"after {duration(budget)}, {reason}; nothing was run")
        advice = "disturbed times are not checked; --wait 30m waits for a quiet machine"
        tell(Text(f"{reason}; {advice}"))


def say_waiting(reason: str, seconds: float) -> None:
    """Prints why the run waits, and for how long (s) at most."""
    print(f"waiting for up to {duration(seconds)}: {reason}", flush=True)


def tell(reason: Reason | str) -> None:
    """Prints what a person should know before the run ends: a Reason as a warning."""
    text = reason if isinstance(reason, str) else f"warning: {reason}"
    print("\n".join(wrapped(text)), flush=True)
