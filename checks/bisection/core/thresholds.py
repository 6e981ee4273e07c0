"""All thresholds of verdicts, each with its unit and reason.

The report prints this table whole, under "How it was judged".
"""

import ast
import re
from dataclasses import field, fields, make_dataclass
from typing import Any

MAD = 1.4826  # standard deviations per median absolute deviation, of the normal distribution
# A row each: name | value | unit | reason.
TABLE = """
# one launch
preempted_sample | 0.05 | of a sample | preempted if a thread waits longer (src/common/measure.c)
preempted_launch | 0.3 | of samples | a launch preempted more often is not judged by its times
preempted_note | 0.2 | of samples | a launch preempted more often is noted with the verdict
late | 5.0 | times its estimate | a launch that takes longer is named, with both
stopped | 5.0 | times their medians | samples of a launch that take longer: its times are not judged
stopped_ran | 0.5 | of the time | if its processes ran for less
late_least | 30.0 | s | a launch that is late by less is not named
layout_gain | 0.02 | of time | a hybrid layout faster by more is mentioned
slow_clock | 0.9 | of the launch's median | a host whose clock, work or memory is below is named
slow_writer | 4.0 | of the other ranks' mean | a rank that takes longer to write is named
slow_gross | 1.5 | | a node slower by this is named, even if others are slow too
slow_launches | 2 | launches | in which a host is slow, the retest's among them, make it a slow node
lost_most | 0.1 | of the time | of cores to other processes: the node is named
lost_usual | 0.02 | of the time | if the median node did not lose more
# the adapters of a launch
payload | 4.0 | MiB per node | between nodes: less is not told from other traffic of an adapter
idle_rail | 0.2 | of an equal share | a claimed adapter that sent less did not take part
adapter_errors | 10.0 | times the other nodes' median | an adapter with more errors is named
retransmitted | 1e-3 | of TCP's segments | a node that repeats more is named
adapter_share | 0.5 | of the rate of its adapters | a pair of nodes that gets less: look at it
# a site
build_space | 24.0 | MB | free: a build of the kernels takes as much
fact_noise | 0.25 | of the value | noise of latency and bandwidth in a short trial job
node_memory | 1.0 | GiB | per node of a launch, beside the buffers of the all-to-all sweep
patterns_memory | 64 | MiB | per rank for buffers of the kernel patterns: no larger blocks
node_memory_change | 0.02 | of the memory | nodes of one kind differ by less; a lost module is more
rank_exit | 10.0 | s | from a rank's exit to the end of its launch
carried | 0.5 | of the bytes | that the fast device must have sent
link_factor | 2.0 | | a link slower by more than in NAME.json is wrong; bisection run judges finely
# two groups of sessions
confidence | 0.98 | | of the interval on the ratio
margin | 0.05 | of the value | a smaller change is of no interest
noise_margin | 1.0 | standard deviations | nor is a change smaller than the spread between sessions
shared_margin | 0.025 | of the value | a smaller change that metrics share is of no interest
shared_chance | 0.003 | | that a table without a change shows one that metrics share
false_discoveries | 0.02 | of verdicts | false ones in one table (Benjamini and Hochberg 1995)
fewest | 5 | nights or jobs per side | with fewer nothing is judged
night | 12 | hours | sessions that began within them count as one night
day | 24 | hours | sessions of one such time are compared without how nights differ
unknown_nights | 0.5 | of the value | few nights may differ by this without a change
seen | 0.95 | | of changes of some size that a comparison must find to see it
gone | 3 | sessions | a test absent from so many newest sessions is missing
preempted_tail | 0.01 | of samples | if preempted more often, p99 is of other processes
drift | 0.025 | of the value | half the margin: if a control moved by more, it explains the times
baseline_part | 0.5 | of the ratio's change | the time must change by this, else the baseline did
# one session beside the earlier ones
slower_chance | 0.01 | | that a night without a change has outliers, slower than all earlier ones;
    also the false part of the metrics that are named (Benjamini and Hochberg 1995)
changed_chance | 0.05 | | the same, where a fact of the machine or its software changed since
together | 3 | times | of a launch, a kernel or a partition, at least, are tested as one, too
slower_margin | 0.1 | of the value | a single night slower by less raises no alarm
# a busy machine
busy_cores | 0.1 | cores | in use by others before the run: launches will be preempted
busy_launches | 3 | launches | preempted in a row: the run prints a warning
# a queue
controller_silent | 60.0 | s | that a run waits for Slurm's controller to answer
nodes_taken | 30.0 | s | that a job waits for nodes that the run chose, before Slurm chooses others
# communication
network_bound | 0.3 | of time | communicating: a check bound by the network
mixed | 0.05 | of time | communicating: below it, a check is bound by the cores
no_network | 0.005 | of time | communicating: less cannot be explained by a network
explained_least | 0.25 | of a slow-down | below it, the network is not named as the cause
explained_low | 0.7 | of the prediction | below it, a pattern takes fewer messages
explained_high | 1.5 | of the prediction | above it: contention, or another algorithm
# nodes
idle_nodes | 0.5 | of a partition | idle: a run asks for nodes by name; below, Slurm chooses
sweep_sets | 100 | sets of nodes | of one run with --sweep-nodes; of more, the least used nodes
node_sessions | 20 | sessions | of one kind, by which a run blames nodes
node_chance | 0.02 | | that reshuffled launches show a slow node so clearly (Westfall, Young 1993)
node_votes | 3 | sessions or sets | with a node and without it, at least, for naming it
node_exceptions | 0.05 | of nights on one set of nodes | at most, slow without it or fast with it
node_vote | 0.2 | of the time | a launch that is slower by more counts as slower by this
node_odds | 100.0 | | against other nodes, for naming one alone
# other traffic
impact | 1.2 | of the quiet mean | under other traffic: above it, look
impact_p99 | 1.5 | of the quiet p99 | under other traffic: above it, look
impact_look | 2.0 | of the quiet value | under other traffic: above it, no-go
impact_quiet | 0.1 | of the quiet mean | difference of two quiet windows: above it, no verdict
impact_load | 0.5 | of its bytes alone | an aggressor that moved less during a victim does not count
impact_cycles | 5 | cycles | with fewer sets of nodes, no verdict
# pairs of nodes
pair_chance | 0.001 | | that noise looks like a bad component, over all of a kind (Bonferroni)
pair_effect | 0.05 | of the value | an effect must exceed; that of a path, twice
pair_share | 0.75 | of its pairs | must be slow: few slow pairs make no slow node
pair_retests | 3 | pairs | in the rerun confirm a node, a switch or a route
pair_noise | 0.25 | of the value | between pairs: above it, only effects far outside count
pair_noisy | 4.0 | times that noise, of the logarithm | that an effect must exceed then
pair_resolution | 0.01 | of the value | no pair is measured more precisely
pair_nodes | 6 | nodes | with fewer, a slow node looks like noise
pair_far | 1.2 | of the latency | between switches that latency tells apart; exact, by simulation
pair_switch | 16 | nodes | of each such switch, by simulation
pair_nights | 3 | nights | earlier ones, at least, that a component is worse than
# histories
false_alarms | 1.0 | a year | of a nightly history without a change: of all its metrics together
alarm_nights | 4.4 | nights | that a false alarm lasts, on average, by simulation
level | 4 | sessions | that a level of a history lasts at least
step | 0.02 | of the value | a smaller change of level is of no interest
rank_chance | 1e-4 | | p-value of Mann and Whitney's test that a change of level must have, too
unusual | 2.0 | standard errors | a metric whose newest nights are worse by more is launched again
night_chance | 0.95 | | that a change of level began in the nights that are named
cause_chance | 0.97 | | that it began in this night: what changed then is named as what differs
cause_nights | 7 | sessions | before and after, in which what is named must have been the same
kernel_metrics | 8 | metrics | with fewer, no factor of a kernel is estimated
table | 30 | metrics | with fewer, noise is not pooled over metrics
# references
reference_sessions | 10 | sessions | that a proposed reference is made from
reference_chance | 3e-5 | | that a healthy launch is beyond one proposed limit by its own noise
reference_tail | 1e-3 | of values | of the table, beyond others of their metric, may exceed a limit
lasting_chance | 1e-6 | | replaces both where noise lasts a night: a retest has the same noise
factor_chance | 2.5e-4 | | that the common factor of a night is beyond its limits: 0.1% of nights,
    for all metrics and kernels, both sides; ten times as often if nights are correlated
beside_factor | 0.02 | | that a launch's own noise is beyond its limits in addition to such a factor
persistence | 0.2 | correlation | of noise from night to night: above it, noise lasts a night
two_states | 0.05 | of metrics | with two states: above it, states may last
reference_widest | 1.0 | of the value | a wider reference would not detect anything
measured_part | 0.5 | of jobs | a session that measured fewer makes no reference
published | 0.25 | of the value | a simulated ratio further from the published one disagrees
drift_sessions | 5 | sessions | that show where a metric is now
stale | 180 | days | after which a reference should be reviewed
"""


def _column(row: str) -> tuple[str, type, Any]:
    """The name, type and field of a row."""
    name, value, unit, why = (" ".join(part.split()) for part in row.split("|"))
    number = ast.literal_eval(value)
    return name, type(number), field(default=number, metadata={"unit": unit, "why": why})


ROWS = re.findall(r"^\w.*(?:\n .*)*", TABLE, re.M)
# A field per threshold; its metadata has `unit` and `why`.
Thresholds = make_dataclass(
    "Thresholds", map(_column, ROWS), frozen=True, namespace={"__module__": __name__}
)
LIMITS = Thresholds()


def listed(limits: Thresholds = LIMITS) -> list[tuple[str, float, str, str]]:
    """All thresholds: [(name, value, unit, why)]."""
    return [
        (part.name.replace("_", " "), getattr(limits, part.name), *part.metadata.values())
        for part in fields(limits)
    ]
