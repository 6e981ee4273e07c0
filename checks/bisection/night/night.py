"""A night: one `bisection run`, from the site's files to the report."""

import time
from collections.abc import Sequence

from bisection.core import paths
from bisection.core.lock import measure_alone
from bisection.core.slurm import SLURM
from bisection.night import prepare
from bisection.night.conclude import Night, conclude, named
from bisection.night.measure import measure
from bisection.night.prepare import Order
from bisection.report.lines import commanded
from bisection.runs import command, folder, waiting
from bisection.runs.model import RunVerdict
from bisection.store import sync


def run_night(order: Order) -> tuple[RunVerdict, Sequence[str]]:
    """One run: prepare, wait, watch, judge, keep, store, compare, look back, retest, report.
    Returns its verdict, and lines on its results folder and its report."""
    measure_alone()
    began = time.time()
    request, site, partitions = prepare.prepare(order)
    prepare.look_at_machine(site, partitions, order.wait)
    schedulers = {partition["scheduler"] for partition in partitions}
    request.is_local = schedulers == {"local"}
    if order.deadline is not None:
        request.deadline, request.until = order.deadline, began + order.deadline
    damaged = sync.set_damaged_aside(paths.home())
    against = named(order.against)
    results = folder.new_folder()
    if schedulers <= set(SLURM):
        request.job_name = waiting.job_name(results)
    partitions = prepare.choose_partitions(request, partitions)
    prepare.choose_nodes(request, partitions, order.sweeps_nodes)
    request.command = command.command(request, site, results, order.tags)
    print("\n".join(commanded("command", command.pasted(request.command))), flush=True)
    launched = folder.named(measure(request, results), results)
    night = Night(launched.noting(troubles=damaged), site, results)
    night.began -= launched.seconds
    budget = order.retest
    if request.deadline:  # nothing fits into the last second
        budget = min(budget, max(request.until - time.time(), 1.0))
    lines = conclude(night, budget, against, partitions)
    return night.verdict, lines
