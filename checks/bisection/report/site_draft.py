"""The site file that `site new` writes, and what it prints meanwhile."""

import json
import re
import textwrap
from collections.abc import Iterable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from bisection.core import paths
from bisection.core.format import amount, duration, one_line, plural, some
from bisection.core.thresholds import LIMITS
from bisection.schedulers.survey import SchedulerSurvey
from bisection.sites.cluster.draft import Draft, DraftPartition

WIDTH = 100


def site_file(site: Draft) -> str:
    """The text of NAME.py."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # they take a second to load

    if not site.survey.kind:
        return _one_host(site.name)
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    named = {"decide": _decide, "comment": _comment, "described": described}
    environment.filters |= {**named, "call": _call, "value": _value}
    day = datetime.now(timezone.utc).strftime("%Y-%m-%d")
    names = {"survey": site.survey, "scheduler": _scheduler(site.survey), "day": day}
    return environment.get_template("site_file.py.jinja").render(site=site, **names)


def _one_host(name: str) -> str:
    """localhost.py with another first line, and without its references."""
    text = (paths.ROOT / "site-configs" / "localhost.py").read_text()
    head = f'"""{name}: one host without a scheduler. Written by `bisection site new {name}`."""\n'
    text = re.sub(r'\A""".*?"""\n', lambda _: head, text, flags=re.DOTALL)
    return re.sub(r'\n *#[^"]*"references": \["ratio"\]', f'\n{" " * 24}"references": []', text)


def _decide(text: str, indent: str) -> str:
    return _comment(f"DECIDE: {text}", f"{indent}# ", f"{indent}#   ")


def _comment(text: str, start: str, further: str = "") -> str:
    return textwrap.fill(
        one_line(text, 2000),
        WIDTH,
        initial_indent=start,
        subsequent_indent=further or start,
        break_on_hyphens=False,
    )


def _call(part: DraftPartition) -> str:
    """The call of common.partition, on as many lines as it needs."""
    words = [f'"{part.name}"', *(f"{name}={_value(v)}" for name, v in part.choices.items())]
    line = f"        common.partition({', '.join(words)}),"
    if len(line) <= WIDTH:
        return line
    separator = "\n            "
    return f"        common.partition({separator}{f',{separator}'.join(words)},\n        ),"


def _value(value: Any) -> str:
    return str(value) if isinstance(value, bool) else json.dumps(value, ensure_ascii=False)


def described(part: DraftPartition) -> str:
    """Returns what a partition is, and the results of its launchers."""
    queue, known = part.queue, part.group.known
    text = f"{plural(len(part.group.nodes), 'node')} of {plural(known.cores, 'core')}"
    text += f" and {known.gres}" if known.gres else ""
    if network := part.network:
        rate = f" {network['rate']:g} Gb/s" if network["rate"] else ""
        text += f", {network['kind']}{rate}"
    text += f", {duration(queue.max_time)} at most" if queue.max_time else ""
    text += ", whole nodes only" if queue.whole_nodes else ""
    text += f"; {called(part)}" if part.taken else ""
    if part.outcome is None:
        return text + ("" if part.decisions else "; no launcher was tried")
    # Of other types of the same launcher only those that were tried before, and failed.
    others = [
        (launcher, fault)
        for launcher, fault in part.others
        if launcher.name != part.launcher.name or (fault and not launcher.options)
    ]
    if right := [str(launcher) for launcher, fault in others if fault is None]:
        text += f"; {' and '.join(right)} {'start' if right[1:] else 'starts'} one world too"
    return "; ".join([text, *(str(fault) for _, fault in others if fault)])


def called(part: DraftPartition) -> str:
    """Returns that a partition has another name than its queue, and why."""
    return f"called {part.name}, as {part.taken} is the name of another partition"


# ---- what is printed ----


def _scheduler(survey: SchedulerSurvey) -> str:
    cluster = f", cluster {survey.cluster}" if survey.cluster else ""
    return f"{survey.kind} {survey.version}".rstrip() + cluster


def about(site: Draft) -> list[str]:
    """Returns the facts known before any job ran."""
    survey, software = site.survey, site.software
    if not survey.kind:
        return ["no scheduler: one host"]
    mpi = f"{software.mpi['kind'] or 'unknown'} {software.mpi['version']}".rstrip()
    loaded = some(software.modules) if software.modules else "none loaded"
    return [
        _scheduler(survey) + ("" if survey.accounting else ", no accounting database"),
        f"MPI: {mpi} ({software.mpi['compiler'] or 'no compiler'}); modules: {loaded}",
        *(f"left out: {reason}" for reason in site.closed),
        *(f"{part.name}: {described(part)}" for part in site.parts if not part.group.up),
        *(f"queue {p.queue.name}: {called(p)}" for p in site.parts if p.taken and p.group.up),
    ]


def tried(part: DraftPartition) -> str:
    """Returns the results of the trial job of a partition."""
    job = f"job {part.trial.job}: " if part.trial.job else ""
    if part.outcome is None:  # why, `decisions` says of all partitions together
        return f"{part.name}: {job}no launcher is proven"
    outcome = part.outcome
    ranks = plural(len(outcome.ranks), "rank")
    text = f"{part.name}: {job}{part.launcher} starts one world of {ranks}"
    if outcome.latency:
        devices = ", ".join(f"{name} {share:.0%}" for name, share in outcome.carried.items())
        text += f"; {duration(outcome.latency)}, {amount(outcome.bandwidth, 'B/s')}"
        text += f" through {devices}" if devices else ""
        if max((link[4] for link in outcome.links), default=0) > LIMITS.disturbed_sample:
            text += ", while other processes had the cores"
    return text


def decisions(site: Draft) -> list[str]:
    """Returns the decisions left to a person; once, where it is so in several partitions."""
    partitions: dict[str, list[str]] = {}
    for name, text in site.all_decisions:
        partitions.setdefault(text, []).append(name)
    return [
        f"decide: {some(names)}: {text}" if names[0] else f"decide: {text}"
        for text, names in partitions.items()
    ]


def moved(changes: Iterable[tuple[str, Any, Any]]) -> list[str]:
    return [
        f"{name}: {_fact(name, before)} -> {_fact(name, after)}" for name, before, after in changes
    ]


UNITS = {"latency": "s", "bandwidth": "B/s", "memory": "B", "max_time": "s"}


def _fact(name: str, value: Any) -> str:
    if value is None:
        return "not there"
    if unit := UNITS.get(name.rpartition(".")[2]):
        return amount(value, unit)
    return one_line(f"{value:.3g}" if isinstance(value, float) else value, 120)
