"""Comparisons in words."""

import math
from collections import Counter, defaultdict

import numpy as np

from bisection.comparison import (
    ABOVE,
    AT,
    BELOW,
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
from bisection.texts import utc
from bisection.verdict import duration, number

DISTURBED = "other processes had the cores"
MOST = 30  # rows of a verdict that are told one by one
TOLD = (REGRESSED, MISSING, NOT_MEASURED, IMPROVED, NEW)


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
    busy = sum(r.verdict == NOT_MEASURED and DISTURBED in r.why for r in result.rows)
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


def text(result):
    """The comparison as lines of text."""
    lines = [f"before: {group(result.before)}", f"after:  {group(result.after)}", ""]
    for verdict in TOLD:
        rows = [row for row in result.rows if row.verdict == verdict]
        if rows:
            lines += [*(_tests if verdict in (MISSING, NEW) else _table)(verdict, rows), ""]
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
    names = [f"{s['uuid'][:8]} of {utc(s['start'])}" for s in ends]
    count = f"{len(sessions)} sessions, " if len(sessions) > 1 else ""
    return count + " to ".join(names)


def value(amount, unit):
    """A measured value with its unit."""
    if amount is None:
        return ""
    return duration(amount) if unit == "s" and amount > 0 else f"{number(amount)} {unit}"


def place(row):
    where = ":".join(filter(None, (row.system, row.partition)))
    return " ".join(filter(None, (where, row.environ))) or "no system's"


def _table(title, rows):
    """A line for each test, with the metric that says most; of a sweep, its point that does."""
    tests = {}
    for row in rows:
        tests.setdefault((row.test, place(row)), []).append(row)
    where = len({place(row) for row in rows}) > 1
    cells = [_line(found, where) for found in list(tests.values())[:MOST]]
    head = ["test", *(["where"] if where else []), "metric", "before", "after", "change", ""]
    about = "" if where else f" on {place(rows[0])}"
    lines = [f"{title}{about}:", *("  " + line for line in columns([head, *cells]))]
    return lines + _rest([row for found in list(tests.values())[MOST:] for row in found])


def _line(rows, where):
    first = min(rows, key=lambda row: (_secondary(row), not row.absolute))  # else the largest
    points = sum(row.base == first.base for row in rows)
    others = dict.fromkeys(row.base for row in rows)
    others.pop(first.base)
    words = [first.why, f"also {', '.join(others)}" if others else ""]
    return [
        first.test,
        *([place(first)] if where else []),
        first.metric + (f" of {points}" if points > 1 else ""),
        value(first.before.median, first.unit),
        value(first.after.median, first.unit),
        change(first),
        "; ".join(filter(None, words)),
    ]


def _secondary(row):
    """Least and largest times are told after the others."""
    return row.base in ("time_min", "time_p99")


def _tests(title, rows):
    """What is on one side alone: tests, each with how many metrics."""
    counts = Counter((place(row), row.test) for row in rows)
    shown = list(counts.items())[:MOST]
    lines = [f"{title}:"]
    lines += [
        "  " + line
        for line in columns([[where, test, f"{n} metrics"] for (where, test), n in shown])
    ]
    names = {name for name, _ in shown}
    return lines + _rest([row for row in rows if (place(row), row.test) not in names])


def _rest(rows):
    """A line on metrics that are not shown, by check."""
    if not rows:
        return []
    counts = Counter(row.check for row in rows)
    text = ", ".join(f"{count} of {check}" for check, count in counts.items())
    return [f"  and {len(rows)} more metrics: {text}"]


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
