"""Events in histories in words: what changed, since when, how sure, and what changed with it."""

from collections.abc import Mapping, Sequence
from typing import Any

from bisection.analysis.model import Event
from bisection.core.format import plural, some, utc
from bisection.core.reasons import Reason
from bisection.core.verdicts import Verdict
from bisection.judge.alarms import causes, counts, factors, most, whole

MOST = 10  # events that are listed
SHOWN = 20  # metrics of an event in the data of a page
CENTURY = 100  # years: nobody reads more of a chance


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
    return _what(counts(event), most(event))


def _what(metrics: Mapping[str, Sequence[int]], most: Sequence[str]) -> str:
    named = whole(metrics)
    if len(named) > 3:
        count = sum(part for part, _ in metrics.values())
        return f"{plural(count, 'metric')} of {plural(len(metrics), 'check')}"
    texts = [
        f"{name} ({metrics[name][0]:,} of {metrics[name][1]:,} metrics)" for name in sorted(named)
    ]
    others = sum(part for name, (part, _) in metrics.items() if name not in named)
    if others > 3:
        texts.append(f"{plural(others, 'metric')}, most {most[0]}")
    elif others:
        texts.append(some(most, 3) if most else plural(others, "metric"))
    return "; ".join(texts) or "metrics"


def size(event: Event) -> str:
    """By how much: of several metrics the median, the least and the most."""
    if event.drift is not None:
        share = event.drift - 1
        total = event.drift**event.nights - 1
        word = "slower" if share > 0 else "faster"
        return f"{abs(share):.2%} a night {word}, {abs(total):.0%} in {event.nights} nights"
    better = len(event.points) - len([p for p in event.points if p.verdict == Verdict.REGRESSED])
    others = f"; {plural(better, 'metric')} better" if event.worse and better else ""
    return _size(*factors(event)) + others


def _size(*factors: float) -> str:
    if factors[-1] >= 2:
        values, word = [f"{factor:.3g}" for factor in factors], "times worse"
    else:
        values = [f"{abs(factor - 1):.0%}" for factor in factors]
        word = "worse" if factors[-1] >= 1 else "better"
    low, middle, high = values
    return f"{middle} {word}" + (f" ({low} to {high})" if low != high else "")


def since(event: Event) -> str:
    """The night, and those in which it may have been."""
    return _since(event.first, event.at, event.last)


def _since(*times: float) -> str:
    first, day, last = (utc(at)[:10] for at in times)
    return day if first == last else f"{day} ({first} to {last})"


def sure(event: Event) -> str:
    """How seldom noise would look like it."""
    if event.drift is not None:
        return ""
    years = 1 / max(event.rate, 1e-12)
    if years >= CENTURY:
        return f"by chance less than once in {CENTURY} years"
    return f"by chance once in {plural(max(1, round(years)), 'year')}"


def _change(change: Mapping[str, str]) -> str:
    return f"{change['what']}: {change['before']} -> {change['after']}"


def why(event: Event) -> str:
    """What of the environment changed with it, or may have."""
    if event.drift is not None:
        return "no night in which it began"
    return _why(*causes(event))


def _why(changes: Sequence[Mapping[str, Any]], candidates: Sequence[Mapping[str, Any]]) -> str:
    if changes:
        return f"changed then: {'; '.join(map(_change, changes))}"
    if candidates:
        return "perhaps " + " or ".join(f"{_change(c)} ({c['odds']:.0%})" for c in candidates)
    return "nothing recorded changed then"


# ---- alarms ----


def banner(alarms: Sequence[Reason]) -> str:
    """The alarms in a line, the event of most metrics with its night."""
    first = alarms[0]
    text = f"{plural(first['worse'], 'metric')} worse since {utc(first['at'])[:10]}"
    if first["changes"]:
        text += f" ({'; '.join(map(_change, first['changes'][:2]))})"
    rest = len(alarms) - 1
    return f"{text}, and {plural(rest, 'more event')}" if rest else text


def worse_since(v: Mapping[str, Any]) -> str:
    """An alarm in a line."""
    since, who = _since(v["first"], v["at"], v["last"]), _what(v["metrics"], v["most"])
    why = _why(v["changes"], v["candidates"])
    return f"worse since {since}, session {v['session'][:8]}: {who}, {_size(*v['factors'])}; {why}"
