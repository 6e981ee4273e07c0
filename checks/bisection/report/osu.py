"""What OSU's micro-benchmarks measure, under their names: the numbers that vendors quote."""

from dataclasses import dataclass
from typing import NamedTuple

from bisection.core.format import number, plural, size_of
from bisection.core.identity import parsed, swept_size
from bisection.core.verdicts import Verdict
from bisection.report.text_tables import TextTable, listing
from bisection.runs.run_verdict import RunVerdict, TestResult

CHECK = "network_osu"
LEAD = (
    "By the rules and in the units of OSU's micro-benchmarks (MB/s is 10^6 bytes/s): windows of 64 "
    "messages, one buffer for all. osu_latency, osu_bw and osu_bibw are of two ranks, of two nodes "
    "if there are two; osu_mbw_mr is of one half of the ranks to the other."
)


class Column(NamedTuple):
    """A number of a benchmark, of a method's metric at each size."""

    method: str
    metric: str
    benchmark: str  # OSU's name
    unit: str
    scale: float  # units per unit of the metric


COLUMNS = (
    Column("latency", "latency", "osu_latency", "us", 1e6),
    Column("bw", "bandwidth", "osu_bw", "MB/s", 1e-6),
    Column("bibw", "bandwidth", "osu_bibw", "MB/s", 1e-6),
    Column("mbw-mr", "bandwidth", "osu_mbw_mr", "MB/s", 1e-6),
    Column("mbw-mr", "message_rate", "osu_mbw_mr", "messages/s", 1.0),
    Column("alltoall", "latency", "osu_alltoall", "us", 1e6),
    Column("allreduce", "latency", "osu_allreduce", "us", 1e6),
)


@dataclass
class OsuNumbers:
    """What a launch has measured by the rules of OSU's micro-benchmarks."""

    place: str  # partition and environment
    geometry: str
    benchmarks: dict[str, dict[str, dict[str, float]]]  # OSU's name -> unit -> size (B) -> value


class Osu(NamedTuple):
    """What a launch has measured: by column, and by size (B)."""

    place: str  # partition and environment
    geometry: str
    values: dict[Column, dict[int, float]]

    @property
    def title(self) -> str:
        """Where, and of how many ranks."""
        shape = parsed(self.geometry)
        if not shape:
            return self.place
        return f"{self.place}: {plural(shape.ranks, 'rank')} on {plural(shape.nodes, 'node')}"

    @property
    def numbers(self) -> OsuNumbers:
        """For verdict.json."""
        named: dict[str, dict[str, dict[str, float]]] = {}
        for column, values in self.values.items():
            by_size = {str(size): value for size, value in values.items()}
            named.setdefault(column.benchmark, {})[column.unit] = by_size
        return OsuNumbers(self.place, self.geometry, named)


def measured(run: RunVerdict | None) -> list[Osu]:
    """The numbers of each launch, of methods whose answer was right; of several runs of a launch
    the last one's."""
    launches: dict[str, Osu] = {}
    for case in run.judged if run else []:
        if run is None or case.check != CHECK:
            continue
        if run.outcome(case) not in (Verdict.PASS, Verdict.FAIL):
            continue
        osu = launches.setdefault(case.place, Osu(case.place, case.record.geometry, {}))
        for column in COLUMNS:
            if column.method == case.method and (values := _by_size(case, column)):
                osu.values[column] = values
    return [osu for osu in launches.values() if osu.values]


def _by_size(case: TestResult, column: Column) -> dict[int, float]:
    """The numbers of a column by size (B), ascending."""
    sizes = ((swept_size(metric.name, column.metric), metric) for metric in case.metrics)
    values = {size: metric.value * column.scale for size, metric in sizes if size}
    return dict(sorted(values.items()))


def table(osu: Osu) -> TextTable:
    """A row per size, a column per number."""
    sizes = sorted({size for values in osu.values.values() for size in values})

    def cell(column: Column, size: int) -> str:
        value = osu.values.get(column, {}).get(size)
        return "" if value is None else number(value) if value < 1000 else f"{value:.0f}"

    columns = [(f"{c.benchmark} {c.unit}", "num", lambda size, c=c: cell(c, size)) for c in COLUMNS]
    return listing(sizes, (("size", "num", size_of), *columns), name="sizes", title=osu.title)
