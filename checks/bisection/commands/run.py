"""Runs a tier of checks with ReFrame and ends with a verdict on this machine.

Arguments that are not listed here are passed to ReFrame (-n NAME, -S VAR=VALUE, ...).
At the end of the run, launches that other processes disturbed are rerun. A retest follows for:
  metrics outside their limits, or slower than in all earlier sessions
  nodes that look slow
  metrics that may have got worse lately
A test that the retest does not confirm passes, with a note. A wrong answer fails without a retest.
"""

import argparse
import math
import re
from datetime import datetime, timezone

from bisection.core.format import at_least, node_hours, seconds_of
from bisection.core.verdicts import TIERS, BisectionError, Exit
from bisection.judge import decision
from bisection.night.actions import Most
from bisection.night.night import run_night
from bisection.night.prepare import Order
from bisection.report import verdict_text
from bisection.runs import command
from bisection.store.selection import HELP

CODES = {
    Exit.OK: "every selected check ran and passed",
    Exit.FAILED: "a check failed, or a component of the network is bad",
    Exit.NOT_MEASURED: "a check did not run, something looks slower and was not retested, or the "
    "verdict on the network is `look`",
    Exit.SLOWER: "metrics, by a retest; a node, or a component of the network, that got worse; or "
    "metrics since an earlier session",
    Exit.INTERRUPTED: "before the first launch; nothing is kept",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    lines = [f"  {n:12} {t.minutes:3}  {t.purpose}" for n, t in TIERS.items()]
    parser.epilog = "\n".join(["tiers, with minutes on two quiet cores, at most:", *lines])
    add = parser.add_argument
    text = "one of those below; default: nightly; with --every-node: nodes"
    add("--tier", choices=TIERS, metavar="TIER", help=text)
    text = "site-configs/NAME.py, or DIR/NAME.py; also NAME:PARTITION; default: localhost"
    add("--system", default="localhost", metavar="NAME", help=text)
    text = "how the kernels are built: system, spack, or an environment of the site"
    add("-p", dest="environ", metavar="NAME", help=text)
    text = "name the session, such as phase=before; other commands select it by that name"
    add("--tag", action="append", default=[], type=command.tag, metavar="NAME=VALUE", help=text)
    text = "time budget for retests; up to half may go to rerunning disturbed launches. 0: no "
    text += "retest, so metrics outside their limits fail; default: 10m"
    add("--retest", default="10m", type=seconds_of, metavar="DURATION", help=text)
    text = f"compare the run with these sessions, such as network=old; {HELP}; default: earlier "
    add("--against", metavar="SESSIONS", help=f"{text}sessions of its kind")
    text = "wait up to this time for a quiet machine; if it stays busy, run nothing, exit with 3"
    add("--wait", type=seconds_of, metavar="DURATION", help=text)
    text = "start no launch later than this after the start of the run; launches that have not "
    text += "started are BLOCKED; such as 90s, 30m or 6h"
    add("--deadline", type=seconds_of, metavar="DURATION", help=text)
    text = "the Slurm reservation that all jobs use, in place of the site file's"
    add("--reservation", default="", metavar="NAME", help=text)
    text = "accept kernels that were built from other sources than this checkout's"
    add("--stale", action="store_true", help=text)
    text = "repeat the launches on other idle nodes, until one run can identify a slow node"
    add("--sweep-nodes", action="store_true", help=text)
    text = "judge each node of the partitions beside its peers, by launches of one node and two; "
    text += "a run with the same NAME goes on where the last one ended; default: the day"
    day, form = datetime.now(timezone.utc).strftime("%Y-%m-%d"), "NAME"
    add("--every-node", nargs="?", type=campaign, const=day, metavar=form, help=text)
    text = "with --every-node: launch nothing that would use more; nodes beyond it are listed"
    add("--node-hours", type=node_hours, default=math.inf, metavar="HOURS", help=text)
    text = "with --every-node: measure nodes again that earlier sessions of NAME have measured"
    add("--anew", action="store_true", help=text)
    text = "with --every-node: jobs in the queue at the same time, at most; default: 100"
    add("--at-once", type=at_least(1), default=100, metavar="JOBS", help=text)
    text = "a command to be called once per bad node, in place of the site file's `on_suspect`; "
    add("--on-suspect", metavar="COMMAND", help=f"{text}without --act it is only printed")
    text = "call that command, for at most so many nodes a day, and so many percent of the "
    text += "partitions' nodes; default: 2,5%%"
    form, usual = "NODES[,PERCENT%]", Most(2, 5.0)
    add("--act", dest="most", nargs="?", type=Most.parsed, const=usual, metavar=form, help=text)
    text = "send the verdict there, in place of the site file's `notify`; may be given again; "
    text += "TEMPLATE: a JSON file, or chat"
    add("--notify", action="append", default=[], metavar="[TEMPLATE=]URL", help=text)
    text = "print every test with its metrics and limits"
    add("--verbose", action="store_true", help=text)


def campaign(text: str) -> str:
    if not re.fullmatch(r"\w[\w.:-]*", text):
        raise argparse.ArgumentTypeError(f"{text!r}: not a name of letters, digits, and _ . : -")
    return text


def act(options: argparse.Namespace) -> Exit:
    every = bool(options.every_node)
    for name in ("tier", "against", "sweep_nodes") if every else ():
        if getattr(options, name):
            other = f"--{name.replace('_', '-')}"
            raise BisectionError(f"{other} is of another kind of run than --every-node")
    for argument in options.rest if every else ():
        name = argument.partition("=")[0]  # ReFrame takes shortened ones
        if len(name) > 3 and any(option.startswith(name) for option in command.REPEATS):
            raise BisectionError(f"{argument}: --every-node repeats the launches that need it")
    order = Order(
        tier=options.tier or ("nodes" if every else "nightly"),
        system=options.system,
        environ=options.environ,
        arguments=tuple(options.rest),
        tags=tuple(options.tag),
        retest=options.retest,
        against=options.against,
        wait=options.wait,
        deadline=options.deadline,
        accepts_stale=options.stale,
        sweeps_nodes=options.sweep_nodes,
        every_node=options.every_node or "",
        node_hours=options.node_hours,
        at_once=options.at_once,
        anew=options.anew,
        reservation=options.reservation,
        on_suspect=options.on_suspect,
        acts=options.most,
        notify=tuple(options.notify),
    )
    verdict, about = run_night(order)
    text = verdict_text.text(verdict, options.verbose)
    print("\n".join([*text, *about, *verdict_text.next_step(verdict)]))
    return decision.of_run(verdict)
