"""Made-up reports, of a machine, an upgrade and a large store."""

import csv
import itertools
import math
import random
import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser

from made_up_network import World
from results_made import result_of

from bisection.advice.sources import LITERATURE
from bisection.analysis.blame import judge
from bisection.analysis.model import (
    Change,
    ChangePoint,
    Comparison,
    Event,
    Row,
    Series,
    Side,
    Suspect,
)
from bisection.core.reasons import Code
from bisection.core.verdicts import Exit, Verdict
from bisection.report import page as pages
from bisection.report.model import Report
from bisection.runs.model import JudgedMetric, RunVerdict

NIGHT = 86400.0
MADE = 1795248000.0  # 2026-11-21 08:00 UTC
HOSTILE = "</script><script>alert(1)</script><b>&\"'`|$x_1$ \x1b[31m\x00{{ 7*7 }} --> ]]>"
PLACE = {"system": "localhost", "partition": "default", "environ": "system"}
METRIC = {**PLACE, "check": "transpose", "case": "cnt40", "layout": "mpi", "method": "shm"}
METRIC |= {"metric": "time", "unit": "s", "better": "lower"}


def row(
    check="transpose", case="cnt40", method="shm", verdict=Verdict.UNCHANGED, ratio=1.0, **more
):
    """A row in seconds with an interval of 4%, unless `more` says otherwise."""
    low, high = (None, None) if ratio is None else (ratio * 0.96, ratio * 1.04)
    geometry, software = more.pop("geometry", "2x1"), more.pop("software", ("MPI 4.1", "MPI 5.0"))
    values = (0.01, None if ratio is None else 0.01 * ratio)
    before, after = (
        Side(5, 10, value, 0.02, geometry, [], state)
        for value, state in zip(values, software, strict=True)
    )
    fields = METRIC | {"check": check, "case": case, "method": method, "verdict": verdict}
    fields |= {"before": before, "after": after, "control": False, "ratio": ratio}
    return Row(**{**fields, "low": low, "high": high, "p": 0.01, **more})


def comparison(rows, **more):
    """A night against seven."""

    def session(uuid, night, **tags):
        return {"uuid": uuid, "start": MADE - night * NIGHT, "tags": tags, "folder": f"r{night}"}

    before = [session(f"{n}c0bcb89", n, tier="nightly") for n in range(7, 0, -1)]
    return Comparison(before, [session("feedbeef", 0, phase="after")], rows, **more)


def series(values, points=(), **more):
    times = [MADE - n * NIGHT for n in range(len(values), 0, -1)]
    return Series(times=times, values=list(values), points=list(points), **METRIC | more)


def change_point(ratio=1.3, **more):
    fields = {"session": "feedbeef", "at": MADE - 3 * NIGHT, "before": 20, "after": 4}
    return ChangePoint(ratio=ratio, **METRIC | fields | more)


def event(*points, **more):
    """What began in the session of these points."""
    (first, *_) = points
    counts = Counter(point.check for point in points)
    fields = {"session": first.session, "at": first.at, "first": first.at, "last": first.at}
    fields |= {"metrics": {check: (count, 40) for check, count in counts.items()}, "rate": 1e-3}
    return Event(points=list(points), **PLACE | fields | more)


def case(check="transpose", name="cnt40", method="shm", geometry="2x1", seconds=0.01, **more):
    """A test of a run that passed; `metrics` are further ones, as name=(value, unit)."""
    metrics = {"time": (seconds, "s"), **more.pop("metrics", {})}
    system, _, partition = more.pop("partition", "localhost:default").partition(":")
    environ, layout = more.pop("environ", "system"), more.pop("layout", "mpi")
    fields = {"name": f"{check} %method={method}", "hash": "1eea43dd", "verdict": Verdict.PASS}
    fields |= {"files": "results/now/kernels/x.*", "seconds": more.pop("took", 0.0), **more}
    fields["metrics"] = [JudgedMetric(n, v, u, None, None, "pass") for n, (v, u) in metrics.items()]
    places = (system, partition, environ, check, name, layout, method)
    return result_of(*places, geometry=geometry, **fields)


def said(text):
    """Text as reason."""
    return Code.TEXT(text=text)


ABORT = Code.MPI_ABORT(rank=3, host="cn017", exit_code=1)


def failure(verdict=Verdict.FAIL, reason=ABORT, **more):
    return case(verdict=verdict, reason=reason, **more)


def ran(*cases, **more):
    """The verdict on a run of these tests."""
    return RunVerdict(cases=list(cases), session="feedbeef", **more)


def wobble(index):
    """Noise of 1%, the same everywhere."""
    return random.Random(index).gauss(1, 0.01)


# Phase2 over Phase1 of HPCx: M. Ashworth et al., "Application Performance on the High Performance
# Switch", HPCxTR0417 (2004), the text of the sections named: section, code, data, processors,
# speed-up, software, and where that is of the ratio of clocks, 1.31, if times vary by 3%
# (analysis/test_upgrade.py). A node is a frame of 32 processors.
CLOCK = 1.31
AGAINST = {  # (code, data, processors): all but these are above
    ("CRYSTAL", "crambin 6-31G", 1024): "at",
    ("POLCOMS", "1200x1200x34", 768): "unclear",
    ("NAMD", "F1-ATPase", 256): "at",
    ("NAMD", "F1-ATPase", 512): "below",
    ("NAMD", "F1-ATPase", 1024): "below",
}
STATES = {"phase2_over_phase1": "before SP7", "phase2_sp7_over_phase1": "SP7"}


def upgrade():
    """Rows of reference/literature/hpcx_ratios.csv; NAMD before SP7, all others at the last."""
    with open(LITERATURE / "hpcx_ratios.csv", newline="") as file:
        for row in csv.DictReader(file):
            columns = list(STATES) if row["code"] == "NAMD" else list(STATES)[::-1]
            column = next(column for column in columns if row[column])
            test = (row["code"], row["data"], int(row["processors"]))
            if row["data"] != "DHFR":  # another size of NAMD, after SP7 only
                against = AGAINST.get(test, "above")
                yield (row["section"], *test, float(row[column]), STATES[column], against)


HPCX = list(upgrade())


def hpcx():
    """Figure 17 of that report; published numbers have no intervals."""
    absent = {"layout": "", "low": None, "high": None, "p": None, "system": "hpcx"}
    rows = []
    for _, code, data, processors, speedup, state, against in HPCX:
        explained = Code.FRACTION_UNKNOWN() if against == "above" else None
        how = {"geometry": f"{processors // 32}x32x1", "software": ("Phase1", f"Phase2 {state}")}
        how |= {"against": against, "explained": explained, "partition": f"p{processors}"}
        rows.append(row(code, data, "", Verdict.IMPROVED, 1 / speedup, **how, **absent))
    return Report("HPCx: Phase2 against Phase1", MADE, comparison(rows, expected=CLOCK))


def cluster():
    """A night on a cluster on which everything happened that can happen."""
    unmeasured, inconclusive = Verdict.NOT_MEASURED, Verdict.INCONCLUSIVE
    absent = Code.ABSENT(sessions=1)
    rows = [
        row(verdict=Verdict.REGRESSED, ratio=1.42, geometry="4x16x1"),
        row(method="alltoallv", verdict=Verdict.REGRESSED, ratio=1.12, geometry="4x16x1"),
        row("transpose", "silicon", "p2p", Verdict.MISSING, None, reason=absent),
        row("transpose", "silicon", "padded", unmeasured, None, reason=ABORT),
        row("npar", "bench1", "npar-8", Verdict.IMPROVED, 0.8),
        row("md", "sic", "packed", inconclusive, reason=said("3 jobs only")),
        row("md", "fe", "recompute", Verdict.NEW, None),
        row("md", "fe", "packed", ratio=1.01, control=True),
    ]
    changes = [
        Change("MPI", "Open MPI 4.1.4", "Open MPI 5.0.5"),
        Change("kernel", "6.1.0", "6.1.9"),
    ]
    compared = comparison(
        rows,
        advice=[said("Look at cn017 first."), said("Measure sic in two more sessions.")],
        changes=changes,
        suspects=[Suspect(["cn017"], 1.44, 12, "cluster:cpu")],
        exit_code=Exit.FAILED,
        rerun="bisection compare before after",
    )
    old, new, best = ([level * wobble(n) for n in range(60)] for level in (0.01, 0.0142, 0.008))
    histories = [
        series([*old, *new[:9]], [60]),
        series([*old[:30], *best[:30]], [30], check="npar", case="bench1"),
        series(old, check="md", case="sic", method="packed"),
    ]
    history = [
        event(change_point(1.42), changes=changes),
        event(change_point(0.8, check="npar", verdict=Verdict.IMPROVED)),
    ]
    run = ran(
        *published(),
        failure(hosts=["cn016", "cn017"]),
        failure(unmeasured, said("the launch was killed"), hosts=["cn020"], method="padded"),
        failure(unmeasured, Code.FOLLOWS(test="TransposeLaunch"), method="p2p"),
        seconds=723.0,
    )
    title, maps = "Bisection on cluster:cpu", [pairs(8, slow=5)]
    return Report(title, MADE, compared, history, histories, pairs=maps, run=run, of_run=True)


def pairs(nodes, slow=None):
    """The judgement of a made-up network with a node at 60%."""
    world = World(nodes, nodes, 1)
    world.faults = [] if slow is None else [("node", slow, 0.6)]
    judged = judge(world.matrix(known=False))
    judged.matrix.nodes[:] = [f"cn{number + 12:03d}" for number in range(nodes)]
    for part in (*judged.bad, *judged.suspects):
        part.names = [f"cn{int(name[2:]) + 12:03d}" for name in part.names]
    judged.place = "cluster:cpu system"
    return judged


def published():
    """Cases on 1 to 64 nodes, with the shapes of the curves of the published studies."""
    results = []
    methods = {"alltoallv": 0.020, "p2p": 0.018, "padded": 0.008, "shm": 0.004, "leaders": 0.003}
    sizes = {"cnt40": 1, "cnt80": 8, "silicon": 9}
    for nodes, name, method in itertools.product((1, 2, 4, 8, 16), sizes, methods):
        seconds = 0.2 * sizes[name] / nodes / 16 + methods[method] * nodes**0.7 / 4
        seconds *= 1.1 if method in ("shm", "leaders") else 1
        metrics = {"ratio_alltoallv": (1.0, "ratio")}
        metrics |= {"exchange_share": (1 - 0.8 / nodes**0.5, "share")}
        more = {"metrics": metrics, "partition": f"cluster:n{nodes}"}
        results.append(case("transpose", name, method, f"{nodes}x16x1", seconds, **more))
    best = {"bench1": 3, "bench2": 2, "bench5": 4}
    for npar, name in itertools.product((1, 2, 4, 8, 16, 32), best):
        seconds = 40 * (1 + abs(math.log2(npar) - best[name]) / 3)
        place = {"partition": "cluster:n8"}
        results.append(case("npar", name, f"npar-{npar}", "8x16x1", seconds, **place))
    shapes = {"mpi": "16x1", "node": "1x16", "node2": "2x8", "domain": "4x4"}
    parts = {"p2p": 1, "collective": 0.7, "barrier": 0.2}
    for nodes, name, layout in itertools.product((1, 4, 16), ("sic", "fe"), shapes):
        ranks = int(shapes[layout].split("x")[0])
        root = 0.01 * (ranks * nodes) ** 0.5
        metrics = {f"{part}_share": (root * size, "share") for part, size in parts.items()}
        seconds = 1.0 / nodes * (1.3 - 0.015 * ranks) + 0.02 * ranks**0.5
        more = {"metrics": metrics, "partition": f"cluster:n{nodes}", "layout": layout}
        geometry = f"{nodes}x{shapes[layout]}"
        results.append(case("md", name, "packed", geometry, seconds, **more))
    points = enumerate(("8B", "32B", "128B", "512B", "2KiB", "8KiB", "32KiB"))
    steps = {f"time_{size}": 4e-9 * 8 * 4**k for k, size in points}
    for method, start in (("alltoall", 2e-6), ("alltoallv", 4e-6)):
        sweep = {name: (start + step, "s") for name, step in steps.items()}
        swept = case("network", "sweep", method, metrics=sweep)
        results.append(replace(swept, metrics=swept.metrics[1:]))
    return results


def large():
    """Two thousand metrics of as many nights as a history has, of which some changed."""
    counts = dict.fromkeys(("regressed", "improved", "inconclusive", "missing"), 20)
    reason, rows, histories = said("a clause of usual length"), [], []
    for n, each in enumerate(rows_of(**counts, unchanged=1920)):
        rows.append(replace(each, check=f"check{n % 7}", reason=reason))
        noise = [0.01 + 1e-5 * ((n * 7 + k * 31) % 101) for k in range(60)]
        histories.append(series(noise, [30] if n < 20 else [], check=rows[n].check, case=each.case))
    failures = [
        failure(reason=said("x" * 5000), method=f"m{n}", hosts=["cn1"] * 50) for n in range(300)
    ]
    cases = [
        case(f"check{c}", f"case{k}", f"method{m}", f"{2**g}x16x1", 0.1 / 2**g, partition=f"a:n{g}")
        for c, k, m, g in itertools.product(range(7), range(20), range(10), range(5))
    ]
    compared, run = comparison(rows, exit_code=Exit.FAILED), ran(*failures, *cases)
    return Report("Large", MADE, compared, [], histories, pairs=[pairs(200, 7)], run=run)


class Page(HTMLParser):
    """What a page holds; fails on elements that are not closed in order."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.texts = [], []  # (tag, attributes, around), (around, text)
        self._open = []
        self.feed(text)
        self.close()
        assert not self._open
        self.text = self.words(lambda around: around[-1:] != ["style"])
        self.headings = [data for around, data in self.texts if around[-1:] == ["h2"]]

    def handle_starttag(self, tag, attributes):
        self.handle_startendtag(tag, attributes)
        if tag not in ("meta", "br", "img"):
            kind = dict(attributes).get("class", "") if tag in ("code", "span") else ""
            self._open.append(f"{tag} {kind}".strip())

    def handle_startendtag(self, tag, attributes):
        assert len(dict(attributes)) == len(attributes), attributes
        self.elements.append((tag, dict(attributes), list(self._open)))

    def handle_endtag(self, tag):
        assert self._open.pop().split()[0] == tag, f"</{tag}> at {self.getpos()}"

    def handle_data(self, data):
        self.texts.append((list(self._open), data))

    def words(self, wanted):
        """The texts whose elements around them are wanted."""
        return " ".join(" ".join(data for around, data in self.texts if wanted(around)).split())

    def values(self, *names):
        """The attributes of these names."""
        return [had[name] for _, had, _ in self.elements for name in had.keys() & set(names)]

    def unfolded(self, tag):
        """How many of these elements a reader sees without a click."""
        return sum(name == tag and "details" not in around for name, _, around in self.elements)


def page(report):
    """The page of a report, parsed; what must hold of every page holds."""
    text = pages.html(report)
    parsed = Page(text)
    assert len(text.encode()) < 1_000_000
    ids, urls = parsed.values("id"), parsed.values("href", "xlink:href", "src")
    assert len(ids) == len(set(ids)), "two elements with one identifier"
    refs = {url[1:] for url in urls if url.startswith("#")}
    refs.update(*map(str.split, parsed.values("aria-labelledby")))
    refs |= set(re.findall(r'[":]\s*url\(#([^)]*)\)', text))
    assert refs <= set(ids), refs - set(ids)
    urls = [url for url in urls if not url.startswith(("#", "data:image/png;base64,"))]
    assert all(re.fullmatch(r"[\w./%-]+", url) for url in urls)  # files beside the page
    tags = {tag for tag, _, _ in parsed.elements}
    assert "script" not in tags
    names = {name for _, had, _ in parsed.elements for name in had}
    assert not any(name.startswith("on") for name in names)
    return parsed


def only(**fields):
    """A report with nothing else."""
    return Report("A report", MADE, **fields)


def rows_of(**counts):
    """Rows of these verdicts; underscores are blanks."""
    return [
        row(case=f"{verdict}{n}", verdict=Verdict(verdict.replace("_", " ")))
        for verdict, count in counts.items()
        for n in range(count)
    ]


def families(text):
    from prometheus_client.parser import text_string_to_metric_families

    samples = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            samples.setdefault(sample.name, []).append((sample.labels, sample.value))
    return samples
