"""The first screen of a report: the verdict and its causes, what is new, what to do."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from bisection.core.format import duration, plural, short, some, utc
from bisection.core.grouping import grouped
from bisection.core.reasons.performance import SlowNode, fact
from bisection.core.verdicts import Exit, Verdict
from bisection.report import verdict_text, words
from bisection.report.report_data import Report, headline
from bisection.runs.command import dependents, rerun
from bisection.runs.run_verdict import RunVerdict, TestResult

MOST = 3  # causes, changes and nodes that it names


class Step(NamedTuple):
    """What to do next."""

    text: str
    command: str = ""


class Opening(NamedTuple):
    """The part above the sections."""

    state: str  # a key of STATES
    headline: str
    sentences: Sequence[str] = ()
    unsafe: str = ""  # why the verdicts cannot be trusted; "" if they can
    since: str = ""  # heading of the news; "" if there is nothing to compare with
    news: Sequence[str] = ()
    steps: Sequence[Step] = ()


def opening(report: Report) -> Opening:
    """The verdict, what is new, and what to do about it."""
    comparison, run = report.comparison, report.run
    state, title = headline(report)
    sentences = []
    if run:
        sentences += _few([*_causes(report, run)])
    # The one session of a night leaves most metrics open, which is no news.
    undecided = all(row.verdict == Verdict.INCONCLUSIVE for row in report.rows)
    if comparison and not (report.of_run and undecided):
        sentences.append(f"Against earlier sessions: {words.sentence(comparison)}")
    if comparison and not report.of_run:
        sentences += map(str, comparison.advice)
    if run:
        first = f"The run: {verdict_text.counted(run, timed=True)}"
        if title == verdict_text.counted(run):
            first = f"It took {duration(run.seconds)}"
        sentences.append(". ".join(filter(None, (first, verdict_text.times_judged(run)))))
    if network := report.interconnect:
        title = network.headline + (f". {title}" if not network.findings else "")
    unsafe = words.unsafe(comparison) if comparison else ""
    since, news = _news(report)
    return Opening(state, title, sentences, unsafe, since, news, [*_steps(report)])


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _few(texts: Sequence[str], most: int = MOST) -> list[str]:
    left = len(texts) - most
    return [short(text, 240) for text in texts[:most]] + [f"And {left:,} more."] * (left > 0)


def _causes(report: Report, run: RunVerdict) -> Iterator[str]:
    """Why the verdict is no PASS, what is surest first."""
    yield from map(str, (*run.troubles, *run.failures))
    for group in verdict_text.failure_groups(run):
        yield f"{group.where}: {'; '.join(group.causes)}"
    yield from map(str, (*run.slower, *run.outliers, *report.alarms, *run.slow_nodes))


# ---- what is new ----


def _news(report: Report) -> tuple[str, list[str]]:
    """Heading and lines of what is new since the session before, or since the baseline."""
    comparison, evidence = report.comparison, report.evidence
    if not report.of_run:
        if not comparison:
            return "", []
        facts = [fact(each.what, each.before, each.after) for each in comparison.changes]
        return "Changed between the sessions", _few(facts) or ["Nothing that is recorded."]
    if not report.run or evidence.nights is None:
        return "", []
    if not evidence.before:
        first = evidence.nights <= 1
        text = (
            "This is the first night of its kind." if first else "No earlier night is comparable."
        )
        return "New since the last night", [text]
    texts = [*_outcomes(report.run, evidence.last)]
    if gone := evidence.vanished:
        texts.append(f"{plural(len(gone), 'test')} of that night did not run: {some(gone, MOST)}")
    slower = {"confirmed": report.run.slower, "not retested": report.run.outliers}
    texts += [
        f"{plural(len(reasons), 'metric')} slower than in all earlier sessions, {sure}"
        for sure, reasons in slower.items()
        if reasons
    ]
    texts += [words.banner([alarm]) for alarm in report.alarms if alarm.is_new]
    texts += [f"Changed: {fact(each.what, each.before, each.after)}" for each in evidence.changes]
    heading = f"New since the night of {utc(evidence.since)}"
    nothing = "Nothing: the same tests pass, no new alarm, the same software."
    return heading, _few(list(map(_capital, texts)), 2 * MOST) or [nothing]


# now, and whether it was so before -> what that is called
NEWS = {
    (Verdict.FAIL, False): ("fails", "fail", "new tonight"),
    (Verdict.NOT_MEASURED, False): ("was not measured", "were not measured", "new tonight"),
    (Verdict.KNOWN, False): ("fails as known", "fail as known", "new tonight"),
    (Verdict.NOT_APPLICABLE, False): ("is not applicable", "are not applicable", "new tonight"),
    (Verdict.PASS, False): ("passes", "pass", "and did not before"),
    (Verdict.FAIL, True): ("fails", "fail", "as then"),
    (Verdict.NOT_MEASURED, True): ("was not measured", "were not measured", "as then"),
}


def _outcomes(run: RunVerdict, last: Mapping[tuple[str, ...], Verdict]) -> Iterator[str]:
    """A sentence per way in which tests came out otherwise than in the session before, or badly
    again. A test that it did not have counts as one that was not applicable."""

    def kind_of(case: TestResult) -> tuple[Verdict, bool]:
        now = run.outcome(case)
        return now, now == last.get(case.identity, Verdict.NOT_APPLICABLE)

    kinds = grouped(run.judged, kind_of)
    for kind, (verb, verbs, when) in NEWS.items():
        if cases := kinds.get(kind, ()):
            names = some(dict.fromkeys(case.group for case in cases), MOST)
            count = plural(len(cases), "test")
            yield f"{count} {verbs if cases[1:] else verb}, {when}: {names}"


# ---- what to do ----


def _steps(report: Report) -> Iterator[Step]:
    steps = [*_of_run(report, report.run)] if report.run else []
    for alarm in report.alarms[:1]:
        steps += [Step(_capital(text), command) for text, command in words.next_steps(alarm)[:1]]
    if comparison := report.comparison:
        command = words.rerun_of(comparison)
        if command and not (report.of_run and any(step.command for step in steps)):
            steps.append(Step("Measure again what got worse or was not measured", command))
    if not steps:
        sound = report.exit_code == Exit.OK
        steps = [Step("Nothing." if sound else "Read the first sections below.")]
    yield from steps


def _of_run(report: Report, run: RunVerdict) -> Iterator[Step]:
    bad = [case for case in run.bad if not case.follows]
    reasons = [*run.troubles, *run.failures, *(case.reason for case in bad)]
    known = dict.fromkeys(filter(None, map(verdict_text.what_next, reasons)))
    yield from (Step(_capital(text)) for text in [*known][:MOST])
    if network := report.interconnect:
        for part in network.bad[:MOST]:
            yield Step(f"Look at {part.name}: {part.look}")
    if nodes := _nodes(run):
        yield Step(f"Take {some(nodes, MOST)} out of service: nodecheck.txt says why")
    if groups := verdict_text.failure_groups(run):
        command = groups[0].rerun
        if groups[1:]:
            command = rerun(dependents(run, bad) or bad, run.request)
        yield Step("Repeat what failed or was not measured", command)


def _nodes(run: RunVerdict) -> list[str]:
    """Nodes that are slow for sure."""
    single = (r for r in run.slow_nodes if not (isinstance(r, SlowNode) and r.nodes[1:]))
    hosts = (r.nodes[0] if isinstance(r, SlowNode) else r.host for r in single)
    return [f"node {host}" for host in dict.fromkeys(hosts)]
