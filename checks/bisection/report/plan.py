"""Plans for people: how many nights a change takes, and which launches a night should have."""

import shlex
from collections.abc import Iterable, Iterator, Sequence

from bisection.analysis.budget import NightlyLaunch, NightPlan
from bisection.analysis.power import Power
from bisection.core.format import number, plural, some, utc
from bisection.core.grouping import grouped
from bisection.core.identity import TestId
from bisection.core.thresholds import LIMITS
from bisection.report.text_tables import columns
from bisection.runs.command import NAMES, launch_pattern, once, rerun
from bisection.runs.run_verdict import Request
from bisection.store.database import Session

LISTED = 20  # launches that are left out


def nights_needed(
    entries: Iterable[tuple[str, str, int, int, Power]], effect: float
) -> Iterable[str]:
    """Lines on how many nights it takes to see a change of this size, a part of the value."""
    head = ["kernel", "where", "metrics", "nights", "noise", "night-to-night correlation"]
    lines = [[*head, "nights per side to compare", "until an alarm", "at best with repeats"]]
    for place, kernel, metrics, nights, power in entries:
        noise = [f"{power.sigma:.1%}", f"{power.rho:.1f}"]
        needed = power.needed(effect) or f"above {LIMITS.plan_most}"
        delays = (
            power.alarm(effect, n) or f"above {LIMITS.latest_nights}"
            for n in (1, 1 + LIMITS.retest_most)
        )
        lines.append([kernel, place, *map(str, (metrics, nights, *noise, needed, *delays))])
    yield from columns(lines)
    yield (
        f"{LIMITS.seen:.0%} of such comparisons find a change of {effect:.1%} of one metric. "
        "`run` raises an alarm at such a change in half of all cases within the nights of the last "
        "two columns: without repeats, and with a repeat in each night (--retest)."
    )


def noise_of(sessions: Sequence[Session]) -> str:
    span = f"{utc(sessions[0].start)} to {utc(sessions[-1].start)}"
    return f"noise of {plural(len(sessions), 'session')}, {span}"


def proposed(
    proposals: Sequence[NightPlan], sessions: Sequence[Session], effect: float
) -> Iterable[str]:
    """Lines on a night within a budget: its cost, what it finds and gives up, how to run it."""
    best = max(proposals, key=lambda each: each.finds[1] * each.reach)
    head = ["nodes", "reached", "launches", "node-hours", "finds", "of", "node-hours", "finds"]
    rows = [head]
    for each in proposals:
        cells = [str(each.nodes) + " *" * (each is best), f"{each.reach:.0%}"]
        sides = zip((each.chosen, each.launches), each.hours[::-1], each.finds[::-1], strict=True)
        for launches, hours, part in sides:
            count = sum(not launch.needs for launch in launches)
            cells += [str(count), number(hours), f"{part:.0%}"]
        rows.append(cells)
    yield from columns(rows)
    yield (
        f"finds: the part of slow-downs of {effect:.0%} at which `run` raises an alarm within "
        f"{LIMITS.plan_nights} nights; "
        "assuming that all checks, methods and layouts are equally likely to become slower."
    )
    yield f"reached: the part of the nodes on which it launches within {LIMITS.plan_nights} nights."
    if best.given_up:
        names = some((" ".join(kind) for kind in best.given_up), len(best.given_up))
        yield f"given up, without any launch: {names}"
    if best.left_out:
        rows = [["left out", "node-hours", "would add", "others find", "most of it"]]
        for out in best.left_out[:LISTED]:
            rest = [f"{100 * out.adds:.1f} points", f"{out.kept:.0%} of its", out.by or "-"]
            rows.append([out.launch.name, number(out.launch.hours), *rest])
        yield from columns(rows)
        if more := best.left_out[LISTED:]:
            yield f"and {plural(len(more), 'launch', 'launches')} that would add less"
    tags, usual = sessions[-1].tags, Request()
    request = Request(
        tags.get("tier", usual.tier),
        tags.get("system", usual.system),
        tags.get("environ", usual.environ),
    )
    arguments = once(shlex.split(tags.get("arguments", "").replace(";", ",")), NAMES)
    selected = [word for name in patterns(best.chosen) for word in ("-n", name)]
    request.arguments = [*arguments, *selected]
    days = f"{utc(sessions[0].start)[:10]}..{utc(sessions[-1].start)[:10]}"
    yield f"run it: {rerun((), request)} --against {days}"


def patterns(launches: Iterable[NightlyLaunch]) -> Iterator[str]:
    """ReFrame's patterns that select these launches, for each layout and its checks."""
    groups = grouped(launches, lambda launch: (launch.checks, launch.layout))
    for (checks, layout), group in groups.items():
        cases = _any(each.case for each in group)
        yield launch_pattern(TestId("", "", "", _any(checks), cases, layout, ""))


def _any(names: Iterable[str]) -> str:
    names = list(dict.fromkeys(names))
    return f"({'|'.join(names)})" if names[1:] else names[0]
