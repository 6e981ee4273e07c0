"""Which nodes are blamed: simulated by schemes of allocation and noises, seeded, and printed."""

import numpy as np
import pytest
from fake_kernel import layout_of
from nights import NOISES
from results_made import changed, result_of

from bisection.analysis.nodes import Vote, slow_nodes
from bisection.core.thresholds import LIMITS
from bisection.core.verdicts import Verdict
from bisection.judge import rule
from bisection.judge.hosts import slow_hosts
from bisection.runs.run_verdict import RunVerdict

NAMES = [f"n{number:02}" for number in range(64)]
SLOWER = np.log(1.15)


def named(votes):
    return [([*suspect.nodes], suspect.always) for suspect in slow_nodes(votes)]


def sets_of(scheme, rng, session, order):
    """The sets of nodes of a session's ten launches."""
    if scheme == "each launch by itself":
        return [rng.choice(NAMES, 16, replace=False) for _ in range(10)]
    if scheme == "one a session, by chance":
        return [rng.choice(NAMES, 16, replace=False)]
    if scheme == "one a session, the least used":
        if session % 4 == 0:
            rng.shuffle(order)
        return [order[session % 4 :: 4]]
    if scheme == "one a session, blocks of 16":
        return [NAMES[16 * (session % 4) :][:16]]
    if scheme == "8 or 16 nodes, by chance":
        return [rng.choice(NAMES, 8 * (1 + session % 2), replace=False) for _ in range(10)]
    if scheme == "each node alone, of 32":
        return [[node] for node in NAMES[:32]]
    return [NAMES[:32]]  # always together


def votes_of(scheme, rng, levels, slow=None, sigma=0.03, disturbed=0.0):
    """Sessions with these levels; launches have noise of their own, and those with `slow` are
    slower. A fraction of them is `disturbed`, and takes twice as long."""
    votes, order = [], list(NAMES)
    for session, level in enumerate(levels):
        sets = sets_of(scheme, rng, session, order)
        launches = 1 if len(sets) > 1 else 10
        for nodes in sets:
            noise = rng.normal(0, sigma, launches) + np.log(2) * (rng.random(launches) < disturbed)
            cost = level + float(np.median(noise)) + SLOWER * (slow in nodes)
            votes.append(Vote(session, 0, tuple(sorted(map(str, nodes))), cost, launches))
    return votes


def together(votes, node):
    """The nodes that were in the same launches as this one."""
    others = sorted({other for vote in votes for other in vote.nodes})
    sets = [vote.nodes for vote in votes]
    return [other for other in others if all((node in s) == (other in s) for s in sets)]


@pytest.fixture
def sets(full):
    """How many made-up histories: a table's with --full."""
    return 100 if full else 4


@pytest.mark.parametrize(
    ("scheme", "noise", "sessions"),
    [
        ("each launch by itself", "none", 20),
        ("each launch by itself", "common factor 7%, own 3%", 20),
        ("each launch by itself", "none", 8),
        ("8 or 16 nodes, by chance", "independent 3%", 20),
        ("one a session, the least used", "none", 20),
        ("one a session, the least used", "independent 3%", 20),
        ("one a session, by chance", "none", 20),
        ("one a session, by chance", "independent 3%", 20),
        ("one a session, blocks of 16", "none", 20),
        ("one a session, blocks of 16", "independent 3%", 20),
        ("each node alone, of 32", "independent 3%", 20),
        ("one a session, the least used", "independent 8%", 20),
        ("one a session, by chance", "none", 5),
        ("always the same 32", "none", 20),
    ],
)
def test_a_slow_node_is_named_alone_or_with_those_never_apart(scheme, noise, sessions, sets, told):
    counts = dict.fromkeys(("possible", "named", "alone", "group", "innocent"), 0)
    for number in range(sets):
        rng = np.random.default_rng([20261122, number])
        levels = NOISES[noise](rng, (1, sessions))[0] if noise in NOISES else np.zeros(sessions)
        slow = str(rng.choice(NAMES[:32]))
        votes = votes_of(scheme, rng, levels, slow)
        suspects = [nodes for nodes, _ in named(votes)]
        counts["possible"] += 3 <= sum(slow in vote.nodes for vote in votes) <= len(votes) - 3
        counts["named"] += any(slow in nodes for nodes in suspects)
        counts["alone"] += [slow] in suspects
        counts["group"] += together(votes, slow) in suspects
        counts["innocent"] += any(slow not in nodes for nodes in suspects)
    share = {name: f"{count / sets:.0%}" for name, count in counts.items()}
    told.append(
        f"| {scheme} | {noise} | {sessions} | {share['possible']} | {share['named']} | "
        f"{share['alone']} | {share['group']} | {share['innocent']} |"
    )
    assert counts["innocent"] <= sets / 100
    hopeless = noise == "independent 8%" or sessions == 5 or scheme == "always the same 32"
    if not hopeless:
        assert counts["named"] >= 0.95 * counts["possible"] - 1
        assert counts["group"] >= 0.9 * counts["possible"] - 1


SCHEMES = ["each launch by itself", "8 or 16 nodes, by chance", "one a session, the least used",
           "one a session, by chance", "one a session, blocks of 16"]  # fmt: skip


@pytest.mark.parametrize(
    ("noise", "disturbed"),
    [*((noise, 0) for noise in NOISES), ("10% of launches disturbed, twice as slow", 0.1)],
)
def test_clean_nights_name_no_node(noise, disturbed, sets, told):
    """Nor do launches that others disturb, on whatever nodes."""
    wrong = []
    for scheme in SCHEMES:
        wrong.append(0)
        for number in range(sets):
            rng = np.random.default_rng([22112026, number])
            levels = NOISES[noise](rng, (1, 20))[0] if noise in NOISES else np.zeros(20)
            wrong[-1] += bool(named(votes_of(scheme, rng, levels, disturbed=disturbed)))
    told.append(f"| {noise} | {' | '.join(f'{count} of {sets}' for count in wrong)} |")
    assert max(wrong) <= (sets // 50 if disturbed else 0)


def launch(rng, noise, slow=None):
    """A launch of the kernel noise on 32 nodes, each alone; `slow` takes 15% longer for a core's
    work, and for copies."""
    costs = NOISES[noise](rng, (3, 32), 1)  # quantum, copy_core, copy_node of each node
    costs[:, :1] += 0 if slow is None else SLOWER
    entries = [
        {"host": NAMES[node], "cores": 64, "lost": 0.001, "quantum": 5e-5 * np.exp(work),
         "copy_core": 1e10 * np.exp(-core), "copy_node": 2e11 * np.exp(-all_of_it)}
        for node, (work, core, all_of_it) in enumerate(costs.T)
    ]  # fmt: skip
    result = {"layout": layout_of([]), "results": [], "details": {"noise": entries}}
    place = ("lab", "cpu", "system", "NoiseLaunch", "nodes", "mpi", "")
    test = result_of(*place, fixture=True, kernel="noise", verdict=Verdict.PASS)
    return changed(test, hosts=NAMES[:32], controls={"clock": 3.0}, host_faults=slow_hosts(result))


@pytest.mark.parametrize(
    ("noise", "least"),
    [
        ("independent 1%", 1.0),
        ("independent 3%", 0.9),
        ("independent 8%", 0.0),
        ("Student t3, standard deviation 3%", 0.9),
        ("3%, 5% of values 1.1 to 2 times slower", 0.7),
        ("20% of nights 1.3 times slower, per metric", 0.0),
    ],
)
def test_each_node_alone_names_a_slow_one_in_one_night(noise, least, sets, told):
    """Of nodes that otherwise always run together; with two launches more where one looks slow."""
    named = {0: [], 1: []}
    for slow in named:
        for number in range(sets):
            rng = np.random.default_rng([slow, number])
            cases = [launch(rng, noise, slow or None)]
            night = rule(RunVerdict(cases))
            if night.suspect_nodes:
                cases += [launch(rng, noise, slow or None) for _ in range(LIMITS.retest_turns)]
                night = rule(RunVerdict(cases))
            named[slow].append({reason.host for reason in night.slow_nodes})
    hits = sum(NAMES[0] in hosts for hosts in named[1])
    wrong = [sum(map(bool, named[0])), sum(bool(hosts - {NAMES[0]}) for hosts in named[1])]
    told.append(f"| {noise} | {hits} of {sets} | {wrong[1]} of {sets} | {wrong[0]} of {sets} |")
    assert hits >= least * sets - 1
    assert max(wrong) <= sets // 50


def votes(*sessions):
    """Votes by (nodes, cost), a list a session."""
    return [
        Vote(number, run, tuple(nodes.split()), cost)
        for number, of_session in enumerate(sessions)
        for run, (nodes, cost) in enumerate(of_session)
    ]


def test_nights_in_a_row_on_the_same_nodes_are_one_vote():
    """Ten nights on some nodes, then a slower machine on others: no node is to blame."""
    blocks = [("n1 n2", 0.0), ("n3 n4", 0.0), ("n5 n6", 0.3)]
    assert named(votes(*([block] for block in blocks for _ in range(10)))) == []


def test_launches_of_a_session_on_the_same_nodes_are_one_vote(rng):
    """Its cost is the median: a launch may be slow by itself."""
    sets_ = [" ".join(sorted(rng.choice(NAMES[:8], 3, replace=False))) for _ in range(40)]
    costs = [0.2 * ("n03" in nodes) + rng.normal(0, 0.02) for nodes in sets_]
    first = rng.choice([0.0, 1.0], 40)
    cast = [[(s, c + f), (s, c), (s, c)] for s, c, f in zip(sets_, costs, first, strict=True)]
    assert [nodes for nodes, _ in named(votes(*cast))] == [["n03"]]


def test_two_slow_nodes_are_named_one_after_the_other(rng):
    sets_ = [rng.choice(NAMES[:16], 4, replace=False) for _ in range(80)]
    cost = [rng.normal(0, 0.02) + 0.3 * ("n03" in s) + 0.15 * ("n05" in s) for s in sets_]
    cast = [(" ".join(sorted(s)), c) for s, c in zip(sets_, cost, strict=True)]
    cast = votes(*(cast[k::8] for k in range(8)))
    assert [nodes for nodes, _ in named(cast)] == [["n03"], ["n05"]]


def test_nodes_that_ran_together_but_once_are_named_together(rng):
    """What one vote tells apart, noise may have told apart."""
    sets_ = [["n1 n2 n3", "n4 n5 n6", "n7 n8 n9"][k % 3] for k in range(30)]
    sets_[15] = "n1 n2 n7"  # n3 is absent once, when noise hides what is slow
    cost = [0.2 * ("n1" in s) + rng.normal(0, 0.05) for s in sets_]
    cost[15] = 0.1
    ((nodes, always),) = named(votes(*([(s, c)] for s, c in zip(sets_, cost, strict=True))))
    assert nodes == ["n1", "n2", "n3"]
    assert not always
