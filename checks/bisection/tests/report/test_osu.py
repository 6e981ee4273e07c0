"""The table of OSU's benchmarks: names, units, sizes, and only what was measured."""

from dataclasses import asdict, replace

from bisection.core.verdicts import Verdict
from bisection.kernels.launch_record import LaunchRecord
from bisection.report import osu
from bisection.report.sections import SECTIONS
from bisection.runs.run_verdict import JudgedMetric, RunVerdict, TestResult

UNITS = {"latency": "s", "bandwidth": "B/s", "message_rate": "messages/s", "time": "s"}
MADE = {
    "latency": {"latency_8B": 1.5e-6, "latency_4MiB": 2e-3, "time_8B": 9.0},
    "bw": {"bandwidth_8B": 4e6, "bandwidth_4MiB": 12.5e9},
    "mbw-mr": {"bandwidth_8B": 16e6, "message_rate_8B": 2e6},
    "allreduce": {"latency_8B": 0.25e-6},
}


def case(method, **more):
    metrics = tuple(
        JudgedMetric(name, value, UNITS[name.rpartition("_")[0]], "lower", None, None, Verdict.PASS)
        for name, value in MADE[method].items()
    )
    words = ("made", "nodes", "system", "network_osu", "sweep", "mpi", method)
    record = LaunchRecord("osu", geometry="2x4x1")
    result = replace(TestResult(*words), verdict=Verdict.PASS, metrics=metrics, record=record)
    return replace(result, **more)


def tables_of(*cases):
    return [osu.table(each) for each in osu.measured(RunVerdict(cases=tuple(cases)))]


def test_numbers_stand_under_their_names_in_their_units():
    (table,) = tables_of(*map(case, MADE))
    assert table.title == "made:nodes system: 8 ranks on 2 nodes"
    assert table.head == [
        "size",
        "osu_latency us",
        "osu_bw MB/s",
        "osu_mbw_mr MB/s",
        "osu_mbw_mr messages/s",
        "osu_allreduce us",
    ]
    assert table.rows == [
        ["8 B", "1.50", "4.00", "16.00", "2000000", "0.25"],
        ["4 MiB", "2000", "12500", "", "", ""],
    ]


def test_json_has_the_same_numbers():
    (launch,) = osu.measured(RunVerdict(cases=(case("bw"), case("mbw-mr"))))
    assert asdict(launch.numbers) == {
        "place": "made:nodes system",
        "geometry": "2x4x1",
        "benchmarks": {
            "osu_bw": {"MB/s": {"8": 4.0, str(4 << 20): 12500.0}},
            "osu_mbw_mr": {"MB/s": {"8": 16.0}, "messages/s": {"8": 2e6}},
        },
    }


def test_only_what_was_measured_is_shown():
    """Not a method that was disturbed, nor numbers by other rules."""
    lost = case("latency", verdict=Verdict.NOT_MEASURED)
    pattern = case("latency", check="network")
    assert tables_of(lost, pattern) == []
    (table,) = tables_of(lost, case("bw"))
    assert table.head == ["size", "osu_bw MB/s"]
    assert osu.measured(None) == []


def test_places_have_a_table_each():
    first, second = tables_of(case("bw"), case("bw", partition="others"))
    assert first.title != second.title


def test_each_method_of_the_kernel_has_a_column_and_the_report_a_section():
    from bisection.kernels import tables

    assert [*dict.fromkeys(column.method for column in osu.COLUMNS)] == tables.methods("osu")
    assert tables.sizes("allreduce", "osu")[:2] == [4, 8]
    assert "osu" in SECTIONS
