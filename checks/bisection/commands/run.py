"""Runs a tier of checks with ReFrame and ends with a verdict on this machine.

Arguments that are not listed here are passed to ReFrame (-n NAME, -S VAR=VALUE, ...).
Launches that other processes disturbed are rerun at the end of the run.
A retest follows at once for metrics outside their limits or slower than in all earlier sessions,
for nodes that look slow, and for metrics that may have got worse lately. What it does not confirm
passes, with a note. A wrong answer fails without a retest.
Exit code: 0 every selected check ran and passed, 1 a check failed, 2 the command line or a file of
the site cannot be used, 3 not everything was measured, or the verdict on the network is `look`,
4 everything passed, but the retest confirmed slower metrics or a slow node, or metrics are worse
since an earlier session, 130 interrupted before the first launch.
"""

import argparse
import contextlib
import functools
import json
import re
import shlex
import signal
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bisection.analysis import rotation
from bisection.analysis.outlying import slower
from bisection.analysis.retest import START, disturbed, plan, request_for
from bisection.analysis.retest import request as retest_request
from bisection.core import paths
from bisection.core.format import duration, plural, seconds_of, some
from bisection.core.lock import measure_alone
from bisection.core.reasons.base import Reason, Text
from bisection.core.reasons.launches import ReframeText
from bisection.core.slurm import SLURM
from bisection.core.thresholds import LIMITS
from bisection.core.verdicts import RAN, TIERS, BisectionError, Exit, NotMeasured, Verdict
from bisection.judge import evidence as judged_by
from bisection.judge import rule
from bisection.judge.evidence import Disturbed, Evidence, Retest
from bisection.judge.launches import replaced
from bisection.judge.retest import Reruns
from bisection.report import exports, gather, interconnect
from bisection.report import run as run_report
from bisection.report.lines import commanded, wrapped
from bisection.report.model import Report
from bisection.report.text import beside
from bisection.report.words import defect_line
from bisection.runs import command, folder, waiting
from bisection.runs import report as reframe_report
from bisection.runs.model import Request, RunVerdict
from bisection.sites import before_run
from bisection.sites.cluster import facts
from bisection.sites.site import load_site, require_site
from bisection.store import sync
from bisection.store.database import Outcome, Store
from bisection.store.sample_file import StoreError
from bisection.store.selection import EARLIER, HELP, SelectionError, select
from bisection.store.sync import unusable

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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of the subcommand."""
    lines = [f"  {n:12} {t.minutes:3}  {t.purpose}" for n, t in TIERS.items()]
    parser.epilog = "\n".join(["tiers, with minutes on two quiet cores, at most:", *lines])
    add = parser.add_argument
    add("--tier", choices=TIERS, default="nightly", help="default: nightly")
    text = "site-configs/NAME.py, or DIR/NAME.py; also NAME:PARTITION; default: localhost"
    add("--system", default="localhost", metavar="NAME", help=text)
    text = "how the kernels are built: system, spack, or an environment of the site"
    add("-p", dest="environ", metavar="NAME", help=text)
    text = "a name for the session, to select it by: --tag phase=before"
    add("--tag", action="append", default=[], type=command.tag, metavar="NAME=VALUE", help=text)
    text = "time for the retest, half of it also for launches that other processes disturbed; 0: "
    text += "no retest, and metrics outside their limits fail; default: 10m"
    add("--retest", default="10m", type=seconds_of, metavar="DURATION", help=text)
    text = f"compare the run with these sessions, such as network=old; {HELP}; default: earlier "
    add("--against", metavar="SESSIONS", help=f"{text}sessions of its kind")
    text = "wait up to this time for a quiet machine; if it stays busy, run nothing, exit with 3"
    add("--wait", type=seconds_of, metavar="DURATION", help=text)
    text = "start no launch later than this after the run's start: later ones are BLOCKED"
    add("--deadline", type=seconds_of, metavar="DURATION", help=text)
    text = "accept kernels that were built from other sources than this checkout's"
    add("--stale", action="store_true", help=text)
    text = "repeat the launches on other idle nodes, until one run can identify a slow node"
    add("--sweep-nodes", action="store_true", help=text)
    text = "print every test with its metrics and limits"
    add("--verbose", action="store_true", help=text)


def act(options: argparse.Namespace) -> Exit:
    """One run: prepare, wait, watch, judge, keep, store, compare, look back, retest, report."""
    measure_alone()
    began = time.time()
    request, site, partitions = prepare(options)
    schedulers = {partition["scheduler"] for partition in partitions}
    wait(schedulers, options.wait)
    if defects := before_run.unknown_queues(site, partitions):
        raise BisectionError("\n".join(map(defect_line, defects)))
    if options.deadline is not None:
        request.deadline, request.until = options.deadline, began + options.deadline
    request.is_local = schedulers == {"local"}
    if outdated := facts.outdated(site, schedulers):
        reports = f"`bisection site check {site.stem}` reports what changed"
        records = f"`bisection site new {site.stem} --refresh` records it"
        tell(Text(f"{outdated}; {reports}, and {records}"))
    damaged = sync.set_damaged_aside(paths.home())
    against = named(options.against)
    results = folder.new_folder()
    if schedulers <= set(SLURM):
        request.job_name = waiting.job_name(results)
    partitions = choose_partitions(request, partitions)
    choose_nodes(request, partitions, options.sweep_nodes)
    request.command = command.command(request, site, results, options.tag)
    print("\n".join(commanded("command", command.pasted(request.command))), flush=True)
    run = folder.named(measure(request, results), results)
    night = Night(run.noting(troubles=damaged), site, results)
    night.began -= run.seconds
    budget = options.retest
    if request.deadline:  # nothing fits into the last second
        budget = min(budget, max(request.until - time.time(), 1.0))
    return conclude(night, budget, against, partitions, options.verbose)


@dataclass
class Night:
    """A run that is not over: as it was read, and what it is judged by so far."""

    run: RunVerdict
    site: Path  # file
    results: Path  # folder
    evidence: Evidence = field(default_factory=Evidence)
    began: float = field(default_factory=time.monotonic)  # when its launches began

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        vars(self).pop("verdict", None)  # by what was known before

    @functools.cached_property
    def verdict(self) -> RunVerdict:
        """The verdict by what is known now."""
        return rule(self.run, self.evidence)

    def trouble(self, *reasons: Reason) -> None:
        """Notes why the run is not complete, each reason once."""
        new = [reason for reason in reasons if reason not in self.run.troubles]
        self.run = self.run.noting(troubles=new)

    @contextlib.contextmanager
    def keeps(self, lost: str = "") -> Iterator[None]:
        """Makes a trouble of the run of a store that cannot be used, and of a file that cannot be
        written, as on a full disk; where anything is `lost` by any other defect, of that, too. A
        session that is not stored is a trouble already."""
        try:
            yield
        except SelectionError:
            pass
        except StoreError as error:
            self.trouble(Text(unusable(str(error))))
        except Exception as error:
            text = f"{lost}: {error!r}"
            if lost:
                traceback.print_exc()
            elif isinstance(error, OSError):
                where = error.filename2 or error.filename or paths.home()
                text = f"cannot write {where}: {error.strerror}"
            else:
                raise
            self.trouble(Text(text))


def conclude(
    night: Night,
    budget: float,
    against: str | None = None,
    partitions: before_run.Partitions = (),
    verbose: bool = False,
) -> Exit:
    """All that follows the launches of a run; `budget`: s for reruns and for the retest."""
    with night.keeps():
        folder.keep(night.run, night.results)
    until = time.monotonic() + budget
    measure_disturbed(night, until - budget / 2)
    store = None
    with night.keeps():
        store = Store(paths.store_db(paths.home()))
    stored = store if night.run.session else None
    if stored:
        night.trouble(*sync.keep(stored, paths.home(), night.verdict, night.results))
    with night.keeps("network not judged"):
        night.evidence = judged_by.of_network(night.evidence, store, night.verdict)
    if stored:
        compare(night, stored, against)
        look_back(night, stored)
    retest(night, max(until - time.monotonic(), 0.0) if budget else 0.0, partitions, store)
    chosen = night.evidence.retest and night.evidence.retest.plan.chosen
    if stored and (chosen or night.verdict.outliers):
        keep_repeats(night, stored)
    folder.clear(night.verdict, night.results)
    about = reported(night, store)
    verdict = night.verdict
    lines = [*run_report.text(verdict, verbose), f"results: {paths.shown(night.results)}"]
    print("\n".join([*lines, *about, *run_report.next_step(verdict)]))
    return verdict.exit_code


def prepare(options: argparse.Namespace) -> tuple[Request, Path, before_run.Partitions]:
    """Returns what is asked for, the site file, and the partitions, once the files of the site load
    and all names are known. BisectionError: they do not or are not, or no launch can be placed."""
    file = require_site(options.system)
    for argument in options.rest:
        if why := refused(argument):
            raise BisectionError(f"{argument} is rejected: {why}")
    names = before_run.name_patterns(options.rest)
    site = load_site(options.system.partition(":")[0], names)
    defects = [] if site.checks else site.defects
    partitions = before_run.choose_partitions(site, options.system) if site.checks else []
    if defects := defects or before_run.unusable(site, partitions):
        raise BisectionError("\n".join(map(defect_line, defects)))
    before_run.require_tests(site, options.tier, names)
    environ = before_run.choose_environ(site, partitions, options.environ)
    needed = {site.checks[t["check"]]["path"] for t in site.tests if t["named"] and names}
    request = Request(
        options.tier,
        file.stem + "".join(options.system.partition(":")[1:]),
        environ,
        [*options.rest, *(["-S", "Build.stale=yes"] if options.stale else [])],
        site="" if file.parent == paths.ROOT / "site-configs" else str(file),
        files=[paths.from_root(f) for f in command.check_files() if paths.shown(f) in needed],
    )
    return request, file, partitions


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
    slurm = [partition for partition in partitions if partition["scheduler"] in SLURM]
    store = None
    if slurm:
        with contextlib.suppress(StoreError):  # as the run's end says
            store = Store(paths.store_db(paths.home()))
    choices = rotation.choose(slurm, request.arguments, store, sweep)
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


def wait(schedulers: set[str], budget: float | None) -> None:
    """Waits until Slurm answers. On one host, prints what else uses the cores, or, with a budget
    (s), waits until it is quiet. NotMeasured: Slurm does not answer, or the host is not quiet."""
    if schedulers & set(SLURM) and (error := waiting.silence(say_waiting)):
        raise NotMeasured(f"Slurm does not answer, nothing was run: {error}")
    if schedulers == {"local"} and (reason := waiting.until_quiet(budget or 0.0, say_waiting)):
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


def measure(request: Request, results: Path, limit: float | None = None) -> RunVerdict:
    """Runs ReFrame; returns the run, without an identifier if ReFrame wrote no report.

    Args:
        request: what is asked for, with ReFrame's command line.
        results: the results folder.
        limit: s after which ReFrame is stopped; it does not store a run with a limit.

    Raises:
        BisectionError: ReFrame does not take the command line, or it leaves no check.
        KeyboardInterrupt: a run without a limit was interrupted before its first launch.
    """
    began = time.monotonic()
    try:
        code, log = command.watch(request, results, tell, limit)
    except KeyboardInterrupt:  # there is nothing to keep
        if request.job_name:
            waiting.cancel(request.job_name)
        folder.discard(results)
        raise
    left = waiting.cancel(request.job_name) if request.job_name else None
    if error := reframe_report.usage_error(log):
        folder.discard(results)
        raise BisectionError(error)
    report = None
    with contextlib.suppress(FileNotFoundError, ValueError):  # none, or half a report
        report = reframe_report.load_report(results / "report.json")
    run = reframe_report.read(report, log, lambda: command.listing(request.command), left)
    run = replace(run, request=request, seconds=time.monotonic() - began)
    if not run.cases and run.troubles == (reframe_report.NONE_SELECTED,):
        folder.discard(results)
        raise BisectionError(f"no check is left by {shlex.join(request.arguments)}")
    if code != 0 and rule(run).exit_code == Exit.OK:
        log_file = str(results / "reframe.log")
        run = run.noting(troubles=[Text(f"ReFrame exited with {code}, see {log_file}")])
    return run


def refused(argument: str) -> str | None:
    """Returns why an argument of ReFrame is not taken, None if it is; long ones may be
    abbreviated."""
    if JUDGING.search(argument):
        return "it changes what is judged"
    name = argument.partition("=")[0]
    full = (o for o in REFUSED if o == name or (len(name) > 3 and o.startswith(name)))
    return REFUSED.get(next(full, ""))


def write(verdict: RunVerdict, results: Path) -> None:
    """Writes the verdict's files."""
    lines = [*run_report.text(verdict, verbose=True), ""]
    paths.write_whole(results / "verdict.txt", "\n".join(lines))
    # By set-up: time, `debian` or `python`, name and version.
    installed = paths.text_of(paths.home() / "installed.txt").splitlines()
    kept = {**exports.as_json(verdict), "installed": installed}
    paths.write_whole(results / "verdict.json", json.dumps(kept, indent=1))
    report = Report("", verdict.started, run=verdict, of_run=True)
    paths.write_whole(results / "junit.xml", exports.junit(report))


def named(sessions: str | None) -> str | None:
    """The identifiers of the sessions that a text names now, before the run is one of them."""
    if sessions is None:
        return None
    with Store(paths.store_db(paths.home())) as store:  # and closed again: runs take long
        return ",".join(session.uuid for session in select(sessions, store))


def compare(night: Night, store: Store, against: str | None) -> None:
    """Sets the run beside other sessions, by default the earlier ones of its kind. If they cannot
    be compared, that is a trouble of the run, as are tests of the session before that are gone, or
    whose kernel is left out of the build now, if they ever ran."""
    with night.keeps():
        now = select(night.run.session, store)
        night.evidence = judged_by.of_nights(night.evidence, store, night.run, against)
        tests = store.tests()

        def keys(jobs: Iterable[Outcome]) -> set[tuple[str, ...]]:
            return {tests[job.test].key for job in jobs if not tests[job.test].control}

        last = store.outcomes(select("earlier:1", store, now))
        gone = keys(job for job in last if job.verdict != Verdict.NOT_APPLICABLE)
        gone -= keys(job for job in store.outcomes(now) if not job.left_out)
        if gone:
            earlier = store.outcomes(select(EARLIER, store, now))
            gone &= keys(job for job in earlier if job.verdict in RAN)
        if gone:
            names = sorted(" ".join(filter(None, key[3:])) for key in gone)
            night.trouble(Text(f"tests of the last session are gone: {some(names)}"))


def measure_disturbed(night: Night, until: float) -> None:
    """Reruns launches whose cores other processes used, the worst first, while this host is quiet
    enough, until a time of the monotonic clock."""
    while launches := disturbed(night.verdict, until - time.monotonic()):
        takes = START + sum(launch.seconds for launch in launches)
        if night.run.request.is_local:
            if busy := wait_again(night, until - time.monotonic() - takes):
                night.run = night.run.noting(remarks=[Text(busy)])
            if busy or reframe_report.end_of_run(night.run.troubles):
                break
        words = plural(len(launches), "launch", "launches")
        print(f"rerun: {words} that other processes disturbed, in about {duration(takes)}")
        request = request_for(night.verdict, launches)
        name = f"rerun-{len(night.evidence.disturbed) + 1}"
        second = measure_again(night, request, name, until - time.monotonic())
        part = Disturbed(tuple(launches), second)
        _, better = replaced(night.verdict, part)
        night.evidence = replace(night.evidence, disturbed=(*night.evidence.disturbed, part))
        if ended(night, second, until) or not better:
            break


def ended(night: Night, second: RunVerdict | None, until: float) -> bool:
    """True if a rerun or retest was ended: by its limit, a time of the monotonic clock, or by a
    person, which is a trouble of the run."""
    end = second and reframe_report.end_of_run(second.troubles)
    if end and time.monotonic() < until:
        night.trouble(end)
    return bool(end)


def wait_again(night: Night, seconds: float) -> str:
    """Waits for a quiet machine; returns why it is not, "" if it is. An interrupt ends the run,
    which keeps its verdict."""
    try:
        with command.on_termination(signal.default_int_handler):
            return waiting.until_quiet(max(seconds, 0.0), say_waiting)
    except KeyboardInterrupt:
        text = "run session stopped: interrupted while it waited for a quiet machine"
        night.trouble(ReframeText(text=text, ended=True))
        return ""


def measure_again(night: Night, request: Request, name: str, limit: float) -> RunVerdict | None:
    """Runs some launches of a run once more within a limit (s), with results in a folder of this
    name; None, and a line that says why, if ReFrame does not."""
    with night.keeps():
        write(night.verdict, night.results)  # what is on disk never passes meanwhile
    into = night.results / name
    request.command = command.command(request, night.site, into)
    try:
        into.mkdir()
        run = measure(request, into, limit)
        verdict = rule(folder.named(run, into))
        folder.keep(verdict, into)
    except (BisectionError, OSError) as error:  # the night keeps its verdict
        print(f"{name}: {error}")
        return None
    if end := reframe_report.end_of_run(verdict.troubles):
        print(f"{name}: {end}")
    folder.clear(verdict, into)
    return verdict


def retest(
    night: Night, budget: float, partitions: before_run.Partitions, store: Store | None
) -> None:
    """Retests launches outside their limits or slower than in all earlier sessions, the second
    time on other nodes, if there are any; within the budget (s)."""
    comparison = night.evidence.comparison
    # The network is judged after the retest: what speaks against it is no reason for none.
    verdict = rule(night.run, replace(night.evidence, comparison=None, impacts=(), events=()))
    rows = slower(comparison.rows) if comparison else []
    agenda = plan(rows, verdict, budget, night.evidence.unusual)
    night.evidence = replace(night.evidence, retest=Retest(agenda))
    if not agenda.chosen:
        return
    asked = [part for part in partitions if part["fullname"] in verdict.request.nodes]
    choices = rotation.choose(asked, verdict.request.arguments, store) if asked else {}
    others = {name: choice.sets[0] for name, choice in choices.items()}
    launches = plural(len(agenda.chosen), "launch", "launches")
    whys = {
        "outside its limits": agenda.failed,
        "with a node that looks slow": agenda.nodes,
        "slower than in all earlier sessions": agenda.outliers,
        "with a metric that may have got worse": agenda.unusual.keys() & agenda.chosen,
    }
    why = " or ".join(text for text, chosen in whys.items() if chosen)
    text = f"retest: {launches}, {why}, {agenda.repeats} times, in about {duration(agenda.seconds)}"
    print(text, flush=True)
    request = retest_request(agenda, verdict, others)
    until = time.monotonic() + agenda.budget
    repeated = measure_again(night, request, "retest", agenda.budget)
    night.evidence = replace(night.evidence, retest=Retest(agenda, repeated))
    ended(night, repeated, until)
    disturbed_most = max((c.record.disturbed for c in repeated.cases), default=0) if repeated else 0
    if night.run.request.is_local and disturbed_most > LIMITS.preempted_confirm:
        night.run = night.run.noting(remarks=map(Text, filter(None, [waiting.busy()])))


def look_back(night: Night, store: Store) -> None:
    """Adds what the history says."""
    if night.run.judged:
        with night.keeps("history not judged"):
            now = select(night.run.session, store)
            night.evidence = judged_by.of_history(night.evidence, store, now, night.run)


def keep_repeats(night: Night, store: Store) -> None:
    """Stores the run again, with its retest, unless the machine got slower meanwhile."""
    again = night.evidence.retest
    repeats = again.rerun if again else None
    if again and repeats and Reruns(night.verdict, again).slower:
        repeats = None
    night.trouble(*sync.keep(store, paths.home(), night.verdict, night.results, repeats))
    with night.keeps():
        night.evidence = judged_by.count_nights(night.evidence, store, night.run)
    if repeats:
        look_back(night, store)


def reported(night: Night, store: Store | None) -> list[str]:
    """Writes the verdict's files and the report. Returns lines on the report and on the
    comparison."""
    night.run = replace(night.run, seconds=time.monotonic() - night.began)  # with all reruns
    run, report = night.run, None
    if store and run.session and run.judged:
        with night.keeps("no report"):
            now = select(run.session, store)
            report = gather.gather(store, now, night.verdict, night.evidence, of_run=True)
    with night.keeps():
        write(night.verdict, night.results)
    if report is None:
        return ["no report: the store does not have the run"] if run.judged else []
    try:
        files = gather.write(replace(report, run=night.verdict), night.results)
    except Exception as error:  # a defect of a page must not lose the night's verdict
        if not isinstance(error, OSError):
            traceback.print_exc()
        return [f"no report: {error}"]
    lines = beside(report.comparison) if report.comparison else []
    lines += interconnect.text(report.interconnect) if report.interconnect else []
    lines.append(f"report: {paths.shown(files['report.html'])}")
    return wrapped(*lines)
