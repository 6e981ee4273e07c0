"""All that this project changes in ReFrame beyond its documented interface, in one place.

Written for the version below; a test fails with any other, so that each is looked at again.
"""

import copy
import os
import shlex
import tempfile
from collections.abc import Callable
from functools import cache, partial
from types import NoneType, SimpleNamespace
from typing import Any

from reframe.core import fields, logging, pipeline
from reframe.core.runtime import runtime
from reframe.core.schedulers import local
from reframe.core.schedulers.pbs import PbsJobScheduler
from reframe.core.schedulers.slurm import SlurmJobScheduler
from reframe.core.systems import ProcessorInfo
from reframe.core.variables import VarSpace
from reframe.frontend import executors
from reframe.frontend.executors.policies import AsynchronousExecutionPolicy as Policy
from reframe.frontend.loader import RegressionCheckLoader
from reframe.utility import jsonext
from reframe.utility.osext import run_command_async

from bisection.core.paths import TEMPORARY
from bisection.core.slurm import SLURM

WRITTEN_FOR = "4.10.4"


def accept_exit(job: Any) -> None:
    """Takes a job for one that ended with 0, where the kernel's own exit code is accepted.

    trap_job_errors fails any other. The back-end `squeue` knows no code, and the code of srun is
    that of the ranks which it ended after the first.
    """
    job._exitcode = 0


def give_back_temporary_folder() -> None:
    """Lets jobs have the machine's own folder of temporary files, and not the one that a run gives
    ReFrame for the log of its start (bisection.runs.command.environment)."""
    if (before := os.environ.pop(TEMPORARY, None)) is not None:
        os.environ["TMPDIR"] = before
        if not before:
            del os.environ["TMPDIR"]
        tempfile.tempdir = None  # what it was found to be


def start_scripts_below_blanks() -> None:
    """Starts local job scripts by their whole path, which ReFrame would split at blanks; as would
    the shell the folder that scripts of PBS change to."""
    preamble = PbsJobScheduler.emit_preamble
    PbsJobScheduler.emit_preamble = lambda self, job: [
        f"cd {shlex.quote(job.workdir)}" if line == f"cd {job.workdir}" else line
        for line in preamble(self, job)
    ]
    local.osext = SimpleNamespace(
        run_command_async=lambda script, **options: run_command_async([script], **options)
    )


def take_over_slurm(
    submit: Callable[[Callable[[Any], None], Any], None], spared: Callable[[Any, Any], list[Any]]
) -> None:
    """Changes ReFrame's back-ends of Slurm. They no longer stop a second at each job that ReFrame
    itself has cancelled.

    Args:
        submit: submits a job; it gets ReFrame's own way to do it, and the job.
        spared: those of the jobs in its first argument that are not to be cancelled for Slurm's
            reason of waiting. The second one has the reasons by job number, None where ReFrame has
            yet to ask.
    """
    original, wait = SlurmJobScheduler.submit, SlurmJobScheduler.wait
    cancel = SlurmJobScheduler._cancel_if_blocked

    def cancel_others(self: Any, jobs: Any, reasons: Any = None) -> None:
        spare = spared(jobs, reasons)
        cancel(self, [job for job in jobs if job not in spare], reasons)

    SlurmJobScheduler.submit = lambda self, job: submit(partial(original, self), job)
    SlurmJobScheduler.wait = lambda self, job: job.is_cancelling or wait(self, job)
    SlurmJobScheduler._cancel_if_blocked = cancel_others


def queue_at_once(jobs: int) -> None:
    """Lets ReFrame queue at least so many jobs of a Slurm partition at once, whatever its site
    file says."""
    for partition in runtime().system.partitions:
        if partition.scheduler.registered_name in SLURM:
            partition._max_jobs = max(partition._max_jobs, jobs)


def submit_within(allowed: Callable[[], float]) -> None:
    """Has ReFrame go on with other tests while `allowed()` jobs are in queues, in place of
    submitting more."""
    original = Policy._advance_ready_run

    def advance(self: Any, task: Any) -> int:
        tasks = self._partition_tasks.items()
        queued = sum(len(jobs) for name, jobs in tasks if name != "_rfm_local")
        return original(self, task) if task.check.local or queued < allowed() else 0

    Policy._advance_ready_run = advance


def build_on_node(test: Any, pending: Any) -> None:
    """Makes a test's build a job of its partition; its run stays local, where `local` is set again
    after the build.

    Args:
        test: the test, after its setup.
        pending: the longest time in the queue, as `max_pending_time` takes it.
    """
    test._build_job = test._create_job("build", sched_options=test.job.cli_options)
    test._build_job.max_pending_time = pending
    test.local = test.build_locally = False  # the asynchronous policy polls by them


def set_processor(partition: Any, info: dict[str, Any]) -> None:
    """Gives a partition the processor information that ReFrame detected on it earlier."""
    partition._processor = ProcessorInfo(info)


def hasten_loading() -> None:
    """Prepares a class once for all of its tests: two thirds of the time that checks take to load.

    ReFrame declares the variables of a class, converts their defaults and looks for attributes that
    cannot be copied again for every test. What differs between tests of one class are values.
    """
    inject, validate = VarSpace._inject, RegressionCheckLoader._validate_check
    if getattr(inject, "once", False):
        return

    def values(self: Any, test: Any, kind: type) -> None:
        if not vars(self).get("declared"):
            inject(self, test, kind)
            self.declared = True
            return
        for name, variable in self.items():
            if variable.is_defined():
                value = variable._default_value
                plain = type(value) in (bool, float, int, str, NoneType)
                test.__dict__[name] = value if plain else copy.deepcopy(value)

    valid: set[type] = set()

    def accepted(self: Any, test: Any) -> bool:
        if type(test) not in valid:
            if not validate(self, test):
                return False
            valid.add(type(test))
        return True

    values.once = True  # type: ignore[attr-defined]  # a mark of ours on a function
    VarSpace._inject, RegressionCheckLoader._validate_check = values, accepted


def hasten_judging() -> None:
    """Takes two thirds off ReFrame's own time per test.

    libyaml reads the references. A test that no other depends on is not dumped with all that its
    launch measured. ReFrame reads deprecated variables for each log and report: it searches the
    stack for who does so once per variable.
    """
    library = pipeline.yaml
    loader = getattr(library, "CSafeLoader", library.SafeLoader)
    pipeline.yaml = SimpleNamespace(safe_load=partial(library.load, Loader=loader))
    fields.user_deprecation_warning = cache(fields.user_deprecation_warning)
    executors.jsonext = SimpleNamespace(
        dump=lambda test, file, **how: test.is_fixture() and jsonext.dump(test, file, **how)
    )


def recorded_warnings() -> list[tuple[bool, str]]:
    """From here on, ReFrame's log as [(is it a warning, its text)] in place of its handlers.

    What ReFrame leaves out it says in warnings only.
    """
    lines: list[tuple[bool, str]] = []

    class Recorder(logging.LoggerAdapter):
        def log(self, level: int, msg: object, *args: Any, **kwargs: Any) -> None:
            if level >= logging.VERBOSE:
                lines.append((level >= logging.WARNING, str(msg)))

    logging._context_logger = Recorder()
    return lines
