"""References made from stored sessions, and whether they are still true."""

import math
import re
import statistics
import time
from collections import Counter

import numpy as np
import yaml

from bisection.analysis.history import histories
from bisection.analysis.statistics import MARGIN, spread
from bisection.core import paths
from bisection.core.format import number
from bisection.rfm.references import KIND_OF_UNIT
from bisection.sites.reference_lookup import flattened, resolved, span_of

LEAST = 10  # sessions
WIDEST = 0.5  # a reference that allows more says nothing
CHANCE = 1e-4  # that a night without fault is outside a bound, were all that vary known exactly
LATEST = 5  # sessions that show where a metric is now
STALE = 180  # days
# Facts that make references those of another machine, if they change.
SOFTWARE = (
    *("CPU", "operating system's kernel", "firmware", "compiler", "flags", "MPI", "libraries"),
    *("MPI environment", "lock"),
)
INDEX = ["$partition", "$environ", "geometry", "case", "method"]
MADE_BY = "bisection references propose"
HEADER = """\
# References of the system `{system}`, made by `{made_by}` from stored sessions.
# An entry is [reference, lower, upper]: what passes is reference * (1 + lower) to
# reference * (1 + upper). The reference is the median of the sessions; bounds are as far as one
# night in some thousands goes by chance, by the spread between sessions, and {margin:.0%} at least.
# Each entry says of how many sessions it is, and up to which day; provenance is of the last change.
"""


def written(target):
    """(text, key -> (entry, note)) of a file of ours; ("", {}) if there is none yet."""
    if not target.exists():
        return "", {}
    text = target.read_text(encoding="utf-8")
    try:
        tree = yaml.safe_load(text) or {}
        made_by = tree.pop("provenance").get("made by")
        notes = dict(_notes(yaml.compose(text), text.splitlines()))
    except (yaml.YAMLError, AttributeError, KeyError, TypeError):
        made_by = None
    if made_by != MADE_BY:
        raise ValueError(f"{target} was written by hand; name another file with --output")
    return text, {key: (entry, notes.get(key, "")) for key, entry in flattened(tree).items()}


def _notes(node, lines, keys=()):
    """Yields (key, comment behind it) of each reference."""
    for key, branch in node.value:
        if isinstance(branch, yaml.MappingNode):
            yield from _notes(branch, lines, (*keys, key.value))
        else:
            _, _, note = lines[branch.start_mark.line].partition("#")
            yield (*keys, key.value), note.strip()


class Proposal:
    """References for what the checks of a site assert, from sessions that have it."""

    def __init__(self, store, sessions, site, options):
        self.sessions, self.system, self.least = [], site.name, options.least
        kinds = {p["fullname"]: p["extras"].get("references", []) for p in site.partitions}
        asked = options.kinds.split(",") if options.kinds else None
        if asked and set(asked) - set(KIND_OF_UNIT.values()):
            allowed = ", ".join(dict.fromkeys(KIND_OF_UNIT.values()))
            raise ValueError(f"--kinds {options.kinds}: {allowed} are allowed")
        samples = self._samples(store, sessions)
        self.entries, self.few, self.wide, self.wider = {}, [], [], []
        for case in site.cases:
            keys = tuple(case[name] for name in ("$partition", "$environ", "geometry"))
            keys = (case["check"], *keys, case["case"], case["method"])
            for name in case["required"]:
                unit, nights = samples.pop((*keys, name), ("", {}))  # layouts may be twins
                wanted = asked or kinds[case["$partition"]]
                if nights and KIND_OF_UNIT.get(unit) in wanted:
                    self._propose(keys, name, unit, nights)
        self.days = [time.strftime("%Y-%m-%d", time.gmtime(s.start)) for s in self.sessions]

    def _samples(self, store, sessions):
        """(check, place of a reference, metric) -> (unit, session -> values); layouts of the same
        geometry have the same references."""
        found = {}
        for test, metric, indices, values in histories(store, sessions, left_out=("groups",)):
            place = (f"{test.system}:{test.partition}", test.environ, test.geometry)
            key = (test.check, *place, test.case, test.method, metric.name)
            _, nights = found.setdefault(key, (metric.unit, {}))
            for index, value in zip(indices.tolist(), values.tolist(), strict=True):
                nights.setdefault(sessions[index], []).append(value)
        return found

    def _propose(self, keys, name, unit, nights):
        values = [statistics.median(found) for found in nights.values()]
        where = " ".join(str(key) for key in (keys[0], *keys[3:], name))
        if len(values) < self.least:
            self.few.append(where)
            return
        entry, sigma = reference(values, unit)
        if entry is None:
            self.wide.append(f"{where}: {sigma:.0%} between sessions")
            return
        self.sessions = sorted({*self.sessions, *nights}, key=lambda s: (s.start, s.id))
        last = time.strftime("%Y-%m-%d", time.gmtime(max(s.start for s in nights)))
        note = f"{len(values)} sessions to {last}, spread {sigma:.1%}"
        self.entries[(*keys, name)] = entry, note

    def merged(self, old, widen):
        """key -> (entry, note): what is there, with what is proposed where that is not wider."""
        found = dict(old)
        for key, (entry, note) in self.entries.items():
            there = found.get(key)
            if there and not widen and _is_wider(entry, there[0]):
                texts = ["{}..{}".format(*map(number, span_of(e))) for e in (there[0], entry)]
                name = " ".join(str(part) for part in (key[0], *key[3:]))
                self.wider.append(f"{name}: {texts[0]} would become {texts[1]}")
            else:
                found[key] = entry, note
        return found

    def text(self, tree):
        """The file."""
        lines = [
            HEADER.format(system=self.system, made_by=MADE_BY, margin=MARGIN)
            + yaml.safe_dump({"provenance": self.provenance()}, sort_keys=False, width=100).rstrip()
        ]
        last = ()
        for key, (entry, note) in sorted(tree.items(), key=lambda item: _order(item[0])):
            shared = next((i for i in range(len(last)) if last[i] != key[i]), len(last))
            for depth in range(shared if last else 0, len(key) - 1):
                lines.append(
                    ("\n" if depth == 0 else "") + "  " * depth + f"{_quoted(key[depth])}:"
                )
                if depth == 0:
                    lines.append(f"  $index: [{', '.join(INDEX)}]")
            numbers = ", ".join("null" if part is None else f"{part:.4g}" for part in entry)
            comment = f" # {note}" if note else ""
            lines.append("  " * (len(key) - 1) + f"{_quoted(key[-1])}: [{numbers}]{comment}")
            last = key[:-1]
        return "\n".join(lines) + "\n"

    def provenance(self):
        """Where the references come from; the same for the same sessions."""
        facts = {}
        for session in self.sessions:
            for name, text in session.facts.items():
                facts.setdefault(name, {})[text] = None
        return {
            "made by": MADE_BY,
            "date": self.days[-1],
            "first": self.days[0],
            "count": len(self.sessions),
            "lock": " | ".join(facts.pop("lock", {})) or "none",
            "facts": {name: " | ".join(texts) for name, texts in sorted(facts.items())},
            "sessions": [session.uuid for session in self.sessions],
        }

    def told(self):
        """What has no reference, or keeps the one it has, and why."""
        checks = Counter(text.split()[0] for text in self.wide)
        lines = [
            f"too wide for a reference: {count} of {check}, such as {example}"
            for check, count in checks.items()
            for example in [next(text for text in self.wide if text.split()[0] == check)]
        ]
        lines += [f"not widened: {text}; --widen allows it" for text in self.wider]
        if self.few:
            checks = Counter(text.split()[0] for text in self.few)
            counts = ", ".join(f"{count} of {check}" for check, count in checks.items())
            lines.append(f"fewer than {self.least} sessions: {counts}")
        return lines


def reference(values, unit="ratio"):
    """([median, lower, upper], spread between sessions) of a metric's values, a session each; None
    for the first if it would say nothing. The spread is the standard deviation of the logarithm
    with outliers drawn in, the bounds those of the prediction of one more session. A share, which
    explains a time and is near zero or far from it, may double or halve, and is never too wide."""
    from scipy import stats

    logs = np.log(values)
    middle, near = np.median(logs), 3 * float(spread(logs[None, :])[0])
    sigma = float(np.std(np.clip(logs, middle - near, middle + near), ddof=1))
    count = len(values)
    reach = sigma * math.sqrt(1 + 1 / count) * float(stats.t.isf(CHANCE, count - 1))
    if unit == "share":
        reach = min(max(math.log(2), reach), math.log(1e3))
        top = max(math.exp(middle), min(math.exp(middle + reach), 0.99))
        numbers = (math.exp(middle), math.expm1(-reach), math.expm1(math.log(top) - middle))
        return [float(f"{number:.4g}") for number in numbers], sigma
    reach = max(math.log1p(MARGIN), reach)
    if reach > math.log1p(WIDEST):
        return None, sigma
    numbers = (math.exp(middle), math.expm1(-reach), math.expm1(reach))
    return [float(f"{number:.4g}") for number in numbers], sigma


def _is_wider(new, old):
    """Whether anything passes by `new` that did not by `old`, beyond rounding."""
    (low, high), (least, most) = span_of(new), span_of(old)
    return low < least * (1 - 1e-3) or high > most * (1 + 1e-3)


def _order(key):
    """By the numbers in a name, so that 8B is before 16B."""
    return [
        [f"{int(word):012d}" if word.isdigit() else word for word in re.split(r"(\d+)", part)]
        for part in key
    ]


def _quoted(key):
    return yaml.safe_dump(key, default_flow_style=True).removesuffix("\n...\n").strip()


def stale(store, site, file, tree):
    """Lines on references that are old, of other software, or left behind by the machine."""
    name = paths.shown(file)
    systems = {s: s.tags.get("system", site.name).partition(":")[0] for s in store.sessions()}
    sessions = [session for session, name_of in systems.items() if name_of == site.name]
    about = tree.get("provenance") or {}
    found = []
    day = str(about.get("date", ""))
    try:
        age = (time.time() - time.mktime(time.strptime(day, "%Y-%m-%d"))) / 86400
        if age > STALE:
            found.append(f"{name}:1: of {day}, {age:.0f} days old; {STALE} are allowed")
    except ValueError:
        found.append(f"{name}:1: provenance.date {day!r} is not a day, YYYY-MM-DD")
    if sessions:
        last = sessions[-1].facts
        known = {**(about.get("facts") or {}), "lock": about.get("lock")}
        for what, text in known.items():
            told = what in last and what in SOFTWARE and text not in (None, "none")
            if told and last[what] not in text.split(" | "):
                found.append(
                    f"{name}:1: made with {what} {text}; the last session has {last[what]}"
                )
    return found + drifted(store, sessions[-LATEST:], site, name, tree)


def drifted(store, sessions, site, name, tree):
    """Lines on references from which the last sessions, all together, have moved away: most of them
    would fail."""
    if len(sessions) < LATEST:
        return []
    samples = {}
    for test, metric, _, values in histories(store, sessions):
        place = (f"{test.system}:{test.partition}", test.environ)
        samples[(test.check, *place, test.case, test.layout, test.method, metric.name)] = values
    found = []
    for case in site.cases:
        keys = [case[k] for k in ("check", "$partition", "$environ", "case", "layout", "method")]
        entry, check = tree.get(case["check"]), site.checks[case["check"]]
        for metric, bounds in resolved(entry, case, check).items():
            values = samples.get((*keys, metric), ())
            if len(values) < LATEST:
                continue
            middle, low, high = float(np.median(values)), *span_of(bounds)
            if not low <= middle <= high:
                text = " ".join(map(str, [keys[0], *keys[3:], metric]))
                found.append(
                    f"{name}:1: {text}: the last {len(values)} sessions have {number(middle)}, "
                    f"allowed is {number(low)}..{number(high)}"
                )
    return found
