"""All that this project changes in ReFrame beyond its documented interface, in one place.

Written for the version below; a test fails with any other, so that each is looked at again.
"""

from types import SimpleNamespace
from typing import Any

WRITTEN_FOR = "4.10.4"


def accept_exit(job: Any) -> None:
    """Takes a job for one that ended with 0, where the kernel's own exit code is accepted.

    trap_job_errors fails any other: the back-end `squeue` does not know the code, and srun's may be
    that of a rank which it ended after the first.
    """
    job._exitcode = 0


def start_scripts_below_blanks() -> None:
    """Starts local job scripts by their whole path, which ReFrame would split at blanks."""
    from reframe.core.schedulers import local
    from reframe.utility.osext import run_command_async

    local.osext = SimpleNamespace(
        run_command_async=lambda script, **options: run_command_async([script], **options)
    )


def build_on_node(test: Any, pending: Any) -> None:
    """Makes a test's build a job of its partition, while its run stays local.

    Args:
        test: the test, after its setup.
        pending: the longest time in the queue, as `max_pending_time` takes it.
    """
    test._build_job = test._create_job("build")
    test._build_job.max_pending_time = pending


def set_processor(partition: Any, info: dict[str, Any]) -> None:
    """Gives a partition the processor information that ReFrame found on it earlier."""
    from reframe.core.systems import ProcessorInfo

    partition._processor = ProcessorInfo(info)


def skip_deprecations() -> None:
    """Spares the search for whom to warn of deprecated variables: a third of the time to load."""
    from reframe.core import warnings

    warnings.inspect = SimpleNamespace(stack=list)


def recorded_warnings() -> list[tuple[bool, str]]:
    """From here on, ReFrame's log as [(is it a warning, its text)] in place of its handlers.

    What ReFrame leaves out it says in warnings only.
    """
    from reframe.core import logging

    lines: list[tuple[bool, str]] = []

    class Recorder(logging.LoggerAdapter):
        def log(self, level: int, msg: object, *args: Any, **kwargs: Any) -> None:
            if level >= logging.VERBOSE:
                lines.append((level >= logging.WARNING, str(msg)))

    logging._context_logger = Recorder()
    return lines
