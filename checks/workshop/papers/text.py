"""The findings of the four papers as lines of text."""

from collections import Counter
from collections.abc import Iterator, Sequence

from bisection.core.format import number, plural, some
from bisection.core.thresholds import LIMITS
from bisection.report.lines import wrapped
from bisection.report.text_tables import indented
from papers.observables import needed
from workshop.papers import simulation
from workshop.papers.judging import Judged, Part, Shown, counts, numbers
from workshop.papers.simulation import Cost

HEAD = ["ID", "published", "simulated", "ratio", "asserted by", "verdict"]
PARTS = 3  # of a finding, in its row
DEAREST = 12  # launches, whose cost is printed


def text(rows: Sequence[Judged], verbose: bool = False) -> Iterator[str]:
    """Lines: a row per finding, why some are not true, and the totals.

    Args:
        rows: the findings.
        verbose: whether each number, sign and order has a row of its own.
    """
    yield "Findings of the four papers, beside our kernels on their machines, simulated"
    yield ""
    yield from indented([HEAD, *map(_cells, rows)])
    yield ""
    if verbose:
        yield from indented([["ID", *HEAD[1:4], "verdict", "expression"], *_parts(rows)])
        yield ""
        yield from indented([["fitted value", "fits", "tested by"], *_fits(rows)])
        yield ""
    for row in rows:
        none = row.parts and all(part.value is None for part in row.parts)
        words = [] if none else row.reasons
        words += [f"fitted to it: {_fitted(row)}"] if row.fitted else []
        if words:
            yield from wrapped(f"{row.finding.id}: {row.finding.finding}: {'; '.join(words)}")
    yield ""
    yield from indented([["", "true by prediction", "true by fit", "false"], *_split(rows)])
    yield from totals(rows)


def _split(rows: Sequence[Judged]) -> Iterator[list[str]]:
    for words, strictly in (("as judged", False), ("if each printed number decides", True)):
        yield [words, *map(str, counts(rows, strictly))]


def _cells(row: Judged) -> list[str]:
    shown = row.parts[:PARTS]
    more = f" (+{len(row.parts) - PARTS})" if len(row.parts) > PARTS else ""
    published = " ".join(part.observable.published for part in shown) + more if shown else "-"
    values = " ".join(map(_value, shown)) if shown else "-"
    ratios = " ".join(map(_ratio, shown)) if any(part.ratio for part in shown) else "-"
    by = "kernels, simulated" if row.finding.by == "simulated" else row.finding.by
    where = row.finding.where.rpartition(" ")[2] if row.finding.by in ("test", "typed") else ""
    held = sum(part.holds for part in row.parts)
    part = f" ({held} of {len(row.parts)} hold)" if row.verdict == Shown.FALSE else ""
    fitted = ", fitted" if row.fitted and row.verdict == Shown.TRUE else ""
    return [
        row.finding.id,
        published,
        values,
        ratios,
        f"{by} {where}".strip(),
        f"{row.verdict}{part}{fitted}",
    ]


def _parts(rows: Sequence[Judged]) -> Iterator[list[str]]:
    for row in rows:
        for part in row.parts:
            quantity = part.observable
            where = " ".join(dict.fromkeys([quantity.machine, quantity.kernel, quantity.case]))
            held = (
                Shown.NOT_RUN if part.value is None else Shown.TRUE if part.holds else Shown.FALSE
            )
            cells = [quantity.finding, quantity.published, _value(part), _ratio(part), str(held)]
            yield [*cells, f"{where}: {quantity.expression}"]


def _fits(rows: Sequence[Judged]) -> Iterator[list[str]]:
    """The values that were fitted, each to one finding, and the findings that it is tested by."""
    for value in (row for row in simulation.rows() if row["fits"]):
        machines = {*value["machines"].split()}
        tests = [
            row.finding.id
            for row in rows
            if row.finding.id != value["fits"]
            and machines & {place[0] for place in needed([row.finding])}
        ]
        name = f"{value['quantity']} {value['value']} {value['unit']} of {value['machines']}"
        yield [name, value["fits"], " ".join(tests)]


def costs(rows: Sequence[Cost]) -> Iterator[str]:
    """Lines: what the simulation of launches took, and the dearest of them."""
    if not rows:
        return
    dear = sorted(rows, key=lambda row: -row.seconds)[:DEAREST]
    for row in dear:
        words = " ".join(map(str, row.launch))
        yield f"  {row.seconds:7.1f} s  {row.memory / 1e9:5.2f} GB  {words}"
    total, memory = sum(row.seconds for row in rows), max(row.memory for row in rows)
    yield (
        f"{plural(len(rows), 'launch', 'launches')}: {total:.0f} s of one core, at most "
        f"{memory / 1e9:.1f} GB each"
    )
    yield ""


def turned(pairs: Sequence[tuple[Judged, Judged]], verbose: bool = False) -> Iterator[str]:
    """Lines: findings whose verdict a change of machines turns, and the others.

    Args:
        pairs: of each finding that the machines show, before and after.
        verbose: whether each number that changed has a row.
    """
    for before, after in pairs:
        if before.verdict != after.verdict:
            finding = before.finding
            yield f"{finding.id}: {before.verdict} -> {after.verdict}: {finding.finding}"
    for verdict in Shown:
        same = [a.finding.id for a, b in pairs if a.verdict == b.verdict == verdict]
        if same:
            yield f"still {verdict}: {', '.join(same)}"
    if verbose:
        yield ""
        cells = [
            [*then[:3], now[2], then[4], now[4], then[5]]
            for before, after in pairs
            for then, now in zip(_parts([before]), _parts([after]), strict=True)
            if then[2] != now[2]
        ]
        head = ["ID", "published", "before", "after", "", "", "expression"]
        yield from indented([head, *cells])


def _value(part: Part) -> str:
    return "-" if part.value is None else number(part.value)


def _ratio(part: Part) -> str:
    return "-" if part.ratio is None else f"{part.ratio:.2f}"


def _fitted(row: Judged) -> str:
    return ", ".join(f"{name} of {some(where, 3)}" for name, where in row.fitted.items())


def totals(rows: Sequence[Judged]) -> Iterator[str]:
    """Returns how many findings are shown by what, and how many published numbers are met."""
    of = Counter(row.verdict for row in rows)
    predicted, fit, _ = counts(rows, strictly=False)
    yield (
        f"{predicted + fit + of[Shown.TEST]} of {len(rows)} findings are asserted by our kernels "
        f"and true: {predicted} by prediction on simulated machines, {fit} there by values fitted "
        f"to them, {of[Shown.TEST]} by tests"
    )
    others = [verdict for verdict in Shown if verdict not in (Shown.TRUE, Shown.TEST)]
    words = {verdict: f"{of[verdict]} {verdict}" for verdict in others}
    known = sum(row.verdict == Shown.FALSE and bool(row.finding.change) for row in rows)
    words[Shown.FALSE] += f" ({known} explained, {of[Shown.FALSE] - known} not explained)"
    yield ", ".join(words.values())
    if of[Shown.NOT_RUN]:
        yield "not run: `workshop findings --simulate` launches what is missing"
    ratios = numbers(rows)
    near = sum(part.holds for part in ratios)
    yield f"{near} of {plural(len(ratios), 'published number')} within {LIMITS.published:.0%}"
