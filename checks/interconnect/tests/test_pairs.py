"""The matrix of the kernel `pairs`, read from its files."""

import json
from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
from made_up_network import World, write
from results_made import result_of

from bisection.core.format import finite
from bisection.core.topology import parse
from bisection.core.verdicts import Exit, Verdict
from bisection.judge import decision, network, rule
from bisection.judge.evidence import Evidence
from bisection.kernels.results import ResultError
from bisection.runs.run_verdict import RunVerdict
from interconnect import rulings
from interconnect.blame import judge
from interconnect.effects import observations
from interconnect.measured import blames
from interconnect.pairs import KINDS, RECORD, RETEST, TOURNAMENT, levels, read
from interconnect.reasons import SlowComponent


@pytest.fixture
def matrix():
    return World(32, 16, 1).matrix(4)


def refused(path):
    with pytest.raises(ResultError) as error:
        read(path)
    return error.value.args[0]


def test_what_was_written_is_read(matrix, tmp_path):
    copy = read(write(matrix, tmp_path, switch_names=["leaf1", "leaf2"]))
    assert copy.nodes == matrix.nodes
    assert (copy.records == matrix.records).all()
    assert copy.switch_names(0)["cn0016"] == "leaf2"
    assert (copy.mode, copy.rounds, copy.bytes) == ("thin", 4, 1 << 22)
    copy = read(write(matrix, tmp_path, switches=None))
    assert (copy.switches, copy.switch_names(0)) == (None, {})
    assert (read(write(matrix, tmp_path), 10).records == matrix.records[:10]).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stage", [TOURNAMENT, RETEST])
def test_of_repeated_pairs_the_median_and_the_second_best_of_five_count(kind, stage):
    """Also where one of both ways is not known."""
    matrix = World.with_faults(("node", 3, 0.5), nodes=16, leaf=4).matrix(0)
    matrix.records[kind.fields[0]][::7] = np.nan
    repeats = defaultdict(list)
    for record in matrix.records[matrix.records["stage"] == stage]:
        for name, *ends in zip(kind.fields, "ab", "ba", strict=False):
            pair = tuple(int(record[end]) for end in ends)
            pair = pair if len(kind.fields) > 1 else tuple(sorted(pair))
            if np.isfinite(record[name]):
                repeats[pair].append(kind.sign * np.log(float(record[name])))
    values = observations(matrix, kind, stage)
    assert dict(zip(zip(values.s, values.r, strict=True), values.y, strict=True)) == pytest.approx(
        {pair: np.median(y) for pair, y in repeats.items()}
    )
    fastest = [sorted(y)[int(0.75 * (len(y) - 1))] for _, y in sorted(repeats.items())]
    assert values.best == pytest.approx(fastest if stage == RETEST else values.y)


def test_a_record_is_28_bytes_little_endian():
    """The contract with src/network/pairs.h: bx_pairs_record."""
    assert RECORD.itemsize == 28
    record = np.frombuffer(bytes(range(28)), RECORD)[0]
    assert (record["stage"], record["round"]) == (0x0100, 0x0302)
    assert (record["a"], record["b"]) == (0x07060504, 0x0B0A0908)


def test_switches_of_a_topology_take_the_place_of_numbers(matrix):
    text = (
        "SwitchName=a Nodes=cn00[00-15]\nSwitchName=b Nodes=cn00[16-31]\nSwitchName=c Switches=a,b"
    )
    placed = matrix.placed(parse(text))
    assert placed.switch_names(0)["cn0020"] == "b"
    assert placed.switch_names(1)["cn0020"] == "c"


TREE = """
SwitchName=leaf1 Nodes=cn[01-03]
SwitchName=leaf2 Nodes=cn[04,06]
SwitchName=spine Switches=leaf[1-2]
"""


def test_levels_of_hosts_with_their_domain():
    names = [["leaf1", "leaf2"], ["spine", "spine"]]
    assert levels(parse(TREE), ["cn01.example.org", "cn06"]) == (names, [])
    assert levels(parse(TREE), ["cn01", "login"]) == ([], ["login"])
    # trees of unequal depth repeat their root
    text = "SwitchName=a Nodes=n1\nSwitchName=b Nodes=n2\nSwitchName=c Switches=b"
    assert levels(parse(text), ["n1", "n2"])[0] == [["a", "b"], ["a", "c"]]


@pytest.mark.parametrize("left", [0, 27, 100, 280])
def test_a_truncated_sidecar_is_refused(matrix, tmp_path, left):
    path = write(matrix, tmp_path)
    sidecar, count = path.with_suffix(".pairs"), len(matrix.records)
    sidecar.write_bytes(sidecar.read_bytes()[:left])
    assert refused(path) == f"{sidecar} is truncated: {left} B are not {count} records of 28 B"


@pytest.mark.parametrize(
    ("name", "value"),
    [("a", 32), ("b", -1), ("stage", 7), ("latency", 0), ("out", -1.0), ("both", np.inf)],
)
def test_a_damaged_record_is_named(matrix, tmp_path, name, value):
    matrix.records[name][5] = value
    words = refused(write(matrix, tmp_path))
    assert "is damaged: record 5 of " in words


def test_more_nodes_than_pairs_have_numbers_are_refused(matrix, tmp_path):
    """In 32 bits, the last pair of 65,537 nodes has the number of another."""
    nodes = [f"n{number}" for number in range(65536)]
    most = replace(matrix, nodes=nodes, switches=None)
    most.records[["a", "b"]] = (65534, 65535)
    copy = read(write(most, tmp_path))
    values = observations(copy, KINDS[0], TOURNAMENT)
    assert (values.s.tolist(), values.r.tolist()) == ([65534], [65535])
    more = replace(most, nodes=[*most.nodes, "n65536"])
    assert "has 65537 nodes; at most 65536 can" in refused(write(more, tmp_path))


def test_other_results_are_refused(matrix, tmp_path):
    path = write(matrix, tmp_path)
    other = json.loads(path.read_text())
    path.write_text(json.dumps({**other, "details": {}}))
    assert "details.pairs is missing or wrong" in refused(path)
    path.write_text(json.dumps({**other, "kernel": "md"}))
    assert "is of kernel 'md', not 'pairs'" in refused(path)
    path.write_text(json.dumps(other))
    path.with_suffix(".pairs").unlink()
    assert refused(path).startswith("cannot read ")


# ---- of runs ----


def run_of(matrix, folder, verdict=Verdict.PASS, **head):
    folder.mkdir()
    write(matrix, folder, "pairs", **head)
    place = ("cluster", "cpu", "system", "pairs", "nodes", "mpi", "")
    of_launch = {"kernel": "pairs", "fixture": True, "files": f"{folder}/pairs.*"}
    launch = result_of(*place, **of_launch, verdict=verdict)
    test = result_of(*place[:-1], "thin", verdict=Verdict.PASS)
    return RunVerdict(cases=[launch, test])


def judged(run):
    return rule(run, network.measured(Evidence(), None, run))


def slow(night, factor):
    return World.with_faults(("node", 5, factor), nodes=32, seed=[night, 3]).matrix(16)


def test_a_bad_component_fails_its_run(matrix, tmp_path):
    clean, bad = run_of(matrix, tmp_path / "clean"), run_of(slow(0, 0.7), tmp_path / "bad")
    clean, bad = map(judged, (clean, bad))
    assert (decision.of_run(clean), clean.failures, clean.troubles) == (Exit.OK, (), ())
    (failure,) = bad.failures
    assert (decision.of_run(bad), type(failure)) == (Exit.FAILED, SlowComponent)
    assert (failure.part, failure.names) == ("node", ("cn0005",))
    assert all(finite(symptom.factor) for symptom in failure.symptoms)


@pytest.mark.parametrize(
    ("rate", "says"), [(4e10, []), (6e10, ["41% of its adapters' rate of 60 GB/s"])]
)
def test_a_bandwidth_far_below_the_rate_of_its_adapters_is_looked_at(matrix, rate, says):
    """Pairs have 24 GB/s one way, and 44 GB/s both ways."""
    findings = rulings._of_pairs([judge(replace(matrix, rate=rate))])
    assert [str(finding.reason).rpartition(", ")[2] for finding in findings] == says


def test_a_damaged_matrix_leaves_its_run_unmeasured(matrix, tmp_path):
    run = judged(run_of(matrix, tmp_path / "run", records=1))
    (trouble,) = map(str, run.troubles)
    assert decision.of_run(run) == Exit.NOT_MEASURED
    assert "is truncated" in trouble
    failed = run_of(matrix, tmp_path / "failed", Verdict.FAIL, records=1)
    assert blames(failed) == ((), ())


def test_nights_before_are_the_past(tmp_path):
    factors = [1, 1, 1, 1, 1, 0.88, 0.88]
    runs = [run_of(slow(n, factor), tmp_path / f"{n}") for n, factor in enumerate(factors)]
    (last,) = blames(runs[-1], runs[:-1])[0]
    assert last.place == "cluster:cpu system"
    parts = last.bad + last.worse
    assert [part.names for part in parts] == [("cn0005",)]
    assert parts[0].drift == (not last.bad)
    assert blames(runs[4], runs[:4])[0][0].worse == []
