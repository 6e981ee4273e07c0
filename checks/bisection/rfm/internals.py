"""All that this project changes in ReFrame beyond its documented interface, in one place.

Written for the version below; a test fails with any other, so that each is looked at again.
"""

import contextlib
import math
import os
import shlex
import tempfile
from collections.abc import Callable, Sequence
from functools import cache, partial
from types import SimpleNamespace
from typing import Any

from reframe.core import fields, logging, pipeline, variables
from reframe.core.decorators import TestRegistry
from reframe.core.runtime import runtime
from reframe.core.schedulers import local, slurm
from reframe.core.schedulers.pbs import PbsJobScheduler
from reframe.core.systems import ProcessorInfo
from reframe.frontend import executors, filters
from reframe.frontend.executors.policies import AsynchronousExecutionPolicy as Policy
from reframe.frontend.loader import RegressionCheckLoader
from reframe.utility import jsonext
from reframe.utility.osext import run_command_async

from bisection.core.paths import TEMPORARY

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


def submit_from_threads() -> None:
    """Keeps ReFrame from emptying this process's environment, for a moment, as it submits to Slurm:
    other threads would start their commands without it. The user's options of sbatch, which ReFrame
    leaves out by that, leave for good."""
    for name in [name for name in os.environ if name.startswith("SBATCH_")]:
        del os.environ[name]
    slurm.rt = SimpleNamespace(temp_environment=lambda **_: contextlib.nullcontext())


def take_over_slurm(
    submit: Callable[[Callable[[Any], None], Any], None],
    spared: Callable[[Any, Any], list[Any]],
    overdue: Callable[[Sequence[Any]], list[Any]],
) -> None:
    """Changes ReFrame's back-ends of Slurm. They no longer stop a second at each job that ReFrame
    itself has cancelled.

    Args:
        submit: gets ReFrame's own way to submit a job, and the job.
        spared: gets jobs, and Slurm's reasons by job number, None where ReFrame has yet to ask;
            returns those of the jobs that are not to be cancelled for these.
        overdue: gets jobs, and returns those that are to be cancelled, as they wait too long.
    """
    original, wait = slurm.SlurmJobScheduler.submit, slurm.SlurmJobScheduler.wait
    cancel = slurm.SlurmJobScheduler._cancel_if_blocked

    def cancel_others(self: Any, jobs: Any, reasons: Any = None) -> None:
        spare = spared(jobs, reasons)
        cancel(self, [job for job in jobs if job not in spare], reasons)

    slurm.SlurmJobScheduler.submit = lambda self, job: submit(partial(original, self), job)
    slurm.SlurmJobScheduler.wait = lambda self, job: job.is_cancelling or wait(self, job)
    slurm.SlurmJobScheduler._cancel_if_blocked = cancel_others
    slurm.SlurmJobScheduler._cancel_if_pending_too_long = lambda self, jobs: self.cancel_many(
        overdue(jobs)
    )


def queue_at_once(jobs: int, above: float = math.inf) -> None:
    """Lets ReFrame queue at least so many jobs of a partition at once. A limit of its site file
    that is `above` this stays."""
    for partition in runtime().system.partitions:
        if partition._max_jobs <= above:
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
    """Makes a test's build a job of its partition, after its setup; its run stays local, where
    `local` is set again after the build. `pending`: as `max_pending_time`."""
    test._build_job = test._create_job("build", sched_options=test.job.cli_options)
    test._build_job.max_pending_time = pending
    test.local = test.build_locally = False  # the asynchronous policy polls by them


def set_processor(partition: Any, info: dict[str, Any]) -> None:
    """Gives a partition the processor information that ReFrame detected on it earlier."""
    partition._processor = ProcessorInfo(info)


def make_only(names: Sequence[str]) -> None:
    """Has ReFrame make only the tests that these patterns of its option -n select. It makes all
    tests, a millisecond each, and selects then; the class and its variants know the names."""
    selects = filters.have_any_name(names)
    make = TestRegistry.instantiate_all

    def is_selected(kind: type, variant: int) -> bool:
        test: Any = object.__new__(kind)
        test.__dict__["_rfm_variant_num"] = variant
        return bool(selects(SimpleNamespace(check=test)))

    def make_selected(self: Any, *arguments: Any, **options: Any) -> list[Any]:
        for kind, calls in self._tests.items():
            calls[:] = [call for call in calls if is_selected(kind, call[1]["variant_num"])]
        return make(self, *arguments, **options)

    TestRegistry.instantiate_all = make_selected


def make_only_kinds(wanted: Callable[[Any], bool]) -> None:
    """Has ReFrame make only the tests of the classes that are wanted."""
    make = TestRegistry.instantiate_all

    def make_wanted(self: Any, *arguments: Any, **options: Any) -> list[Any]:
        for kind in self._tests:
            self._tests[kind][:] = self._tests[kind] if wanted(kind) else []
        return make(self, *arguments, **options)

    TestRegistry.instantiate_all = make_wanted


def hasten() -> None:
    """Takes two thirds off ReFrame's own time per test, loaded or judged.

    It declares the variables of a class and looks for attributes that cannot be copied again for
    every test; tests of one class differ in values. It searches the stack for who reads a
    deprecated variable once per variable. libyaml reads the references. A test that no other
    depends on is not dumped with all that its launch measured.
    """
    warn = fields.user_deprecation_warning
    if hasattr(warn, "cache_info"):
        return
    fields.user_deprecation_warning = variables.user_deprecation_warning = cache(warn)
    inject, validate = variables.VarSpace._inject, RegressionCheckLoader._validate_check
    declared: set[type] = set()
    valid: set[type] = set()

    def values(self: Any, test: Any, kind: type) -> None:
        if kind not in declared:
            declared.add(kind)
            inject(self, test, kind)
        else:
            test.__dict__.update({n: v.default_value for n, v in self.items() if v.is_defined()})

    def accepted(self: Any, test: Any) -> bool:
        if type(test) not in valid and validate(self, test):
            valid.add(type(test))
        return type(test) in valid

    variables.VarSpace._inject, RegressionCheckLoader._validate_check = values, accepted
    library = pipeline.yaml
    loader = getattr(library, "CSafeLoader", library.SafeLoader)
    pipeline.yaml = SimpleNamespace(safe_load=partial(library.load, Loader=loader))
    executors.jsonext = SimpleNamespace(
        dump=lambda test, file, **how: test.is_fixture() and jsonext.dump(test, file, **how)
    )


def limit_posts(seconds: float) -> None:
    """Has ReFrame's handler httpjson wait so long (s) for a server's answer, and send it nothing
    more once it has not answered. It waits for ever otherwise, and the run with it."""
    library = logging.requests
    silent: dict[str, Exception] = {}  # by URL

    def post(url: str, **how: Any) -> Any:
        if url in silent:
            raise silent[url]
        try:
            return library.post(url, **{**how, "timeout": seconds})
        except library.exceptions.RequestException as error:
            silent[url] = error
            raise

    logging.requests = SimpleNamespace(post=post, exceptions=library.exceptions)


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
