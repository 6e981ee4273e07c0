"""A night: one `bisection run`, from the site's files to the report."""

import contextlib
import signal
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from bisection import schedulers
from bisection.analysis import rotation
from bisection.analysis.outlying import retested
from bisection.analysis.retest_plan import disturbed, plan
from bisection.core import paths
from bisection.core.format import duration, plural
from bisection.core.lock import measure_alone
from bisection.core.reasons.base import Reason, Text
from bisection.core.reasons.launches import ReframeText
from bisection.core.thresholds import LIMITS
from bisection.core.verdicts import BisectionError
from bisection.judge import evidence as judged_by
from bisection.judge import network, rule
from bisection.judge.evidence import DisturbedRerun, Evidence, Retest
from bisection.judge.hosts import with_slow_hosts
from bisection.judge.launch_rulings import replaced
from bisection.judge.retest import Reruns
from bisection.night import actions
from bisection.night.campaign import begun, measure_all
from bisection.night.measure import measure, request_of_reruns, request_of_retest
from bisection.night.notify import Endpoint, send
from bisection.night.prepare import (
    Order,
    choose_nodes,
    choose_partitions,
    look_at_machine,
    prepare,
    say_waiting,
)
from bisection.report import gather
from bisection.report.comparison_text import against_earlier
from bisection.report.lines import commanded, wrapped
from bisection.report.report_data import Report
from bisection.runs import command, folder, waiting
from bisection.runs.run_verdict import Request, RunVerdict
from bisection.schedulers.scheduler import Scheduler
from bisection.sites.before_run import Partitions
from bisection.store import sync
from bisection.store.database import Store
from bisection.store.sample_file import StoreError
from bisection.store.selection import SelectionError, select


@dataclass
class Night:
    """A run that is not over: as it was read, and what it is judged by so far."""

    run: RunVerdict
    site: Path  # file
    results: Path  # folder
    evidence: Evidence = field(default_factory=Evidence)
    began: float = field(default_factory=time.monotonic)  # when its launches began
    verdict: RunVerdict = field(init=False)  # by what is known now
    report: Report | None = None  # once it is written

    def __post_init__(self) -> None:
        self.verdict = rule(self.run, self.evidence)

    def learn(self, evidence: Evidence) -> None:
        """Judges the run by this evidence from now on."""
        self.evidence = evidence
        self.verdict = rule(self.run, evidence)

    def correct(self, run: RunVerdict) -> None:
        """Judges this run from now on."""
        self.run = run
        self.verdict = rule(run, self.evidence)

    def trouble(self, *reasons: Reason) -> None:
        new = [reason for reason in reasons if reason not in self.run.troubles]
        self.correct(self.run.adding(troubles=new))

    def remark(self, *reasons: Reason) -> None:
        """Notes what a person should know beside."""
        self.correct(self.run.adding(remarks=reasons))

    @contextlib.contextmanager
    def survives(self, lost: str = "") -> Iterator[None]:
        """Makes a trouble of the run of a store that cannot be used, and of a file that cannot be
        written, as on a full disk; where anything is `lost` by any other defect, of that, too. A
        session that is not stored is a trouble already."""
        try:
            yield
        except SelectionError:
            pass
        except StoreError as error:
            self.trouble(Text(str(error)))
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


def run_night(order: Order) -> tuple[RunVerdict, Sequence[str]]:
    """One run: prepare, wait, watch, judge, keep, store, compare, look back, retest, report.
    Returns its verdict, and lines on its results folder and its report."""
    measure_alone()
    began = time.time()
    request, site, partitions = prepare(order)
    endpoints = [*map(Endpoint.parsed, order.notify or of_site(partitions, "notify"))]
    used = [schedulers.of(name) for name in sorted({part["scheduler"] for part in partitions})]
    look_at_machine(site, partitions, used, order.wait)
    request.is_local = all(scheduler.is_local for scheduler in used)
    if order.deadline is not None:
        request.deadline, request.until = order.deadline, began + order.deadline
    with contextlib.suppress(StoreError):  # as the run's end says
        sync.opened(paths.home(), check=True).close()
    if order.every_node:
        return run_campaign(order, request, site, partitions, endpoints)
    against = named(order.against)
    results = folder.new_folder()
    name_jobs(request, used, results)
    partitions = choose_partitions(request, partitions)
    choose_nodes(request, partitions, order.sweeps_nodes)
    request.command = command.command(request, site, results, order.tags)
    print("\n".join(commanded("command", command.pasted(request.command))), flush=True)
    launched = measure(request, results)
    night = Night(launched, site, results)
    night.began -= launched.seconds
    budget = order.retest
    if request.deadline:  # nothing fits into the last second
        budget = min(budget, max(request.until - time.time(), 1.0))
    lines = conclude(night, budget, against, partitions)
    lines += [*acted(night, order, partitions), *notified(night, endpoints)]
    return night.verdict, lines


def of_site(partitions: Partitions, name: str) -> list[str]:
    """The values of a word of the site file, each once; one or a list of them per partition."""
    values = (part["extras"].get(name) or [] for part in partitions)
    lists = ([value] if isinstance(value, str) else value for value in values)
    return [*dict.fromkeys(value for each in lists for value in each)]


def notified(night: Night, endpoints: Sequence[Endpoint]) -> list[str]:
    """Sends the verdict to the site's endpoints; returns lines on them. No failure of it counts."""
    run, lines = night.verdict, []
    bare = Report("", time.time(), run=run, of_run=True, folder=night.results)
    try:
        for line in send(night.report or bare, run, endpoints, paths.home()) if endpoints else ():
            lines.append(line)
    except Exception as error:  # a defect here must not lose the night's verdict
        if not isinstance(error, OSError | BisectionError):
            traceback.print_exc()
        lines.append(f"notify: {error}")
    return wrapped(*lines)


def name_jobs(request: Request, used: Sequence[Scheduler], results: Path) -> None:
    """Has all jobs of a run that waits in a queue have one name."""
    if all(scheduler.turns("a run") for scheduler in used):
        request.scheduler, request.job_name = used[0].name, waiting.job_name(results)


def run_campaign(
    order: Order,
    request: Request,
    site: Path,
    partitions: Partitions,
    endpoints: Sequence[Endpoint],
) -> tuple[RunVerdict, Sequence[str]]:
    """A run of a campaign over every node, whose peers are what it is judged by."""
    store = None
    with contextlib.suppress(StoreError):  # as the run's end says
        store = Store(paths.store_db(paths.home()))
    campaign = begun(order, request, partitions, store)
    results = folder.new_folder()
    name_jobs(request, campaign.schedulers, results)
    request.at_once = order.at_once
    tags = [*order.tags, f"{command.CAMPAIGN}={order.every_node}"]
    night = Night(measure_all(campaign, site, results, tags, store), site, results)
    night.began -= night.run.seconds
    night.learn(replace(night.evidence, survey=campaign.survey()))
    if night.run.session:
        night.trouble(*sync.keep(store, night.verdict, results))
    lines = [f"results: {paths.shown(results)}", *reported(night, store)]
    return night.verdict, [*lines, *acted(night, order, partitions), *notified(night, endpoints)]


def acted(night: Night, order: Order, partitions: Partitions) -> list[str]:
    """Calls the site's command for bad nodes; returns lines on it. No failure of it counts."""
    usual = next(iter(of_site(partitions, "on_suspect")), "")
    command = usual if order.on_suspect is None else order.on_suspect
    if not command or not night.report:
        return []
    lines = []

    def count() -> int:
        """The nodes of the run's partitions, by their schedulers, which are asked."""
        each = ((schedulers.of(part["scheduler"]), part["access"]) for part in partitions)
        return len({node.name for queue, access in each for node in queue.nodes_of(access)})

    try:
        for line in actions.act(night.report, command, order.acts, count, paths.home()):
            lines.append(line)
    except Exception as error:  # a defect here must not lose the night's verdict
        if not isinstance(error, OSError):
            traceback.print_exc()
        lines.append(f"on suspect: {command}: {error}")
    return wrapped(*lines)


def conclude(
    night: Night, budget: float, against: str | None = None, partitions: Partitions = ()
) -> list[str]:
    """All that follows the launches of a run; `budget`: s for reruns and for the retest. Returns
    lines on its results folder and its report."""
    with night.survives():
        folder.keep(night.run, night.results)
    with night.survives("hosts not judged"):
        night.correct(with_slow_hosts(night.run))
    until = time.monotonic() + budget
    measure_disturbed(night, until - budget / 2)
    store = None
    with night.survives():
        store = Store(paths.store_db(paths.home()))
    if night.run.session:
        night.trouble(*sync.keep(store, night.verdict, night.results))
    with night.survives("network not judged"):
        night.learn(network.measured(night.evidence, store, night.verdict))
    if store and night.run.session:
        compare(night, store, against)
        look_back(night, store)
    left = max(until - time.monotonic(), 0.0) if budget else 0.0
    chosen = retest(night, left, partitions, store)
    if night.run.session and (chosen or night.verdict.outliers):
        keep_repeats(night, store)
    folder.clear(night.verdict, night.results)
    return [f"results: {paths.shown(night.results)}", *reported(night, store)]


def named(sessions: str | None) -> str | None:
    """The identifiers of the sessions that a text names now, before the run is one of them."""
    if sessions is None:
        return None
    with Store(paths.store_db(paths.home())) as store:  # and closed again: runs take long
        return ",".join(session.uuid for session in select(sessions, store))


def compare(night: Night, store: Store, against: str | None) -> None:
    """Sets the run beside other sessions, by default the earlier ones of its kind. If they cannot
    be compared, that is a trouble of the run."""
    with night.survives():
        night.learn(judged_by.of_nights(night.evidence, store, night.run, against))


def measure_disturbed(night: Night, until: float) -> None:
    """Reruns launches whose cores other processes used, the worst first, while this host is quiet
    enough, until a time of the monotonic clock."""
    while launches := disturbed(night.verdict, until - time.monotonic()):
        takes = LIMITS.retest_start + sum(launch.seconds for launch in launches)
        if night.run.request.is_local:
            if busy := wait_again(night, until - time.monotonic() - takes):
                night.remark(Text(busy))
            if busy or night.run.end:
                break
        words = plural(len(launches), "launch", "launches")
        print(f"rerun: {words} that other processes disturbed, in about {duration(takes)}")
        request = request_of_reruns(night.verdict, launches)
        name = f"rerun-{len(night.evidence.disturbed) + 1}"
        second = measure_again(night, request, name, until - time.monotonic())
        part = DisturbedRerun(tuple(launches), second)
        _, better = replaced(night.verdict, part)
        night.learn(replace(night.evidence, disturbed=(*night.evidence.disturbed, part)))
        if ended(night, second, until) or not better:
            break


def ended(night: Night, second: RunVerdict | None, until: float) -> bool:
    """True if a rerun or retest was ended: by its limit, a time of the monotonic clock, or by a
    person, which is a trouble of the run."""
    end = second and second.end
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
    with night.survives():
        gather.write_verdict(night.verdict, night.results)  # what is on disk never passes meanwhile
    into = night.results / name
    request.command = command.command(request, night.site, into)
    try:
        into.mkdir()
        run = measure(request, into, limit)
        with night.survives("hosts of a rerun not judged"):
            run = with_slow_hosts(run)
        verdict = rule(run)
        folder.keep(verdict, into)
    except (BisectionError, OSError) as error:  # the night keeps its verdict
        print(f"{name}: {error}")
        return None
    if verdict.end:
        print(f"{name}: {verdict.end}")
    folder.clear(verdict, into)
    return verdict


def retest(night: Night, budget: float, partitions: Partitions, store: Store | None) -> bool:
    """Retests launches outside their limits or slower than in all earlier sessions, the second
    time on other nodes, if there are any; within the budget (s). True if any was chosen."""
    comparison = night.evidence.comparison
    # The network is judged after the retest: what speaks against it is no reason for none.
    verdict = rule(night.run, replace(night.evidence, comparison=None, impacts=(), events=()))
    rows = retested(comparison.rows) if comparison else []
    agenda = plan(rows, verdict, budget, night.evidence.unusual)
    night.learn(replace(night.evidence, retest=Retest(agenda)))
    if not agenda.chosen:
        return False
    asked = [part for part in partitions if part["fullname"] in verdict.request.nodes]
    choices = rotation.choose(asked, verdict.request.arguments, store) if asked else {}
    others = {name: choice.sets[0] for name, choice in choices.items()}
    agenda.elsewhere = bool(others)
    launches = plural(len(agenda.chosen), "launch", "launches")
    whys = {
        "outside its limits": agenda.failed,
        "with a node that looks slow": agenda.nodes,
        "slower than in all earlier sessions": agenda.slower,
        "with a metric that may have got worse": agenda.unusual.keys() & agenda.chosen,
    }
    why = " or ".join(text for text, chosen in whys.items() if chosen)
    text = f"retest: {launches}, {why}, {agenda.repeats} times, in about {duration(agenda.seconds)}"
    print(text, flush=True)
    request = request_of_retest(agenda, verdict, others)
    until = time.monotonic() + agenda.budget
    repeated = measure_again(night, request, "retest", agenda.budget)
    night.learn(replace(night.evidence, retest=Retest(agenda, repeated)))
    ended(night, repeated, until)
    disturbed_most = max((c.record.lost_part for c in repeated.cases), default=0) if repeated else 0
    if night.run.request.is_local and disturbed_most > LIMITS.disturbed_confirm:
        night.remark(*map(Text, filter(None, [waiting.busy()])))
    return True


def look_back(night: Night, store: Store) -> None:
    """Adds what the history says."""
    if night.run.judged:
        with night.survives("history not judged"):
            now = select(night.run.session, store)
            night.learn(judged_by.of_history(night.evidence, store, now, night.run))


def keep_repeats(night: Night, store: Store | None) -> None:
    """Records the run again, with its retest, unless the machine got slower meanwhile."""
    done = night.evidence.retest
    repeats = done.rerun if done and not Reruns(night.verdict, done).slower else None
    night.trouble(*sync.keep(store, night.verdict, night.results, repeats))
    if not store:
        return
    with night.survives():
        night.learn(judged_by.count_nights(night.evidence, store, night.run))
    if repeats:
        look_back(night, store)


def reported(night: Night, store: Store | None) -> list[str]:
    """Writes the verdict's files and the report. Returns lines on the report and on the
    comparison."""
    night.correct(replace(night.run, seconds=time.monotonic() - night.began))  # with all reruns
    run, report = night.run, None
    if store and run.session and run.judged:
        with night.survives("no report"):
            now = select(run.session, store)
            report = gather.gather(store, now, night.verdict, night.evidence, of_run=True)
    with night.survives():
        gather.write_verdict(night.verdict, night.results)
    if report is None:
        return ["no report: the store does not have the run"] if run.judged else []
    night.report = replace(report, run=night.verdict)
    try:
        files = gather.write(night.report, night.results)
    except Exception as error:  # a defect of a page must not lose the night's verdict
        if not isinstance(error, OSError):
            traceback.print_exc()
        return [f"no report: {error}"]
    lines = against_earlier(report.comparison) if report.comparison else []
    lines += report.interconnect.lines() if report.interconnect else []
    lines.append(f"report: {paths.shown(files['report.html'])}")
    return wrapped(*lines)
