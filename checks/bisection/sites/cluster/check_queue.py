"""Probes of a site before its job: the file, the scheduler, the queue, its nodes, a place in it."""

import math

from bisection.core.reasons import Code
from bisection.core.slurm import SLURM
from bisection.core.thresholds import LIMITS
from bisection.sites.cluster import jobs
from bisection.sites.cluster.check_model import Finding, Subject, not_tried, ok, wrong
from bisection.sites.cluster.schedulers import SCHEDULERS
from bisection.sites.cluster.survey import Survey
from bisection.sites.rules import site_defects

LONGEST_LAUNCH = 15 * 60  # s, Launch.time_limit (bisection/rfm/launch.py)


def loads(subject: Subject) -> Finding:
    """The site file loads, with all checks, as `bisection doctor` has it."""
    site = subject.site
    defects = [d for d in [*site.defects, *site_defects(site)] if not d.is_note]
    if defects:
        first, more = defects[0], len(defects) - 1 or None
        where = {"path": first.path, "line": first.line}
        return wrong(Code.SITE_DEFECTS(**where, first=first.reason, more=more))
    return ok(Code.SITE_LOADS(partitions=len(site.partitions)))


def scheduler_answers(subject: Subject) -> Finding:
    """The scheduler answers."""
    if unread := subject.schedulers - SCHEDULERS.keys():
        return not_tried(Code.SCHEDULER_UNASKED(scheduler=min(unread)))
    if subject.schedulers == {"local"}:
        return ok(Code.NO_SCHEDULER())
    survey = _survey(subject)
    version = f"{survey.kind} {survey.version}"
    return ok(Code.SCHEDULER_ANSWERS(version=version, cluster=survey.cluster or None))


def _survey(subject: Subject) -> Survey:
    """The survey of a partition's scheduler, read once per account; SchedulerError if it does not
    answer."""
    account = subject.account
    if account not in subject.surveys:
        subject.surveys[account] = subject.scheduler.survey(account)
    return subject.surveys[account]


def accounting(subject: Subject) -> Finding | None:
    """ReFrame's back-end `slurm` needs sacct."""
    if not subject.schedulers & {*SLURM}:
        return None
    if "slurm" not in subject.schedulers:
        return ok(Code.ACCOUNTING(backend="squeue"))
    answers = next(iter(subject.surveys.values())).accounting
    return ok(Code.ACCOUNTING(backend="slurm")) if answers else wrong(Code.NO_ACCOUNTING())


def account(subject: Subject) -> Finding | None:
    """The queue is open to this user and account."""
    if subject.local:
        return None
    survey = _survey(subject)
    used, name = subject.account or None, subject.queue_name
    if survey.account_needed:
        if not used and survey.decisions:
            return wrong(survey.decisions[0])
        if used and used not in survey.accounts:
            return wrong(Code.ACCOUNT_UNKNOWN(account=used, accounts=survey.accounts))
    if (info := subject.info) is None:
        known = [queue.name for queue in survey.queues]
        return wrong(Code.QUEUE_UNKNOWN(queue=name, known=known)) if name else None
    if info.closed and info.closed.code != Code.QUEUE_EMPTY:
        return wrong(info.closed)
    needed = survey.account_needed or None
    return ok(Code.QUEUE_OPEN(queue=info.name, account=used, needed=needed))


def nodes_up(subject: Subject) -> Finding | None:
    """Enough nodes of the queue take jobs."""
    if (info := subject.info) is None:
        return None
    feature = subject.option("-C", "--constraint")
    nodes = [node for group in info.groups for node in group.nodes]
    # A constraint may be an expression, which is Slurm's to evaluate.
    nodes = [node for node in nodes if feature in node.features] or nodes
    down = subject.scheduler.unavailable(subject.access, nodes)
    up = sum(node.up for node in nodes)
    values = {"up": up, "nodes": len(nodes), "asked": subject.nodes, "down": down or None}
    return (ok if up >= subject.nodes else wrong)(Code.NODES_UP(**values))


def placed(subject: Subject) -> Finding | None:
    """Slurm could place a launch of each layout; it is asked, and nothing is submitted."""
    if subject.partition["scheduler"] not in SLURM:
        return None
    scheduler, file = subject.scheduler, subject.folder / f"{subject.name}.place.sh"
    output, minutes = file.with_suffix(".out"), -(-launch_limit(subject) // 60)
    for layout, shape in subject.shapes.items():
        header = scheduler.header(subject.queue, shape, output, minutes)
        file.write_text(jobs.script(header, []))
        if words := scheduler.refusal(file):
            return wrong(Code.NOT_PLACED(layout=layout, geometry=str(shape), refused=words))
    return ok(Code.PLACED(layouts=[[name, str(shape)] for name, shape in subject.shapes.items()]))


def launch_limit(subject: Subject) -> int:
    """The time limit of a launch, s."""
    return min(LONGEST_LAUNCH, subject.extras.get("max_time", LONGEST_LAUNCH))


def limits(subject: Subject) -> Finding | None:
    """A launch may have the memory and the time that it needs.

    The largest launch of the nightly tier is that of the patterns; what other kernels need hardly
    depends on the machine.
    """
    trial, asked = subject.trial, launch_limit(subject)
    longest = subject.info.max_time if subject.info else None
    if longest is not None and longest < asked:
        return wrong(Code.TIME_SHORT(limit=longest, asked=asked))
    if not trial.nodes:
        return None
    node = min(trial.nodes, key=lambda node: node["granted"])
    memory = min(node["granted"], trial.memory or math.inf)
    buffers = LIMITS.patterns_memory * 2**20 * subject.partition["cores"]
    needed = LIMITS.node_memory * 2**30 + buffers
    values = {"memory": memory, "needed": needed, "host": node["host"]}
    if memory < needed:
        return wrong(Code.MEMORY_SHORT(**values))
    return ok(Code.LIMITS_SUFFICE(**values, limit=longest))
