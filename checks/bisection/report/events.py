"""Events in histories in words: what changed, since when, how sure, and what changed with it."""

from collections.abc import Sequence

from bisection.analysis.model import Event
from bisection.core.format import plural, short, utc
from bisection.core.reasons import Reason
from bisection.core.reasons.performance import (
    by_how_much,
    changed_then,
    fact,
    nights,
    what_changed,
)
from bisection.core.verdicts import Verdict
from bisection.judge.alarms import causes, counts, factors, most

MOST = 10  # events that are listed
CENTURY = 100  # years: nobody reads more of a chance


def state(event: Event) -> str:
    """Returns the meaning of an event, in a word."""
    if event.drift is not None:
        return "drift"
    if event.accepted:
        return "accepted"
    if event.alarm:
        return "worse"
    return "better" if all(p.verdict == Verdict.IMPROVED for p in event.points) else "ended"


def size(event: Event) -> str:
    """By how much: of several metrics the median, the least and the most."""
    if event.drift is not None:
        share = event.drift - 1
        total = event.drift**event.nights - 1
        word = "slower" if share > 0 else "faster"
        return f"{abs(share):.2%} a night {word}, {abs(total):.0%} in {event.nights} nights"
    better = len(event.points) - len([p for p in event.points if p.verdict == Verdict.REGRESSED])
    others = f"; {plural(better, 'metric')} better" if event.worse and better else ""
    return by_how_much(*factors(event)) + others


def sure(event: Event) -> str:
    """How seldom noise would look like it, or why it is accepted."""
    if event.accepted:
        return f"accepted: {event.accepted}"
    if event.drift is not None:
        return ""
    years = 1 / max(event.rate, 1e-12)
    if years >= CENTURY:
        return f"by chance less than once in {CENTURY} years"
    return f"by chance once in {plural(max(1, round(years)), 'year')}"


def changed(event: Event) -> str:
    """Returns the changes of the environment with an event, certain or possible."""
    return "no night in which it began" if event.drift else changed_then(*causes(event))


# Columns of a table: head, kind, the cell of an event.
EVENTS = (
    ("event", "text", lambda event: event.session[:8]),
    ("", "text", state),
    ("since", "date", lambda event: nights(event.first, event.at, event.last)),
    ("what", "text", lambda event: short(what_changed(counts(event), most(event)), 300)),
    ("size", "small", size),
    ("changed", "small", lambda event: short(changed(event), 400)),
    ("false alarm", "small", sure),
)


# ---- alarms ----


def banner(alarms: Sequence[Reason]) -> str:
    """The alarms in a line, the event of most metrics with its night."""
    first = alarms[0]
    text = f"{plural(first['worse'], 'metric')} worse since {utc(first['at'])[:10]}"
    if first["changes"]:
        text += f" ({'; '.join(map(fact, first['changes'][:2]))})"
    rest = len(alarms) - 1
    return f"{text}, and {plural(rest, 'more event')}" if rest else text
