"""Comparisons in words."""

import math
from collections import defaultdict

import numpy as np

from bisection.analysis.statistics import FEWEST
from bisection.core.format import utc
from bisection.core.verdicts import IMPROVED, NOT_MEASURED, REGRESSED, SESSIONS, UNCHANGED, VERDICTS

BUSY = "other processes had the cores"


def change(row):
    """A ratio as a person says it: 14% [11%, 17%] slower; 3.1 [2.9, 3.3] times as fast."""
    if row.ratio is None:
        return ""
    bounds = (row.low, row.high) if row.low is not None and math.isfinite(row.high) else ()
    if not row.absolute and row.unit != "GHz":
        return _amount((row.ratio, *bounds), "more", "less", "times as much")
    if row.worse < 1:
        values = row.speedup if bounds else row.speedup[:1]
        return _amount(values, "faster", "slower", "times as fast")
    return _amount((row.worse, *(row.costs if bounds else ())), "slower", "faster", "times slower")


def _amount(values, more, less, times):
    """Ratios, the first above or below one, in words."""
    if values[0] >= 2:
        texts = [f"{value:.3g}" for value in values]
        word = times
    else:
        word = more if values[0] >= 1 else less
        sign = 1 if values[0] >= 1 else -1
        values = values if sign > 0 else (values[0], *values[:0:-1])
        texts = [_percent(sign * (value - 1)) for value in values]
    return f"{texts[0]} [{', '.join(texts[1:])}] {word}" if texts[1:] else f"{texts[0]} {word}"


def _percent(part):
    return f"{part:.1%}" if abs(part) < 0.0995 else f"{part:.0%}"


def advice(result, words):
    """What the verdicts lack, and how to get it."""
    lines = []
    few = min(len(result.before), len(result.after))
    if any(row.scope == SESSIONS for row in result.rows):
        lines.append(
            "verdicts are about these sessions, by the jobs within them: what differs from night "
            f"to night is not in them. For the machine, compare {FEWEST} sessions a side or more"
        )
    elif few < FEWEST:
        lines.append(
            f"{len(result.before)} against {len(result.after)} sessions give no verdict on the "
            f"machine, which needs {FEWEST} a side; bisection run --reruns={FEWEST - 1} gives one "
            "on two sessions"
        )
    if min(s["start"] for s in result.before) > max(s["start"] for s in result.after):
        lines.append("AFTER is older than BEFORE")
    if not words:
        lines.append(
            "no A/A comparison: run the same again with nothing changed, and name it by --aa, to "
            "see what the machine does by itself"
        )
    if not any(row.control and row.ratio for row in result.rows):
        lines.append(
            "no control: nothing on both sides measures the cores alone, so a slower clock cannot "
            "be told from a slower network (--control names one)"
        )
    tiers = [{s["tags"].get("tier") for s in side} for side in (result.before, result.after)]
    if tiers[0] != tiers[1]:
        names = [", ".join(sorted(str(t) for t in side)) for side in tiers]
        lines.append(f"the sides are of other tiers ({names[0]}; {names[1]}), with other tests")
    suspect = [row for row in result.rows if row.suspect]
    if suspect:
        lines.append(f"{len(suspect)} metrics are unlike all earlier sessions: repeat them")
    return lines


def sentence(result):
    """The verdict in one line: counts, and what they mean together."""
    counts = [f"{result.count(v)} {v}" for v in VERDICTS if result.count(v)]
    strange = sum(row.suspect for row in result.rows)
    counts += [f"{strange} unlike all earlier sessions"] if strange else []
    text = f"{', '.join(counts) or 'nothing to compare'} (of {len(result.rows)} metrics)"
    parts = [f"{found}" for found in _by_kind(result.rows)]
    busy = sum(r.verdict == NOT_MEASURED and BUSY in r.why for r in result.rows)
    parts += [f"{busy} not measured, as other processes had the cores"] if busy else []
    parts += [f"node {s.node} stands out ({s.where}: {s.why})" for s in result.suspects]
    return f"{text}: {'; '.join(parts)}" if parts else text


# What a test's time is made of, by the share of it that is communication.
KINDS = (
    ("communication-bound checks are", lambda row: (row.communication or 0) >= 0.3),
    ("mixed ones are", lambda row: 0.05 <= (row.communication or 0) < 0.3),
    ("compute is", lambda row: row.control or row.communication is not None),
)


def _by_kind(rows):
    """A clause for each partition: how its checks that wait for the network did, and the others."""
    places = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if row.ratio is None or row.low is None or not (row.base == "time" or row.control):
            continue
        kind = next((name for name, fits in KINDS if fits(row)), None)
        if kind:
            places[f"{row.system}:{row.partition}"][kind].append(row)
    clauses = []
    for place, kinds in places.items():
        told = [f"{name} {_together(kinds[name])}" for name, _ in KINDS if name in kinds]
        if any("slower" in words or "faster" in words for words in told):
            clauses.append(f"on {place} " + ", ".join(told))
    return clauses


def _together(rows):
    """How a group of rows did: medians of ratio and bounds over those that changed, each way."""
    told = [_changed(rows, *which) for which in ((REGRESSED, "slower"), (IMPROVED, "faster"))]
    if any(told):
        return " and ".join(filter(None, told))
    same = sum(row.verdict == UNCHANGED for row in rows)
    return "unchanged" if same > len(rows) / 2 else "not told apart"


def _changed(rows, verdict, word):
    hit = [row for row in rows if row.verdict == verdict]
    if not hit:
        return ""
    costs = np.median([(row.worse, *row.costs) for row in hit], axis=0)
    if verdict == IMPROVED:
        costs = 1 / costs[[0, 2, 1]]
    other, times = (
        ("faster", "times slower") if verdict == REGRESSED else ("slower", "times as fast")
    )
    some = "" if len(hit) == len(rows) else f" in {len(hit)} of {len(rows)}"
    return _amount(tuple(costs), word, other, times) + some


def group(sessions):
    """The sessions of a side, as identifiers and times."""
    ends = [sessions[0], sessions[-1]] if len(sessions) > 1 else sessions[:1]
    names = [f"{s['uuid'][:8]} of {utc(s['start'])}" for s in ends]
    count = f"{len(sessions)} sessions, " if len(sessions) > 1 else ""
    return count + " to ".join(names)
