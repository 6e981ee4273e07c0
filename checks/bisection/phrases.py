"""Comparisons in words."""

import math
import time
from collections import Counter, defaultdict

import numpy as np

from bisection.comparison import (
    ABOVE,
    AT,
    BELOW,
    COUNTED,
    IMPROVED,
    MISSING,
    NEW,
    NOT_MEASURED,
    REGRESSED,
    SESSIONS,
    UNCHANGED,
    UNCLEAR,
    VERDICTS,
)
from bisection.stats import FEWEST
from bisection.summary import columns
from bisection.verdict import duration, number

MOST = 30  # rows of a verdict that are told one by one
TOLD = (REGRESSED, MISSING, NOT_MEASURED, IMPROVED, NEW)


def change(row):
    """A ratio as a person says it: 14% [11%, 17%] slower."""
    if row.ratio is None:
        return ""
    slower = row.worse >= 1
    word = "slower" if slower else "faster"
    if row.unit in COUNTED or row.unit == "ratio":
        word = "more" if row.ratio >= 1 else "less"
        costs = (row.ratio, row.low, row.high)
    elif slower:
        costs = (row.worse, *(row.costs if row.low is not None else (None, None)))
    else:
        costs = row.speedup
    if word == "less":
        costs = tuple(1 / c if c else None for c in (costs[0], costs[2], costs[1]))
    text = _percent(costs[0])
    if costs[1] is not None and math.isfinite(costs[1]) and math.isfinite(costs[2]):
        text += f" [{_percent(costs[1])}, {_percent(costs[2])}]"
    return f"{text} {word}"


def _percent(ratio):
    return f"{ratio - 1:.1%}" if abs(ratio - 1) < 0.0995 else f"{ratio - 1:.0%}"


def advice(result, words):
    """What the verdicts lack, and how to get it."""
    lines = []
    few = min(len(result.before), len(result.after))
    if any(row.scope == SESSIONS for row in result.rows):
        lines.append(
            f"verdicts are about these sessions, by the jobs within them: what differs from night "
            f"to night is not in them. For the machine, compare {FEWEST} sessions a side or more"
        )
    elif few < FEWEST:
        lines.append(
            f"{len(result.before)} against {len(result.after)} sessions give no verdict on the "
            f"machine, which needs {FEWEST} a side; `bisection run --reruns {FEWEST - 1}` gives one "
            "on two sessions"
        )
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
    text = f"{', '.join(counts) or 'nothing to compare'} (of {len(result.rows)} metrics)"
    parts = [f"{found}" for found in _by_kind(result.rows)]
    parts += [f"node {s.node} stands out ({s.where}: {s.why})" for s in result.suspects]
    return f"{text}: {'; '.join(parts)}" if parts else text


KINDS = (
    ("communication", lambda row: (row.communication or 0) >= 0.3),
    ("mixed", lambda row: 0.05 <= (row.communication or 0) < 0.3),
    ("compute", lambda row: row.control or row.communication is not None),
)


def _by_kind(rows):
    """A clause for each partition: how its checks that wait for the network did, and the others."""
    places = defaultdict(lambda: defaultdict(list))
    for row in rows:
        primary = row.metric.startswith("time") and not row.metric.startswith(("time_m", "time_p9"))
        if row.ratio is None or row.low is None or not (primary or row.control):
            continue
        kind = next((name for name, fits in KINDS if fits(row)), None)
        if kind:
            places[f"{row.system}:{row.partition}"][kind].append(row)
    clauses = []
    for place, kinds in places.items():
        told = [f"{name} is {_together(kinds[name])}" for name, _ in KINDS if name in kinds]
        if any("slower" in words or "faster" in words for words in told):
            clauses.append(f"on {place} " + ", ".join(told))
    return clauses


def _together(rows):
    """How a group of rows did: the medians of ratio and bounds over those that changed."""
    for name, word in ((REGRESSED, "slower"), (IMPROVED, "faster")):
        hit = [row for row in rows if row.verdict == name]
        if hit:
            costs = np.median([(row.worse, *row.costs) for row in hit], axis=0)
            if name == IMPROVED:
                costs = 1 / costs[[0, 2, 1]]
            middle, low, high = (f"{part - 1:.0%}" for part in costs)
            some = "" if len(hit) == len(rows) else f" in {len(hit)} of {len(rows)}"
            return f"{middle} [{low}, {high}] {word}{some}"
    same = sum(row.verdict == UNCHANGED for row in rows)
    return "unchanged" if same > len(rows) / 2 else "not told apart"


def text(result):
    """The comparison as lines of text."""
    lines = [f"before: {group(result.before)}", f"after:  {group(result.after)}", ""]
    for verdict in TOLD:
        rows = [row for row in result.rows if row.verdict == verdict]
        if rows:
            lines += [*_table(verdict, rows), ""]
    suspect = [row for row in result.rows if row.suspect]
    if suspect:
        lines += [*_table("unlike all earlier sessions", suspect), ""]
    if result.expected is not None:
        lines += [*_upgrade(result), ""]
    lines += [
        f"changed: {change.what}: {change.before} -> {change.after}" for change in result.changes
    ]
    lines += [f"node {s.node} ({s.where}): {s.why}" for s in result.suspects]
    lines += [f"unsafe: {result.unsafe}"] if result.unsafe else []
    lines += [f"note: {advice}" for advice in result.advice]
    lines += [f"again: {result.rerun}"] if result.rerun else []
    return [*lines, result.sentence]


def group(sessions):
    """The sessions of a side, as identifiers and times."""
    ends = [sessions[0], sessions[-1]] if len(sessions) > 1 else sessions[:1]
    names = [f"{s['uuid'][:8]} of {when(s['start'])}" for s in ends]
    count = f"{len(sessions)} sessions, " if len(sessions) > 1 else ""
    return count + " to ".join(names)


def when(unix):
    """A time in UTC."""
    return time.strftime("%Y-%m-%d %H:%M", time.gmtime(unix)) + " UTC"


def value(amount, unit):
    """A measured value with its unit."""
    if amount is None:
        return ""
    return duration(amount) if unit == "s" and amount > 0 else f"{number(amount)} {unit}"


def place(row):
    return f"{row.system}:{row.partition} {row.environ}"


def _table(title, rows):
    shown = rows[:MOST]
    where = len({place(row) for row in rows}) > 1
    cells = [
        [
            row.test,
            *([place(row)] if where else []),
            row.metric,
            value(row.before.median, row.unit),
            value(row.after.median, row.unit),
            change(row) if row.low is not None else _only(row),
            row.why,
        ]
        for row in shown
    ]
    head = ["test", *(["where"] if where else []), "metric", "before", "after", "change", ""]
    about = "" if where else f" on {place(rows[0])}"
    lines = [f"{title}{about}:", *("  " + line for line in columns([head, *cells]))]
    if len(rows) > MOST:
        rest = Counter(row.check for row in rows[MOST:])
        counts = ", ".join(f"{count} of {check}" for check, count in rest.items())
        lines.append(f"  and {len(rows) - MOST} more: {counts}")
    return lines


def _only(row):
    """A ratio without an interval."""
    return f"x{row.ratio:.3g}" if row.ratio is not None else ""


def _upgrade(result):
    """Speed-ups beside the expected one."""
    rows = [row for row in result.rows if row.against]
    if not rows:
        return [f"expected ratio {result.expected:g}: no speed-up to set beside it"]
    rows.sort(key=lambda row: -row.speedup[0])
    head = ["test", "metric", "speed-up", "", "ranks x threads", "nodes", "software", ""]
    cells = [
        [
            row.test,
            row.metric,
            "{:.2f} [{:.2f}, {:.2f}]".format(*row.speedup),
            row.against,
            row.after.geometry,
            str(len(row.after.hosts) or ""),
            row.after.software,
            row.explained,
        ]
        for row in rows[:MOST]
    ]
    counts = Counter(row.against for row in rows)
    told = ", ".join(f"{counts[name]} {name}" for name in (ABOVE, AT, BELOW, UNCLEAR))
    lines = [f"speed-up, against the expected {result.expected:g} ({told}):"]
    return lines + ["  " + line for line in columns([head, *cells])]
