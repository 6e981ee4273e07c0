"""Made-up reports, of a machine, an upgrade and a large store."""

import csv
import itertools
import random
import re
import xml.etree.ElementTree as ET
from collections import Counter
from dataclasses import replace

from made_up_network import World
from prometheus_client.parser import text_string_to_metric_families
from results_made import result_of

from bisection.advice.sources import LITERATURE
from bisection.analysis import model
from bisection.core.reasons.base import Text
from bisection.core.reasons.launches import MpiAbort, TestFailed
from bisection.core.reasons.performance import SlowNode
from bisection.core.verdicts import Verdict
from bisection.judge.evidence import Evidence
from bisection.report import page as pages
from bisection.report.report_data import Report
from bisection.runs.run_verdict import JudgedMetric, RunVerdict
from bisection.store.database import Session
from interconnect.blame import judge

NIGHT = 86400.0
MADE = 1795248000.0  # 2026-11-21 08:00 UTC
XLINK = "http://www.w3.org/1999/xlink"
HOSTILE = "</script><script>alert(1)</script><b>&\"'`|$x_1$ \x1b[31m\x00{{ 7*7 }} --> ]]>"
PLACE = {"system": "localhost", "partition": "default", "environ": "system"}
METRIC = {**PLACE, "check": "transpose", "case": "cnt40", "layout": "mpi", "method": "shm"}
METRIC |= {"metric": "time", "unit": "s", "better": "lower"}


def slow_node(node, ratio=2.0, jobs=1, where="p"):
    return SlowNode(nodes=(node,), ratio=ratio, jobs=jobs, where=where)


def row(
    check="transpose", case="cnt40", method="shm", verdict=Verdict.UNCHANGED, ratio=1.0, **more
):
    """A row in seconds with an interval of 4%, unless `more` says otherwise."""
    low, high = (None, None) if ratio is None else (ratio * 0.96, ratio * 1.04)
    geometry, software = more.pop("geometry", "2x1"), more.pop("software", ("MPI 4.1", "MPI 5.0"))
    values = (0.01, None if ratio is None else 0.01 * ratio)
    before, after = (
        model.Side(5, 10, value, 0.02, geometry, [], state)
        for value, state in zip(values, software, strict=True)
    )
    fields = METRIC | {"check": check, "case": case, "method": method, "verdict": verdict}
    fields |= {"before": before, "after": after, "control": False, "ratio": ratio}
    return model.Row(**{**fields, "low": low, "high": high, "p": 0.01, **more})


def comparison(rows, **more):
    """A night against seven."""

    def session(uuid, night, **tags):
        return {"uuid": uuid, "start": MADE - night * NIGHT, "tags": tags, "folder": f"r{night}"}

    before = [session(f"{n}c0bcb89", n, tier="nightly") for n in range(7, 0, -1)]
    return model.Comparison(before, [session("feedbeef", 0, phase="after")], rows, **more)


def series(values, points=(), **more):
    times = [MADE - n * NIGHT for n in range(len(values), 0, -1)]
    drawn = {"times": times, "values": list(values), "points": list(points)}
    return model.DrawnHistory(**drawn, **METRIC | more)


def change_point(ratio=1.3, **more):
    fields = {"session": "feedbeef", "at": MADE - 3 * NIGHT, "before": 20, "after": 4}
    point = model.ChangePoint(ratio=ratio, **METRIC | fields | more)
    worse = point.stands and not point.back and point.verdict == Verdict.REGRESSED
    return replace(point, alarm=worse)


def event(*points, **more):
    """What began in the session of these points."""
    (first, *_) = points
    counts = Counter(point.check for point in points)
    fields = {"session": first.session, "at": first.at, "first": first.at, "last": first.at}
    fields |= {"metrics": {check: (count, 40) for check, count in counts.items()}}
    nights = [Session(f"{n:08x}", MADE + n * NIGHT, {}, {}) for n in range(-20, 4)]
    fields |= {"before": nights[:20], "after": nights[20:]}
    return model.Event(points=list(points), **PLACE | fields | more)


def case(check="transpose", name="cnt40", method="shm", geometry="2x1", seconds=0.01, **more):
    """A test of a run that passed; `metrics` are further ones, as name=(value, unit)."""
    metrics = {"time": (seconds, "s"), **more.pop("metrics", {})}
    system, _, partition = more.pop("partition", "localhost:default").partition(":")
    environ, layout = more.pop("environ", "system"), more.pop("layout", "mpi")
    fields = {"name": f"{check} %method={method}", "hash": "1eea43dd", "verdict": Verdict.PASS}
    fields |= {"files": "results/now/kernels/x.*", "seconds": [more.pop("took", 0.0)], **more}
    fields["metrics"] = [JudgedMetric(n, v, u, None, None, "pass") for n, (v, u) in metrics.items()]
    places = (system, partition, environ, check, name, layout, method)
    return result_of(*places, geometry=geometry, **fields)


def said(text):
    return Text(text=text)


ABORT = MpiAbort(rank=3, host="cn017", exit_code=1)


def failure(verdict=Verdict.FAIL, reason=ABORT, **more):
    return case(verdict=verdict, reason=reason, **more)


def ran(*cases, **more):
    """The verdict on a run of these tests."""
    return RunVerdict(cases=list(cases), session="feedbeef", **more)


# Phase2 over Phase1 of HPCx: M. Ashworth et al., "Application Performance on the High Performance
# Switch", HPCxTR0417 (2004), with the newest software measured: code, data, processors, speed-up,
# and where that is of the ratio of clocks, 1.31, if times vary by 3% (analysis/test_upgrade.py).
CLOCK = 1.31
AGAINST = {1.18: "below", 1.31: "at", 1.32: "at", 1.37: "unclear"}  # all others are above
HPCX = []
with open(LITERATURE / "hpcx_ratios.csv", newline="") as file:
    for line in csv.DictReader(file):
        speedup = float(line["phase2_sp7_over_phase1"] or line["phase2_over_phase1"])
        test = (line["code"], line["data"], int(line["processors"]))
        HPCX.append((*test, speedup, AGAINST.get(speedup, "above")))


def hpcx():
    """Figure 17 of that report; published numbers have no intervals. A node has 32 processors."""
    absent = {"layout": "", "low": None, "high": None, "p": None, "system": "hpcx"}
    rows = []
    for code, data, processors, speedup, against in HPCX:
        how = {"geometry": f"{processors // 32}x32x1", "software": ("Phase1", "Phase2")}
        how |= {"against": against, "partition": f"p{processors}"}
        rows.append(row(code, data, "", Verdict.IMPROVED, 1 / speedup, **how, **absent))
    evidence = Evidence(comparison=comparison(rows, expected=CLOCK))
    return Report("HPCx: Phase2 against Phase1", MADE, evidence)


def cluster():
    """A night on a cluster on which everything happened that can happen."""
    unmeasured, inconclusive = Verdict.NOT_MEASURED, Verdict.INCONCLUSIVE
    absent = Text("in none of the sessions after (1)")
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
        model.Change("MPI", "Open MPI 4.1.4", "Open MPI 5.0.5"),
        model.Change("kernel", "6.1.0", "6.1.9"),
    ]
    compared = comparison(
        rows,
        advice=[said("Look at cn017 first."), said("Measure sic in two more sessions.")],
        changes=changes,
        undecided=[model.Undecided("noise", 1, "34")],
        suspects=[slow_node("cn017", 1.44, 12, "cluster:cpu")],
    )
    noise = [random.Random(n).gauss(1, 0.01) for n in range(60)]
    old, new, best = ([level * each for each in noise] for level in (0.01, 0.0142, 0.008))
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
        failure(unmeasured, TestFailed(test="TransposeLaunch"), method="p2p"),
        remarks=[Text("other processes use 0.4 of 128 cores (collectl 0.4)")],
        seconds=723.0,
    )
    beside = {"comparison": compared, "events": history, "series": histories}
    evidence = Evidence(blames=[pairs(8, slow=5)], **beside)
    return Report("Bisection on cluster:cpu", MADE, evidence, run=run, of_run=True)


def pairs(nodes, slow=None):
    """The judgement of a made-up network with a node at 60%."""
    world = World(nodes, nodes, 1)
    world.faults = [] if slow is None else [("node", slow, 0.6)]
    matrix = world.matrix(known=False)
    matrix.nodes[:] = [f"cn{number + 12:03d}" for number in range(nodes)]
    judged = judge(matrix)
    judged.place = "cluster:cpu system"
    return judged


def published():
    """Cases on 1 to 16 nodes, for every figure of the published studies."""
    results = []

    def add(check, name, method, nodes, shape, seconds, **more):
        more["partition"] = f"cluster:n{nodes}"
        results.append(case(check, name, method, f"{nodes}x{shape}", seconds, **more))

    methods = enumerate(("alltoallv", "p2p", "padded", "shm", "leaders"))
    for (k, method), nodes, name in itertools.product(methods, (1, 4, 16), ("cnt40", "silicon")):
        metrics = {"ratio_alltoallv": (1.0, "ratio")}
        metrics |= {"exchange_share": (1 - 0.8 / nodes**0.5, "share")}
        add("transpose", name, method, nodes, "16x1", 0.2 / nodes + 0.004 * k, metrics=metrics)
    for npar, name in itertools.product((1, 2, 4, 8, 16, 32), ("bench1", "bench2")):
        add("npar", name, f"npar-{npar}", 8, "16x1", 40 + (npar - 8) ** 2)
    shapes = {"mpi": "16x1", "node": "1x16", "node2": "2x8", "domain": "4x4"}
    shares = {f"{part}_share": (0.1, "share") for part in ("p2p", "collective", "barrier")}
    for nodes, name, layout in itertools.product((1, 4, 16), ("sic", "fe"), shapes):
        more = {"metrics": shares, "layout": layout}
        add("md", name, "packed", nodes, shapes[layout], 1.0 / nodes, **more)
    for k, method in enumerate(("file-per-rank", "mpi-io-collective"), start=1):
        metrics = {"bandwidth_write": (3.3e9 / k, "B/s"), "cached_share": (0.2 / k, "share")}
        add("restart", "waves-mini@/scratch", method, 4, "16x1", 0.1 * k, metrics=metrics)
    metrics = {"operations_create": (12300.0, "operations/s")}
    add("restart_metadata", "files-50@/scratch", "own-folder", 4, "16x1", 0.1, metrics=metrics)
    sweep = {f"time_{2 * 4**k}B": (2e-6 + 3e-8 * 4**k, "s") for k in range(1, 5)}
    for method in ("alltoall", "alltoallv"):
        swept = case("network", "sweep", method, metrics=sweep)
        results.append(replace(swept, metrics=swept.metrics[1:]))
    return results


def large():
    """Three thousand metrics of as many nights as a history has, of which some changed."""
    counts = dict.fromkeys(("regressed", "improved", "inconclusive", "missing"), 20)
    reason, rows, histories = said("a clause of usual length"), [], []
    for n, each in enumerate(rows_of(**counts, unchanged=2920)):
        rows.append(replace(each, check=f"check{n % 7}", reason=reason))
        noise = [0.01 + 1e-5 * ((n * 7 + k * 31) % 101) for k in range(60)]
        histories.append(series(noise, [30] if n < 20 else [], check=rows[n].check, case=each.case))
    failures = [
        failure(reason=said("x" * 5000), method=f"m{n}", hosts=["cn1"] * 50) for n in range(300)
    ]
    cases = [
        case(
            f"check{c}",
            f"case{k}",
            f"method{m}",
            f"{2**g}x16x1",
            0.1 / 2**g,
            partition=f"a:n{g}",
            kernel="transpose",
        )
        for c, k, m, g in itertools.product(range(7), range(20), range(10), range(5))
    ]
    compared, run = comparison(rows), ran(*failures, *cases)
    evidence = Evidence(blames=[pairs(200, 7)], comparison=compared, series=histories)
    return Report("Large", MADE, evidence, run=run)


class Page:
    """The content of a page, which is XML but for its elements without an end."""

    def __init__(self, text):
        self.root = ET.fromstring(re.sub(r"<(meta [^>]*)>", r"<\1/>", text))
        for style in self.root.iterfind(".//{*}style"):
            style.text = ""
        self.text = words(self.root)
        self.headings = list(map(words, self.root.iter("h2")))

    def values(self, *names):
        return [
            had.get(name) for had in self.root.iter() for name in had.attrib.keys() & set(names)
        ]

    def unfolded(self, tag):
        """How many of these elements a reader sees without a click."""
        folded = self.root.iterfind(f".//details//{tag}")
        return len({*self.root.iter(tag)} - {*folded})


def words(element):
    return " ".join(" ".join(element.itertext()).split())


def page(report):
    """The page of a report, parsed; what must hold of every page holds."""
    text = pages.html(report)
    parsed = Page(text)
    assert len(text.encode()) < 1_000_000
    ids, urls = parsed.values("id"), parsed.values("href", f"{{{XLINK}}}href", "src")
    assert len(ids) == len(set(ids)), "two elements with one identifier"
    for scrolled in parsed.root.iterfind(".//*[@tabindex]"):  # by keys; a name says what it is
        assert scrolled.get("role") == "group"
        assert scrolled.get("aria-label")
    tables, scrolled = (parsed.root.findall(f".//{path}table") for path in ("", "*[@tabindex]/"))
    assert len(tables) == len(scrolled)
    assert all(head.get("scope") == "col" for head in parsed.root.iter("th"))
    levels = [int(e.tag[1]) for e in parsed.root.iter() if re.fullmatch("h[1-6]", str(e.tag))]
    assert all(new <= old + 1 for old, new in itertools.pairwise([0, *levels]))
    first = parsed.root.find("body")[0]  # what the first press of Tab reaches
    assert first.get("href")[1:] in ids
    refs = {url[1:] for url in urls if url.startswith("#")}
    refs.update(*map(str.split, parsed.values("aria-labelledby")))
    refs |= set(re.findall(r'[":]\s*url\(#([^)]*)\)', text))
    assert refs <= set(ids), refs - set(ids)
    urls = [url for url in urls if not url.startswith(("#", "data:image/png;base64,"))]
    assert all(re.fullmatch(r"[\w./%-]+", url) for url in urls)  # files beside the page
    assert parsed.root.find(".//{*}script") is None
    names = {name for element in parsed.root.iter() for name in element.attrib}
    assert not any(name.startswith("on") for name in names)
    return parsed


def only(**fields):
    """A report with nothing else; of its evidence, too, by the names of fields."""
    names = fields.keys() & Evidence.__dataclass_fields__
    evidence = Evidence(**{name: fields.pop(name) for name in names})
    return Report("A report", MADE, evidence, **fields)


def rows_of(**counts):
    """Rows of these verdicts; underscores are blanks."""
    return [
        row(case=f"{verdict}{n}", verdict=Verdict(verdict.replace("_", " ")))
        for verdict, count in counts.items()
        for n in range(count)
    ]


def families(text):
    samples = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            samples.setdefault(sample.name, []).append((sample.labels, sample.value))
    return samples
