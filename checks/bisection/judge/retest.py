"""Rules on metrics slower than in all earlier sessions: confirmed by the retest, or outliers."""

import math
from dataclasses import replace

from bisection.analysis.model import Row
from bisection.analysis.retest import Launch
from bisection.core.reasons import Code
from bisection.core.thresholds import LIMITS
from bisection.judge.evidence import Evidence
from bisection.judge.nights import reason_of
from bisection.judge.rerun import Reruns
from bisection.runs.model import RunVerdict
from bisection.store.selection import SLOWER


def rule(verdict: RunVerdict, evidence: Evidence) -> RunVerdict:
    """Names what is slower, what was not rerun, and what did not repeat."""
    if evidence.retest is None:
        return verdict
    plan, reruns = evidence.retest.plan, Reruns(verdict, evidence.retest)
    slower, outliers, remarks = [], [], []
    refuted: dict[Launch, list[Row]] = {}
    for launch, rows in plan.outliers.items():
        known = [row for row in rows if row.key in reruns.values]
        confirmed, alike, still = [], [], 0
        for row in known:
            now = reruns.metric(row.key, row.better, row.absolute)
            for limit in filter(None, (row.limit, row.shared_limit)):
                low, high = (0.0, limit) if row.better == "lower" else (limit, math.inf)
                if (nodes := now.outside(low, high)) is not None:
                    reason = reason_of(Code.SLOWER, row, rerun=now.value, nodes=nodes)
                    (alike if limit == row.shared_limit else confirmed).append(reason)
                    still += bool(row.shared)
                    break
        # What times share is in half of them again.
        if alike and 2 * still >= max(row.shared for row in known):
            confirmed += alike
        slower += confirmed
        if known and not confirmed:
            refuted[launch] = known
        why = plan.why or ("unmeasured" if launch in plan.chosen else "budget")
        outliers += [
            reason_of(Code.OUTLIER, row, why=why, seconds=plan.cost[launch], budget=plan.budget)
            for row in rows
            if row.key not in reruns.values and not confirmed
        ]
    if refuted:
        worst = max(row.excess for rows in refuted.values() for row in rows)
        counts = {"metrics": sum(map(len, refuted.values())), "factor": worst}
        launches = [" ".join((rows[0].check, *launch[1:3])) for launch, rows in refuted.items()]
        remarks.append(Code.DID_NOT_REPEAT(launches=launches, **counts))
    if reruns.drift > 1 + LIMITS.margin:
        control = " ".join(filter(None, plan.control[:3]))
        remarks.append(Code.RETEST_SLOWER(control=control, factor=reruns.drift))
    if slower or outliers:
        tags = {**verdict.tags, SLOWER: "confirmed" if slower else "outlier"}
        verdict = replace(verdict, tags=tags)
    return verdict.noting(slower=slower, outliers=outliers, remarks=remarks)
