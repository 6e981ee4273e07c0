"""All thresholds of verdicts, each with its unit and reason.

The report prints this table whole, under "How it was judged".
"""

from dataclasses import dataclass, field, fields
from typing import Any

MAD = 1.4826  # standard deviations per median absolute deviation, of the normal distribution


def _limit(value: float, unit: str, why: str) -> Any:
    return field(default=value, metadata={"unit": unit, "why": why})


@dataclass(frozen=True)
class Thresholds:
    """One field per threshold; its metadata holds `unit` and `why`."""

    # ---- one launch ----
    preempted_sample: float = _limit(
        0.05,
        "of a sample",
        "a sample is preempted if a thread waits longer for a core (src/common/measure.c)",
    )
    preempted_launch: float = _limit(
        0.3, "of samples", "a launch preempted more often is not judged by its times"
    )
    preempted_note: float = _limit(
        0.2, "of samples", "a launch preempted more often is noted with the verdict"
    )
    late: float = _limit(
        5.0, "times its estimate", "a launch that takes longer is named, with both"
    )
    stopped: float = _limit(
        5.0, "times their medians", "samples of a launch that take longer: its times are not judged"
    )
    stopped_ran: float = _limit(0.5, "of the time", "if its processes ran for less")
    late_least: float = _limit(30.0, "s", "a launch that is late by less is not named")
    layout_gain: float = _limit(0.02, "of time", "a hybrid layout faster by more is mentioned")
    slow_clock: float = _limit(
        0.9, "of the launch's median", "a host whose clock, work or memory is below is named"
    )
    slow_gross: float = _limit(
        1.5, "", "a node slower by this is named, even if others are slow too"
    )
    slow_launches: int = _limit(
        2, "launches", "in which a host is slow, the retest's among them, make it a slow node"
    )
    lost_most: float = _limit(0.1, "of the time", "of cores to other processes: the node is named")
    lost_usual: float = _limit(0.02, "of the time", "if the median node did not lose more")
    # ---- the adapters of a launch ----
    payload: float = _limit(
        4.0, "MiB per node", "between nodes: less is not told from other traffic of an adapter"
    )
    idle_rail: float = _limit(
        0.2, "of an equal share", "a claimed adapter that sent less did not take part"
    )
    adapter_errors: float = _limit(
        10.0, "times the other nodes' median", "an adapter with more errors is named"
    )
    retransmitted: float = _limit(1e-3, "of TCP's segments", "a node that repeats more is named")
    adapter_share: float = _limit(
        0.5, "of the rate of its adapters", "a pair of nodes that gets less is to be looked at"
    )
    # ---- a site ----
    build_space: float = _limit(24.0, "MB", "free: a build of the kernels takes as much")
    fact_noise: float = _limit(
        0.25, "of the value", "latency and bandwidth of a short trial job differ by this each time"
    )
    node_memory: float = _limit(
        1.0, "GiB", "per node of a launch, beside the buffers of the all-to-all sweep"
    )
    patterns_memory: float = _limit(
        64, "MiB", "per rank for the buffers of the kernel patterns; larger blocks are left out"
    )
    node_memory_change: float = _limit(
        0.02, "of the memory", "nodes of one kind differ by less; a lost module is more"
    )
    rank_exit: float = _limit(10.0, "s", "from a rank's exit to the end of its launch")
    carried: float = _limit(0.5, "of the bytes", "that the fast device must have sent")
    link_factor: float = _limit(
        2.0, "", "a link slower by more than in NAME.json is wrong; bisection run judges finely"
    )
    # ---- two groups of sessions ----
    confidence: float = _limit(0.98, "", "of the interval on the ratio")
    margin: float = _limit(0.05, "of the value", "a smaller change is of no interest")
    noise_margin: float = _limit(
        1.0, "standard deviations", "nor is a change smaller than the spread between sessions"
    )
    shared_margin: float = _limit(
        0.025, "of the value", "a smaller change that a kernel's metrics share is of no interest"
    )
    shared_chance: float = _limit(
        0.003, "", "that a table without a change shows one that metrics share"
    )
    false_discoveries: float = _limit(
        0.01, "of verdicts", "false ones in one table (Benjamini and Hochberg 1995)"
    )
    fewest: int = _limit(5, "nights or jobs per side", "with fewer nothing is judged")
    night: float = _limit(12, "hours", "sessions that began within them count as one night")
    day: float = _limit(
        24, "hours", "sessions of one such time are compared without how nights differ"
    )
    unknown_nights: float = _limit(
        0.5,
        "of the value",
        "few nights may differ by this without a change: their jobs show none below it",
    )
    seen: float = _limit(0.95, "", "of changes of some size that a comparison must find to see it")
    gone: int = _limit(3, "sessions", "a test absent from so many newest sessions is missing")
    preempted_tail: float = _limit(
        0.01, "of samples", "if preempted more often, p99 shows other processes, not the code"
    )
    drift: float = _limit(
        0.025, "of the value", "half the margin: if a control moved by more, it explains the times"
    )
    baseline_part: float = _limit(
        0.5,
        "of the ratio's change",
        "the time must have changed by this, otherwise the baseline changed",
    )
    # ---- one session beside the earlier ones ----
    slower_chance: float = _limit(
        0.01,
        "",
        "that a night without a change has outliers, slower than all earlier ones; also "
        "the false part of the metrics that are named (Benjamini and Hochberg 1995)",
    )
    changed_chance: float = _limit(
        0.05, "", "the same, where a fact of the machine or its software changed since"
    )
    together: int = _limit(
        3, "times", "of a launch, a kernel or a partition, at least, are tested as one, too"
    )
    slower_margin: float = _limit(
        0.1,
        "of the value",
        "a single night slower by less raises no alarm; history finds such changes",
    )
    # ---- a busy machine ----
    busy_cores: float = _limit(
        0.1, "cores", "in use by others before the run: launches will be preempted"
    )
    busy_launches: int = _limit(3, "launches", "preempted in a row: the run prints a warning")
    # ---- a queue ----
    controller_silent: float = _limit(
        60.0, "s", "that a run waits for Slurm's controller to answer"
    )
    nodes_taken: float = _limit(
        30.0, "s", "that a job waits for nodes that the run chose, before Slurm chooses others"
    )
    # ---- communication ----
    network_bound: float = _limit(0.3, "of time", "communicating: a check bound by the network")
    mixed: float = _limit(0.05, "of time", "communicating: below it, a check is bound by the cores")
    no_network: float = _limit(
        0.005, "of time", "communicating: less cannot be explained by a network"
    )
    explained_least: float = _limit(
        0.25, "of a slow-down", "below it, the network is not named as the cause"
    )
    explained_low: float = _limit(
        0.7, "of the prediction", "below it, a pattern takes fewer messages"
    )
    explained_high: float = _limit(
        1.5, "of the prediction", "above it: contention, or another algorithm"
    )
    # ---- nodes ----
    idle_nodes: float = _limit(
        0.5, "of a partition", "idle: a run asks for nodes by name; below, Slurm chooses"
    )
    sweep_sets: int = _limit(
        100, "sets of nodes", "of one run with --sweep-nodes; of more, the least used nodes"
    )
    node_sessions: int = _limit(20, "sessions", "of one kind, by which a run blames nodes")
    node_chance: float = _limit(
        0.02, "", "that reshuffled launches show any slow node so clearly (Westfall and Young 1993)"
    )
    node_votes: int = _limit(
        3, "sessions or sets", "with a node and without it, at least, for naming it"
    )
    node_exceptions: float = _limit(
        0.05, "of nights on one set of nodes", "slow without the node, or fast with it, at most"
    )
    node_vote: float = _limit(
        0.2, "of the time", "a launch that is slower by more counts as slower by this"
    )
    node_odds: float = _limit(100.0, "", "against other nodes, for naming one alone")
    # ---- other traffic ----
    impact: float = _limit(1.2, "of the quiet mean", "under other traffic: above it, look")
    impact_p99: float = _limit(1.5, "of the quiet p99", "under other traffic: above it, look")
    impact_look: float = _limit(2.0, "of the quiet value", "under other traffic: above it, no-go")
    impact_quiet: float = _limit(
        0.1, "of the quiet mean", "difference of two quiet windows: above it, no verdict"
    )
    impact_load: float = _limit(
        0.5, "of its bytes alone", "an aggressor that moved less during a victim does not count"
    )
    impact_cycles: int = _limit(5, "cycles", "with fewer sets of nodes, no verdict")
    # ---- pairs of nodes ----
    pair_chance: float = _limit(
        0.001, "", "that noise looks like a bad component, over all of a kind (Bonferroni)"
    )
    pair_effect: float = _limit(
        0.05, "of the value", "an effect must exceed; that of a path, twice"
    )
    pair_share: float = _limit(
        0.75, "of its pairs", "must be slow: few slow pairs make no slow node"
    )
    pair_retests: int = _limit(3, "pairs", "in the rerun confirm a node, a switch or a route")
    pair_noise: float = _limit(
        0.25, "of the value", "between pairs: above it, only effects far outside count"
    )
    pair_noisy: float = _limit(
        4.0, "times that noise, of the logarithm", "that an effect must exceed then"
    )
    pair_resolution: float = _limit(0.01, "of the value", "no pair is measured more precisely")
    pair_nodes: int = _limit(6, "nodes", "with fewer, a slow node looks like noise")
    pair_far: float = _limit(
        1.2, "of the latency", "between switches that latency tells apart; exact, by simulation"
    )
    pair_switch: int = _limit(16, "nodes", "of each such switch, by simulation")
    pair_nights: int = _limit(3, "nights", "earlier ones, at least, that a component is worse than")
    # ---- histories ----
    false_alarms: float = _limit(
        1.0, "a year", "of a nightly history without a change: of all its metrics together"
    )
    alarm_nights: float = _limit(
        4.4, "nights", "that a false alarm lasts, on average, by simulation"
    )
    level: int = _limit(4, "sessions", "that a level of a history lasts at least")
    step: float = _limit(0.02, "of the value", "a smaller change of level is of no interest")
    rank_chance: float = _limit(
        1e-4, "", "p-value of Mann and Whitney's test that a change of level must have, too"
    )
    night_chance: float = _limit(
        0.95, "", "that a change of level began in the nights that are named"
    )
    cause_chance: float = _limit(
        0.97, "", "that it began in this night: what changed then is named as what differs"
    )
    cause_nights: int = _limit(
        7, "sessions", "before and after, in which what is named must have been the same"
    )
    kernel_metrics: int = _limit(8, "metrics", "with fewer, no factor of a kernel is estimated")
    table: int = _limit(30, "metrics", "with fewer, noise is not pooled over metrics")
    # ---- references ----
    reference_sessions: int = _limit(10, "sessions", "that a proposed reference is made from")
    reference_chance: float = _limit(
        3e-5, "", "that a healthy launch is beyond one proposed limit by its own noise"
    )
    reference_tail: float = _limit(
        1e-3, "of values", "of the table, beyond the others of their metric, may be beyond a limit"
    )
    lasting_chance: float = _limit(
        1e-6, "", "replaces both where noise lasts a night, as the retest then has the same noise"
    )
    factor_chance: float = _limit(
        2.5e-4,
        "",
        "that the common factor of a night is beyond its limits: 0.1% of nights, "
        "for all metrics and kernels, both sides; ten times as often if nights are correlated",
    )
    beside_factor: float = _limit(
        0.02, "", "that a launch's own noise is beyond its limits in addition to such a factor"
    )
    persistence: float = _limit(
        0.2, "correlation", "of noise from night to night: above it, noise lasts a night"
    )
    two_states: float = _limit(0.05, "of metrics", "with two states: above it, states may last")
    reference_widest: float = _limit(
        1.0, "of the value", "a wider reference would not detect anything"
    )
    measured_part: float = _limit(
        0.5, "of jobs", "a session that measured fewer makes no reference"
    )
    published: float = _limit(
        0.25, "of the value", "a simulated ratio further from the published one disagrees"
    )
    drift_sessions: int = _limit(5, "sessions", "that show where a metric is now")
    stale: int = _limit(180, "days", "after which a reference should be reviewed")


LIMITS = Thresholds()


def listed(limits: Thresholds = LIMITS) -> list[tuple[str, float, str, str]]:
    """All thresholds: [(name, value, unit, why)]."""
    return [
        (part.name.replace("_", " "), getattr(limits, part.name), *part.metadata.values())
        for part in fields(limits)
    ]
