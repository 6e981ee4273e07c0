"""A kernel's result file, read without trusting it."""

import json

import pytest
from fake_kernel import layout_of

from bisection.core.paths import ROOT
from bisection.core.reasons.launches import Starved, Stopped
from bisection.core.thresholds import LIMITS
from bisection.core.units import CONTEXT
from bisection.kernels import results

BUILD = ("sources", "compiler", "flags", "mpi", "version", "commit", "build_type")
OURS = {"schema": "bisection-result", "version": 5}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{", "cannot read {path}: "),
        ("[]", "{path} is not a bisection-result file"),
        ({**OURS, "version": 3}, "{path} has version 3, and only 5 can be read: rerun"),
        ({**OURS, "version": 6}, "{path} has version 6, and only 5 can be read: rerun"),
        ({**OURS, "kernel": "npar"}, "{path} is of kernel 'npar'"),
    ],
)
def test_a_file_that_is_no_result_is_refused(tmp_path, content, says):
    path = tmp_path / "result.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(results.ResultError) as error:
        results.load(path, "transpose", "cnt40")
    assert str(error.value).startswith(says.format(path=path))


@pytest.mark.parametrize(
    ("harness", "late"),
    [
        ({"launch_s": 576.0, "claimed_s": 3.9}, True),
        ({"launch_s": 33.0, "claimed_s": 3.9}, False),  # by less than half a minute
        ({"launch_s": 400.0, "claimed_s": 100.0}, False),
        ({"launch_s": 576.0}, False),
        ({}, False),
    ],
)
def test_a_launch_of_many_times_its_estimate_is_late(harness, late):
    assert (results.late({"harness": harness}) is not None) is late


@pytest.mark.parametrize(
    ("samples", "ran", "factor"),
    [
        ([[1e-4] * 100 + [0.088] * 7], 0.12, 1e-4 * 100 + 0.088 * 7),  # in 107 times the median
        ([[1e-4] * 100 + [0.2] * 3], 0.98, None),  # TCP sends segments again
        ([[1e-4] * 100, [2.0] * 6], 0.12, None),  # methods differ
        ([[1e-4] * 90 + [1.5e-4] * 16], 0.12, None),
        ([[]], 0.12, None),
    ],
)
def test_processes_that_were_stopped_show_in_few_samples(samples, ran, factor):
    entries = [{"samples": {"seconds": seconds} if seconds else {}} for seconds in samples]
    harness = {"launch_s": 50.0, "processor_s": 50 * ran}
    reason = results.stopped({"results": entries, "harness": harness})
    assert (reason and reason.factor) == (factor and pytest.approx(factor / (107 * 1e-4)))


@pytest.mark.parametrize(
    ("waited", "code", "part"), [(0.0, Stopped, 0.0), (0.08, Starved, 0.56 / 0.626)]
)
def test_processes_that_waited_for_a_core_were_not_stopped(waited, code, part):
    """A quota of processor time, or other processes, had it."""
    columns = {"seconds": [1e-4] * 100 + [0.088] * 7, "waited": [0.0] * 100 + [waited] * 7}
    result = {"results": [{"samples": columns}], "harness": {"launch_s": 50.0, "processor_s": 6.0}}
    reason = results.stopped(result)
    assert (type(reason), reason.waited) == (code, pytest.approx(part))


def test_kernels_mark_samples_by_the_limit_that_reports_print():
    source = (ROOT / "src" / "common" / "measure.c").read_text()
    assert f"WAITED_MOST = {LIMITS.disturbed_sample};" in source


def test_kernels_call_a_skew_small_by_the_limit_that_reports_print():
    source = (ROOT / "src" / "common" / "start.c").read_text()
    assert f"bx_start_most_skew = {LIMITS.skew};" in source


def begun(method, share, size=None, **more):
    start = {"by": "window", "skew": share and share * 1e-3, "share": share}
    point = {"bytes": size} if size else None
    samples = {"seconds": [1e-3]}
    entry = {"method": method, "point": point, "baseline": False, "metrics": {}, "start": start}
    return {**entry, "samples": samples, **more}


def test_a_skew_that_is_not_small_is_said_of_its_point():
    entries = [begun("a", 0.02), begun("b", 0.3, 8), begun("b", 0.2, 64), begun("b", 0.01, 4096)]
    entries += [begun("c", None), {**begun("d", 0.0), "start": None}]
    assert results.skews({"results": entries}) == {"b_8B": 0.3, "b_64B": 0.2}
    metrics = results.metrics(entries[1:4])
    assert metrics["skew_share_8B"] == {"value": 0.3, "unit": "fraction", "better": "lower"}
    assert "skew_share" not in results.metrics(entries[4:5])


def own_time(mean, most, rank):
    return {"outside_mpi": {"min": 0.0, "mean": mean, "max": most, "min_rank": 0, "max_rank": rank}}


def test_who_was_last_is_named_with_its_host():
    ranks = [begun("a", 0.0, ranks=own_time(1.0, 1.1, 1)), begun("b", 0.0), begun("c", 0.0, 8)]
    ranks[1]["ranks"], ranks[2]["ranks"] = own_time(1.0, 1.4, 2), own_time(0.5, 2.0, 0)
    ranks += [begun("c", 0.0, 64, ranks=own_time(1.0, 1.5, 1))]
    ranks += [begun("serial", 0.0, ranks=own_time(1.0, 3.0, 0), baseline=True)]
    ranks += [begun("none", 0.0, ranks=own_time(0.0, 0.0, 0))]
    layout = layout_of([{"host": host} for host in ("n1", "n1", "n2")])
    assert results.last_ranks({"results": ranks, "layout": layout}) == {
        "b": "rank 2 on n2 has 1.4 times the mean outside MPI",
        "c_8B": "rank 0 on n1 has 4.0 times the mean outside MPI",
        "c_64B": "rank 1 on n1 has 1.5 times the mean outside MPI",
    }
    assert results.last_ranks({"results": ranks[:1], "layout": layout}) == {}


def test_the_time_of_all_samples_is_shown_and_not_judged():
    both = {name: {"value": 1.0, "unit": "s", "better": "lower"} for name in ("time", "time_all")}
    metrics = results.metrics([begun("a", 0.0, metrics=both)])
    judged = {name for name, metric in metrics.items() if metric["unit"] not in CONTEXT}
    assert judged == {"time"}
    assert metrics["time_all"]["value"] == 1.0
    assert results.unusable(metrics["time_all"]) is None


def test_facts_that_differ_between_hosts_are_listed_with_hosts():
    like = {"kernel": "6.1", "firmware": "", "cpu": "EPYC 7763"}
    hosts = [{**like, "names": ["n1"]}, {**like, "cpu": "EPYC 7742", "names": ["n4"]},
             {**like, "firmware": "BIOS 2", "names": ["n2", "n3"]}]  # fmt: skip
    build = {**dict.fromkeys(BUILD, "x"), "libraries": {}}
    facts = results.facts({"build": build, "hosts": hosts})
    assert facts["CPU"] == "EPYC 7763 | EPYC 7742 (n4)"
    assert facts["operating system's kernel"] == "6.1"
    assert facts["firmware"] == "? | BIOS 2 (n2, n3)"


def test_facts_of_devices():
    """Where they are is told without their UUIDs, which are those of one host's devices."""
    like = {"name": "Fake", "library": "libcudart.so.12", "runtime": 12040, "driver": 12060}
    ranks = [{"rank": 0, "id": "0000:01:00.0/aa", "numa": 0, "adapter": "mlx5_0"},
             {"rank": 1, "id": "0000:41:00.0/bb", "numa": 1, "adapter": None},
             {"rank": 2, "id": "0000:01:00.0/cc", "numa": 0, "adapter": "mlx5_0"}]  # fmt: skip
    build = {**dict.fromkeys(BUILD, "x"), "libraries": {}}
    host = {"kernel": "6.1", "firmware": "", "cpu": "EPYC", "names": ["n1"]}
    device = {**like, "clock": 1.98e9, "ffts": None, "aware": "says so", "ranks": ranks}
    facts = results.facts({"build": build, "hosts": [host], "layout": {"devices": [device]}})
    assert facts["devices"] == "Fake 1.98 GHz, libcudart.so.12 12040, driver 12060"
    device |= {"ffts": "libcufft.so.11 11401"}
    assert results._devices([device])["devices"] == f"{facts['devices']}, libcufft.so.11 11401"
    assert facts["devices' places"] == "0000:01:00.0 NUMA 0 near mlx5_0, 0000:41:00.0 NUMA 1"
    assert facts["MPI takes device addresses"] == "says so"


# Three steps of 4 ms, and one of 20 in which a rank waited for a core.
STEPS = [0.004, 0.004, 0.004, 0.020]


@pytest.mark.parametrize(
    ("seconds", "disturbed", "known", "items"),
    [
        ([0.010, 0.012, 0.010], [], True, 4),
        (STEPS, [0, 0, 0, 0], True, 4),
        (STEPS, [1, 0, 0, 0], True, 4),
        (STEPS, [0, 0, 0, 1], False, None),
    ],
)
def test_what_a_code_sends_is_kept_with_its_time(seconds, disturbed, known, items):
    """Of the rank that sends most, by class of calls, per message and per work item. The seconds
    inside MPI are a mean of all steps, and what was disturbed is no communication."""
    nothing = {"calls": {"max": 0}, "messages": {"max": 0}, "bytes": {"max": 0}}
    sent = {"calls": {"max": 8.0}, "messages": {"max": 24.0}, "bytes": {"max": 96000.0}}
    of_item = {"value": min(seconds) / (items or 1), "unit": "s", "better": "lower"}
    entry = {
        "point": None,
        "metrics": {"time_min": of_item} if items else {},
        "samples": {"seconds": seconds, "disturbed": disturbed},
        "communication": {
            "p2p": {**nothing, "seconds": {"mean": 0.001}},
            "collective": {**sent, "seconds": {"mean": 0.004}},
            "barrier": {**nothing, "seconds": {"mean": 0.0}},
        },
    }
    metrics = results.metrics([entry])
    metrics.pop("time_min", None)
    step = sum(seconds) / len(seconds)
    shares = {"mpi_share": 0.005 / step, "collective_share": 0.004 / step} if known else {}
    counts = {"collective_calls": 8.0 / (items or 1), "collective_peers": 3.0}
    expected = {**shares, **counts, "collective_size": 4000.0}
    assert {name: metric["value"] for name, metric in metrics.items()} == pytest.approx(expected)
    assert {metric["unit"] for metric in metrics.values()} <= set(CONTEXT)


@pytest.mark.parametrize(
    ("most", "promised"),
    [(3, "promised 3"), (None, "promised at least 3"), (8.0, "promised 3 to 8.0")],
)
def test_a_count_says_what_was_shown_and_promised(most, promised):
    check = {"name": "files", "unit": "counted", "error": 1, "tolerance": 0, "passed": False}
    count = {"shown": 2, "least": 3, "most": most}
    entry = {"verification": {"passed": False, "checks": [check | count]}}
    [reason] = results.failed_checks(entry)
    assert reason == f"not what its name says: files: 2, {promised}"
    entry["verification"]["checks"] = [check]
    [reason] = results.failed_checks(entry)
    assert reason == "files: error 1 counted, tolerance 0"
