"""Two groups of sessions compared."""

import shlex

from bisection.analysis.controls import (
    count_failures,
    look_below,
    moves_by_itself,
    own_noise,
    size_of_change,
    withhold,
)
from bisection.analysis.judging import judge_rows
from bisection.analysis.model import Comparison, changes
from bisection.analysis.nodes import suspects
from bisection.analysis.observations import Measured, rows_of
from bisection.analysis.statistics import (
    CONFIDENCE,
    FALSE_DISCOVERIES,
    FEWEST,
    MARGIN,
    NOISE_MARGIN,
)
from bisection.analysis.upgrade import set_against
from bisection.analysis.wording import advice, change, sentence
from bisection.core.verdicts import (
    BELOW,
    IMPROVED,
    INCONCLUSIVE,
    MISSING,
    NOT_MEASURED,
    REGRESSED,
    UNCHANGED,
    VERDICTS,
)

SUSPECTS = "suspect"
EXIT = {**dict.fromkeys((*VERDICTS, SUSPECTS), 3), REGRESSED: 1, BELOW: 1}
FAIL_ON = (REGRESSED, MISSING, NOT_MEASURED)


def compare(store, before, after, expected=None, aa=(), control=None, name=None, fail_on=FAIL_ON):
    """The Comparison of two lists of stored sessions."""
    measured = [Measured(store, side) for side in (before, after)]
    rows, samples = rows_of(*measured, name)
    for row in rows:
        row.control = row.control or bool(control and control.search(f"{row.test} {row.metric}"))
    judge_rows(rows, samples)
    noisy, words = own_noise(store, before, aa, name)
    for row in rows:
        changed = row.key in noisy and row.verdict in (REGRESSED, IMPROVED)
        if changed and moves_by_itself(row, noisy[row.key]):
            row.why = f"{change(row)}, but it moves by itself: {words}"
            row.verdict = INCONCLUSIVE
    drift = withhold(rows, control) if expected is None else ""
    if not drift:
        look_below(rows)
    count_failures(rows, measured[1])
    if expected is not None:
        set_against(rows, expected)
    rows.sort(key=_order)
    unsafe = [drift] if drift else []
    if len(noisy) > FALSE_DISCOVERIES * len(rows):
        unsafe.append(f"{words}: {len(noisy)} metrics differ, though nothing was changed")
    result = Comparison(
        before=[_about(session) for session in before],
        after=[_about(session) for session in after],
        rows=rows,
        again=[_about(session) for session in aa],
        unsafe="; ".join(unsafe),
        changes=changes(before, after),
        suspects=suspects(store, after, rows),
        expected=expected,
        settings={
            "confidence": CONFIDENCE,
            "margin": MARGIN,
            "noise margin": NOISE_MARGIN,
            "false discoveries": FALSE_DISCOVERIES,
            "fewest samples": FEWEST,
        },
    )
    result.rerun = rerun(result)
    result.advice = advice(result, words)
    if noisy:
        result.advice.append(
            f"{len(noisy)} metrics moved by themselves, and are not judged: {words}"
        )
    result.sentence = sentence(result)
    failing = [EXIT[v] for v in fail_on if result.count(v)]
    if BELOW in fail_on and any(row.against == BELOW for row in rows):
        failing.append(EXIT[BELOW])
    if SUSPECTS in fail_on and any(row.suspect for row in rows):
        failing.append(EXIT[SUSPECTS])
    judged = any(row.verdict in (REGRESSED, IMPROVED, UNCHANGED) for row in rows)
    if fail_on and (result.unsafe or not judged):
        failing.append(EXIT[NOT_MEASURED])
    result.exit_code = min(failing, default=0)
    return result


def _order(row):
    size = -size_of_change(row) if row.ratio else 0
    return (VERDICTS.index(row.verdict), not row.suspect, size, row.test, row.metric)


def rerun(result):
    """The command that measures again what got worse or was not measured; "" if nothing was."""
    bad = [row for row in result.rows if row.verdict in FAIL_ON or row.suspect]
    bad = [row for row in bad if row.system and not row.control]  # what was run here
    if not bad:
        return ""
    here = [row for row in bad if (row.system, row.environ) == (bad[0].system, bad[0].environ)]
    names = list(dict.fromkeys(map(_pattern, here)))
    if len(names) > 4:
        names = [f"^({'|'.join(dict.fromkeys(row.check for row in here))})"]
    tags = result.after[-1]["tags"]
    words = ["bisection", "run", "--tier", tags.get("tier", "nightly")]
    words += ["--system", bad[0].system] if bad[0].system != "generic" else []
    words += ["-p", bad[0].environ] if bad[0].environ != "system" else []
    words += [word for name in names for word in ("-n", name)]
    return shlex.join([*words, f"--reruns={FEWEST - 1}"])


def _pattern(row):
    """What selects the row's test, and the others of its launch, for ReFrame."""
    layout = f"layout={row.layout}" if row.layout else ""
    case = f"launch.case={row.case}$" if row.case else ""
    return f"^{row.check}" + "".join(f"%.*{part}" for part in (layout, case) if part)


def _about(session):
    return {"uuid": session.uuid, "start": session.start, "tags": session.tags}
