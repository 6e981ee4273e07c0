"""What the suite asks of a batch system beyond what ReFrame's back-end does.

Jobs are ReFrame's (reframe.core.schedulers.Job), of a run and of `site new` and `site check` alike:
its back-end writes their scripts, submits and cancels them. Nothing here imports ReFrame, as a
run's own process asks a scheduler, too.
"""

import re
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bisection.core.commands import Answer, option_value
from bisection.core.identity import Geometry
from bisection.core.reasons.base import Reason, Text
from bisection.schedulers.survey import SchedulerSurvey

# A scheduler's command that did not reach the scheduler.
UNREACHABLE = re.compile(
    r"unable to contact|connect|timed? ?out|temporarily unable|communication|no such file", re.I
)
# In the environment: when the deadline of a run is (Unix time), and how long after its start (s).
DEADLINE = "BISECTION_DEADLINE"
# A file's path; its JSON: of a campaign over every node, `first` and `spots` of a Request, and how
# many jobs may be in the queue `at_once`.
SPOTS = "BISECTION_SPOTS"
# A file's path; its JSON: a partition's full name -> lists of nodes, used in turn. They may be too
# many for the environment.
NODES = "BISECTION_NODES"


@dataclass
class JobState:
    """Where a job is."""

    word: str  # the scheduler's
    alive: bool
    reason: str = ""  # of waiting
    hosts: str = ""  # in Slurm's compressed form
    memory: float = 0.0  # B that it has on all hosts together; 0: the scheduler does not say
    error: str = ""  # the scheduler did not answer


@dataclass
class QueuedJob:
    """A job in the queue."""

    id: str
    state: str
    queue: str
    nodes: str  # that it asks for, in Slurm's compressed form
    start: str  # expected, Unix time or N/A
    reason: str  # of waiting


@dataclass
class QueueNode:
    """A node that a queue's jobs may get."""

    name: str  # the scheduler's
    host: str  # its own, by which results have it
    state: str  # "idle", or why it takes no job now
    why: str = ""  # the reason that its scheduler has for that


class Scheduler:
    """A scheduler that ReFrame submits to, and that is asked nothing itself."""

    queue_options: Sequence[str] = ()  # by which a job names its queue
    account_options: Sequence[str] = ()
    reservation_options: Sequence[str] = ()
    cluster_options: Sequence[str] = ()  # by which a job names a cluster other than this host's
    withheld: Sequence[str] = ()  # variables of this process that jobs must not have
    is_local = False  # jobs run on this host
    is_read = False  # `site new` reads its queues, and `site check` its answers
    takes_qos = False
    takes_nodes = False  # jobs may ask for nodes by name
    needs_accounting: bool | None = None  # ReFrame's back-end does; None: there is no such database

    def __init__(
        self,
        name: str,
        title: str = "",
        commands: Sequence[str] = (),
        submits: str = "",
        cancels: str = "",
        asks: Sequence[str] = (),
    ) -> None:
        self.name = name  # ReFrame's
        self.title = title  # its own
        self.commands = commands  # that it is known by
        self.submits, self._cancels = submits, cancels  # its commands for that
        self.asks = asks  # further commands that ReFrame calls

    @property
    def cancels(self) -> str:
        """Its command that cancels jobs of the cluster that is asked, before their numbers."""
        return self._cancels

    def has_command(self, program: str) -> bool:
        return bool(program) and program in (self.submits, self.cancels.split(" ")[0], *self.asks)

    def is_here(self) -> bool:
        return bool(self.commands) and all(map(shutil.which, self.commands))

    # ---- the scheduler ----

    def cluster_named(self, access: Sequence[str]) -> str:
        """The cluster that jobs with these options name; "" for this host's."""
        return option_value(access, *self.cluster_options)

    def enter(self, cluster: str) -> None:
        """Has its commands of this process, and of those that it starts, ask a cluster by name; ""
        for this host's."""

    def in_whose_name(self, access: Sequence[str]) -> tuple[str, str]:
        """The account and the reservation of jobs with these options, "" for none: for `read`."""
        account = option_value(access, *self.account_options)
        return account, option_value(access, *self.reservation_options)

    def read(self, account: str, reservation: str) -> SchedulerSurvey:
        """The survey of its queues for jobs of an account, "" for the user's own, and of a
        reservation, "" for none; SchedulerError if it does not answer."""
        unread = f"{self.title} is not read yet: fill in queue, nodes, launcher, processor"
        return SchedulerSurvey(self.title, self.name, decisions=[Text(unread)])

    def ping(self) -> Answer:
        """Its answer to a question; a good one if it is not asked."""
        return Answer(self.name, 0, "", "")

    def queues(self) -> list[str]:
        """The queues of this cluster; none if they are not known."""
        return []

    def queues_named(self, access: Sequence[str]) -> list[str]:
        """The queues of this cluster that these options name."""
        return [*filter(None, option_value(access, *self.queue_options).split(","))]

    def nodes_of(self, access: Sequence[str]) -> list[QueueNode]:
        """The nodes that jobs with these options may get; none if they are not known."""
        return []

    def hosts(self, access: Sequence[str]) -> Mapping[str, str] | None:
        """The nodes of the queue that these options name: its name -> its own; None: not asked."""
        return None

    def topology(self) -> str:
        """The switches of its nodes, as topology.conf has them; "" if it does not know them."""
        return ""

    def events(self, hosts: Iterable[str]) -> Mapping[str, float]:
        """Events by which facts of these hosts may no longer hold -> their last Unix time."""
        return {}

    # ---- ask: what a job asks for ----

    def ask(self, job: Any, shape: Geometry, limit: float, deadline: float | None) -> None:
        """Has a job of `limit` seconds ask for what ReFrame's back-end does not ask for by itself,
        before its script is written, and not to start after a deadline (Unix time)."""

    def turns(self, name: str) -> list[str]:
        """ReFrame's options by which jobs of this name run one after the other; none where they
        cannot wait in the queue for one another."""
        return []

    def named(self, name: str) -> list[str]:
        """ReFrame's options by which jobs have this name, and run at once."""
        return []

    def shaped(self, shape: Geometry) -> list[str]:
        """What precedes a launcher so that it takes the job for one of another geometry."""
        return []

    def per_node(self, nodes: int) -> list[str]:
        """What precedes a command so that it runs once per node, without MPI, on all cores."""
        return []

    # ---- place: whether a job can run ----

    def place(self, job: Any) -> str | None:
        """Why it could never place a job, whose script is in the current folder; "" if it could,
        None if it cannot be asked."""
        return None

    def is_full(self, refused: str) -> bool:
        """True if it refused a job because the user has as many in the queue as are allowed."""
        return False

    def free(self, job: str) -> bool:
        """Drops the request of a job in the queue for nodes by name; True if that was accepted."""
        return False

    # ---- look and cancel ----

    def look(self, job: Any) -> JobState:
        """Where a job is. Here, ReFrame's back-end asks."""
        job.scheduler.poll(job)
        hosts = ",".join(hosts_of(job.nodelist))
        return JobState(job.state or "", not job.finished(), hosts=hosts)

    def queued(self, name: str) -> list[QueuedJob] | None:
        """The jobs of a name; None if it does not answer."""
        return []

    def cancel(self, jobs: Iterable[str]) -> None:
        """Cancels jobs by their numbers."""

    # ---- cause ----

    def cause(self, job: Any, ended: bool = False, said: Callable[[], str] = str) -> Reason | None:
        """Why the scheduler stopped a job, or lost sight of it, which ReFrame takes for finished;
        None if it did not. `ended`: it came to its last command; `said`: looks for the word
        that its output has for the end of a job, "" if it has none."""
        return None


def hosts_of(listed: Iterable[str] | None) -> list[str]:
    """The nodes of a job as ReFrame lists them, which is "None" if the job left the queue before
    ReFrame looked."""
    return [name for name in listed or () if name != "None"]


class Local(Scheduler):
    """No scheduler: jobs run on this host."""

    is_local = is_read = True

    def is_here(self) -> bool:
        return True

    def read(self, account: str, reservation: str) -> SchedulerSurvey:
        return SchedulerSurvey(kind="", reframe=self.name)
