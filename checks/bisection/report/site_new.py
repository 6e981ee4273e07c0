"""The site file that `site new` writes, and what it prints meanwhile."""

import re
import textwrap
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from typing import Any

from bisection.core import paths
from bisection.core.format import amount, duration, lasting, one_line, plural, some
from bisection.core.reasons import Reason, clause
from bisection.sites.cluster.facts import Moved
from bisection.sites.cluster.jobs import AT_ONCE
from bisection.sites.cluster.new import Draft, Part

WIDTH = 100

IMPORTS = """\
from pathlib import Path

from reframe.utility import import_module_from_file

common = import_module_from_file(str(Path(__file__).with_name("common.py")))
"""
# Of a scheduler whose queues are not read.
TO_FILL_IN = """\
        common.partition(
            "default",
            queue="",
            nodes=1,
            launcher="mpirun",
            processor={
                "num_cpus": 1,
                "num_cpus_per_core": 1,
                "num_cpus_per_socket": 1,
                "num_sockets": 1,
            },
        ),
"""


def site_file(site: Draft) -> str:
    """The text of NAME.py."""
    if not site.survey.kind:
        return _one_host(site)
    today = datetime.now(timezone.utc).strftime("%Y-%m-%d")
    name, survey = site.name, site.survey
    cluster = f", cluster {survey.cluster}" if survey.cluster else ""
    head = f"{name}: {survey.kind} {survey.version}".rstrip() + cluster
    lines = [
        f'"""{head}. Written by `bisection site new {name}` on {today}.',
        "",
        *textwrap.wrap(
            f"What the machine said of itself is in {name}.json; `bisection site check {name}` "
            "reports what has changed.",
            WIDTH,
        ),
        '"""',
        "",
        IMPORTS,
        *_decide(site.decisions, 0),
        f"site_configuration = common.{'slurm' if survey.kind == 'Slurm' else 'cluster'}(",
        "    __file__,",
    ]
    if not survey.accounting:
        lines.append(f'    scheduler="{survey.reframe}",  # no accounting database')
    elif survey.kind != "Slurm":
        lines.append(f'    scheduler="{survey.reframe}",')
    for word in ("account", "qos"):
        if value := getattr(site, word):
            lines.append(f'    {word}="{value}",')
    if site.software.modules:
        names = ", ".join(f'"{module}"' for module in site.software.modules)
        lines.append(f"    modules=[{names}],  # that were loaded")
    lines.append("    partitions=[")
    named: set[str] = set()
    for part in site.parts:
        lines += [*_comment(described(part, named), 8), *_decide(part.decisions, 8), _call(part)]
    text = "\n".join(lines) + "\n"
    return text + ("" if site.parts else TO_FILL_IN) + "    ],\n)\n"


def _one_host(site: Draft) -> str:
    """localhost.py with another first line, and without its references."""
    text = (paths.ROOT / "site-configs" / "localhost.py").read_text()
    head = (
        f'"""{site.name}: one host, its cores, the mpirun on PATH; no scheduler was seen here.\n\n'
        f'Written by `bisection site new {site.name}`.\n"""\n'
    )
    text = re.sub(r'\A""".*?"""\n', lambda _: head, text, flags=re.DOTALL)
    claim = r' *# The kinds of metric that must have.*?"references": \["ratio"\],\n'
    return re.sub(claim, f'{" " * 24}"references": [],\n', text, flags=re.DOTALL)


def _decide(reasons: Iterable[Reason], indent: int) -> list[str]:
    return [line for reason in reasons for line in _comment(f"DECIDE: {clause(reason)}", indent)]


def _comment(text: str, indent: int) -> list[str]:
    blanks = " " * indent
    return textwrap.wrap(
        one_line(text, 2000),
        WIDTH,
        initial_indent=f"{blanks}# ",
        subsequent_indent=f"{blanks}#   " if text.startswith("DECIDE") else f"{blanks}# ",
        break_on_hyphens=False,
    )


def _call(part: Part) -> str:
    """The call of common.partition, on as many lines as it needs."""
    words = [f'"{part.name}"', *(f"{name}={_value(v)}" for name, v in part.choices.items())]
    line = f"        common.partition({', '.join(words)}),"
    if len(line) <= WIDTH:
        return line
    return "\n".join(
        ["        common.partition(", *(f"            {word}," for word in words), "        ),"]
    )


def _value(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    return f'"{value}"' if isinstance(value, str) else str(value)


def described(part: Part, named: set[str] | None = None) -> str:
    """Returns what a partition is, and what was found of its launchers.

    Args:
        part: the partition.
        named: launchers of which a partition before said that they start one world, and what it
            said of others; these are named more shortly.
    """
    queue, known = part.queue, part.group.known
    text = f"{plural(len(part.group.nodes), 'node')} of {plural(known.cores, 'core')}"
    text += f" and {known.gres}" if known.gres else ""
    if network := part.network:
        rate = f" {network['rate']:g} Gb/s" if network["rate"] else ""
        text += f", {network['kind']}{rate}"
    text += f", {lasting(queue.max_time)} at most" if queue.max_time else ""
    text += ", whole nodes only" if queue.whole_nodes else ""
    return text + _launchers(part, set() if named is None else named)


def _launchers(part: Part, named: set[str]) -> str:
    if part.outcome is None:
        return "" if part.decisions else "; no launcher was tried"
    right = [str(way) for way, fault in _worth_naming(part) if fault is None]
    text = ""
    if right:
        verb = "start" if right[1:] else "starts"
        known = named.issuperset(right)
        text = f"; {' and '.join(right)} " + ("too" if known else f"{verb} one world too")
        named.update(right)
    for way, fault in _worth_naming(part):
        if fault and (words := clause(fault)):
            text += f"; {way} not" if words in named else f"; {words}"
            named.add(words)
    return text


def _worth_naming(part: Part) -> Sequence[tuple[Any, Reason | None]]:
    """The other launchers; of its own kind only those that were tried before, and failed."""
    return [
        (way, fault)
        for way, fault in part.others
        if way.launcher != part.way.launcher or (fault and not way.options)
    ]


# ---- what is printed ----


def about(site: Draft) -> list[str]:
    """Returns the facts known before any job ran."""
    survey, software = site.survey, site.software
    if not survey.kind:
        return ["no scheduler: one host"]
    head = f"{survey.kind} {survey.version}".rstrip()
    head += f", cluster {survey.cluster}" if survey.cluster else ""
    head += "" if survey.accounting else ", no accounting database"
    mpi = f"{software.kind or 'unknown'} {software.version}".rstrip()
    loaded = some(software.modules) if software.modules else "none loaded"
    lines = [
        head,
        f"MPI: {mpi} ({software.compiler or 'no compiler'}); modules: {loaded}",
        *(f"left out: {clause(reason)}" for reason in site.closed),
    ]
    return lines + [f"{part.name}: {described(part)}" for part in site.parts if not part.group.up]


def waiting(site: Draft, patience: float) -> list[str]:
    """Returns the jobs that are waited for."""
    count = sum(part.group.up > 0 for part in site.parts)
    at_once = f", {AT_ONCE} at a time" if count > AT_ONCE else ""
    jobs = f"{plural(count, 'job')} of seconds{at_once}"
    return [f"{jobs}: each may wait {lasting(patience)} in its queue"] if count else []


def tried(part: Part) -> str:
    """Returns the results of the trial job of a partition."""
    job = f"job {part.trial.job}: " if part.trial and part.trial.job else ""
    if part.outcome is None:  # why, `decisions` says of all partitions together
        return f"{part.name}: {job}no launcher is proven"
    outcome = part.outcome
    text = f"{part.name}: {job}{part.way} starts one world of {plural(len(outcome.ranks), 'rank')}"
    if outcome.latency:
        devices = ", ".join(f"{name} {part:.0%}" for name, part in outcome.carried.items())
        rates = f"{duration(outcome.latency)}, {amount(outcome.bandwidth, 'B/s')}"
        text += f"; {rates}" + (f" through {devices}" if devices else "")
    return text


def decisions(site: Draft) -> list[str]:
    """Returns the decisions left to a person; once, where it is so in several partitions."""
    partitions: dict[Reason, list[str]] = {}
    for reason in site.all_decisions:
        values = {name: value for name, value in reason.values.items() if name != "partition"}
        partitions.setdefault(Reason(reason.code, values), []).append(reason["partition"])
    lines = []
    for reason, names in partitions.items():
        where = {"partition": some(names)} if names[0] else {}
        lines.append(f"decide: {clause(reason.with_values(**where))}")
    return lines


def retry_steps(site: Draft, file: str) -> list[str]:
    """How to begin anew, where a queue has no launcher that is proven, or there is no queue.

    Args:
        site: the draft, once it was tried.
        file: NAME.py, as it can be pasted.
    """
    proven = site.parts and all(part.outcome for part in site.parts)
    if proven or site.unread or not site.survey.kind:
        return []
    return [f"to begin anew: rm {file}, then `bisection site new {site.name}` with other options"]


def moved(changes: Sequence[Moved]) -> list[str]:
    """Facts that are others now."""
    return [
        f"{change.name}: {_fact(change.name, change.before)} -> {_fact(change.name, change.after)}"
        for change in changes
    ]


UNITS = {"latency": "s", "bandwidth": "B/s", "memory": "B", "max_time": "s"}


def _fact(name: str, value: Any) -> str:
    if value is None:
        return "not there"
    if unit := UNITS.get(name.rpartition(".")[2]):
        return amount(value, unit)
    return one_line(f"{value:.3g}" if isinstance(value, float) else value, 120)
