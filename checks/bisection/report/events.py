"""Events in histories in words: what changed, since when, how sure, and what changed with it."""

import statistics
from collections.abc import Sequence

from bisection.analysis.model import Change, ChangePoint, Event
from bisection.core.format import finite, plural, some, utc
from bisection.core.verdicts import Verdict

MOST = 10  # events that are listed
SHOWN = 20  # metrics of an event in the data of a page
WHOLE = 0.8  # of a check's metrics: the check is named instead
CENTURY = 100  # years: nobody reads more of a chance


def cost(point: ChangePoint) -> float:
    """New cost over old: above 1 is worse, whatever the direction of the metric; 1 if unknown."""
    if not finite(point.ratio) or point.ratio <= 0:
        return 1.0
    return point.ratio if point.better == "lower" else 1 / point.ratio


def state(event: Event) -> str:
    """What an event means, in a word."""
    if event.drift is not None:
        return "drift"
    if event.accepted:
        return "accepted"
    if event.alarm:
        return "worse"
    return "better" if all(p.verdict == Verdict.IMPROVED for p in event.points) else "over"


def what(event: Event) -> str:
    """What changed: checks where most of their metrics did, else the metrics that did most."""
    whole = {name for name, (part, of) in event.metrics.items() if of > 1 and part >= WHOLE * of}
    if len(whole) > 3:
        count = sum(part for part, _ in event.metrics.values())
        return f"{plural(count, 'metric')} of {plural(len(event.metrics), 'check')}"
    texts = [
        f"{name} ({event.metrics[name][0]:,} of {event.metrics[name][1]:,} metrics)"
        for name in sorted(whole)
    ]
    others = [p for p in worst_first(event) if p.check not in whole]
    names = [f"{p.test} {p.metric}" for p in others]
    if len(names) > 3:
        texts.append(f"{plural(len(names), 'metric')}, most {names[0]}")
    elif names:
        texts.append(some(names, 3))
    return "; ".join(texts) or "metrics"


def worst_first(event: Event) -> list[ChangePoint]:
    """The metrics of an event, the largest loss first."""
    return sorted(event.points, key=lambda p: (p.verdict != Verdict.REGRESSED, -abs(cost(p) - 1)))


def size(event: Event) -> str:
    """By how much: of many metrics, the median."""
    if event.drift is not None:
        share = event.drift - 1
        total = event.drift**event.nights - 1
        word = "slower" if share > 0 else "faster"
        return f"{abs(share):.2%} a night {word}, {abs(total):.0%} in {event.nights} nights"
    median = statistics.median(cost(point) for point in event.worse or event.points)
    if median >= 2:
        return f"{median:.3g} times worse"
    return f"{median - 1:.0%} worse" if median >= 1 else f"{1 - median:.0%} better"


def since(event: Event) -> str:
    """The night, and those in which it may have been."""
    first, day, last = (utc(at)[:10] for at in (event.first, event.at, event.last))
    return day if first == last else f"{day} ({first} to {last})"


def sure(event: Event) -> str:
    """How seldom noise would look like it."""
    if event.drift is not None:
        return ""
    years = 1 / max(event.rate, 1e-12)
    if years >= CENTURY:
        return f"by chance less than once in {CENTURY} years"
    return f"by chance once in {plural(max(1, round(years)), 'year')}"


def _change(change: Change) -> str:
    return f"{change.what}: {change.before} -> {change.after}"


def why(event: Event) -> str:
    """What of the environment changed with it, or may have."""
    if event.drift is not None:
        return "no night in which it began"
    if event.changes:
        return f"changed then: {'; '.join(map(_change, event.changes))}"
    if event.candidates:
        shown = event.candidates[:3]
        return "perhaps " + " or ".join(f"{_change(c.change)} ({c.odds:.0%})" for c in shown)
    return "nothing recorded changed then"


def banner(alarms: Sequence[Event]) -> str:
    """The alarms in a line, the event of most metrics with its night."""
    first = alarms[0]
    text = f"{plural(len(first.worse), 'metric')} worse since {utc(first.at)[:10]}"
    if first.changes:
        text += f" ({'; '.join(map(_change, first.changes[:2]))})"
    rest = len(alarms) - 1
    return f"{text}, and {plural(rest, 'more event')}" if rest else text


def alarm_text(events: Sequence[Event]) -> list[str]:
    """A line per alarm."""
    return [
        f"worse since {since(event)}, session {event.session[:8]}: {what(event)}, {size(event)}; "
        f"{why(event)}"
        for event in [event for event in events if event.alarm][:MOST]
    ]
