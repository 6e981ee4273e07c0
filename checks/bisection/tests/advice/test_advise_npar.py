"""`bisection advise npar`, and what was published."""

import copy
import json

import pytest

from bisection.advice import npar, sources
from bisection.cli import main


def result(times, hosts=1, case="mini1", started="2026-01-01T00:00:00Z"):
    """A result of so many choices: NPAR -> seconds, one a round."""
    ranks = max(times)
    return {
        "schema": "bisection-result",
        "version": 1,
        "kernel": "npar",
        "case": case,
        "status": "complete",
        "started": started,
        "labels": {"partition": "default"},
        "layout": {
            "threads": 1,
            "per_rank": [{"rank": r, "host": f"node{r * hosts // ranks}"} for r in range(ranks)],
        },
        "results": [
            {
                "method": f"npar-{npar}",
                "applicable": True,
                "verification": {"passed": True, "checks": [{"passed": True}]},
                "samples": {
                    "seconds": seconds,
                    "switches": [0] * len(seconds),
                    "rounds": list(range(len(seconds))),
                },
            }
            for npar, seconds in times.items()
        ],
    }


STEADY = {1: [1.2, 1.21, 1.19, 1.2, 1.2], 4: [1.0, 1.01, 0.99, 1.0, 1.0], 16: [1.1] * 5}


@pytest.fixture
def told(tmp_path, capsys):
    """told(results, *arguments): exit code, output and errors of advise on these results."""

    def tell(results, *arguments):
        for number, made in enumerate(results):
            text = made if isinstance(made, str) else json.dumps(made)
            (tmp_path / f"{number}.json").write_text(text)
        code = main(["advise", "npar", "--from", str(tmp_path), *arguments])
        return code, *capsys.readouterr()

    return tell


class TestAdvise:
    def test_the_table(self, told):
        code, text, _ = told([result(STEADY, hosts=4)])
        row = next(line for line in text.splitlines() if line.startswith("  mini1"))
        assert code == 0
        assert row.split()[:3] == ["mini1", "16", "4"]
        assert "NPAR 1: +20% [+20%, +20%]" in row  # cores / 8 and / 16
        assert "NPAR 4: best" in row  # the square root
        assert "1.20" in row
        assert "no network was measured" not in text

    def test_one_host_measures_no_network(self, told):
        assert "All ranks ran on one host: no network was measured" in told([result(STEADY)])[1]

    def test_what_cannot_be_told_apart(self):
        noisy = {1: [1.0, 1.2, 1.0, 1.3, 0.9], 2: [1.1, 1.0, 1.2, 0.9, 1.1]}
        found = npar.sweep(result(noisy))
        assert found.ties() == [n for n in (1, 2) if n != found.best]

    def test_the_newest_counts(self, told):
        old = result({1: [1.0] * 3, 2: [2.0] * 3}, started="2026-01-01T00:00:00Z")
        new = result({1: [2.0] * 3, 2: [1.0] * 3}, started="2026-01-02T00:00:00Z")
        rows = [line.split() for line in told([new, old])[1].splitlines()]
        assert ["mini1", "2", "2"] in [row[:3] for row in rows]

    def test_what_is_no_result_is_passed_over(self, told):
        nan = copy.deepcopy(result(STEADY))
        nan["results"][1]["samples"]["seconds"][0] = float("nan")
        wrong = copy.deepcopy(result(STEADY))
        for entry in wrong["results"]:
            entry["verification"]["passed"] = False
        code, text, _ = told(["{", "[]", json.dumps({"kernel": "npar"}), wrong, nan])
        assert code == 0
        assert "NPAR 16: best" in text or " 16 " in text  # of the others in `nan`

    @pytest.mark.parametrize(
        "results", [[], [result({1: [1.0] * 5})], [result({1: [1.0], 2: [1.0]})]]
    )
    def test_nothing_to_advise_from(self, told, results):
        code, _, errors = told(results)
        assert code == 3
        assert "no results of the npar checks with two ranks or more" in errors

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (["--measure", "x"], "--measure x"),
            (["--measure", "1"], "--measure 1"),
            (["--measure", "2,99999"], "--measure 99999"),
            (["--rounds", "2"], "argument --rounds: '2' is not a whole number above 2"),
            (["--measure", "2", "--partition", "p"], "does not go with"),
        ],
    )
    def test_usage(self, capsys, arguments, words):
        try:
            code = main(["advise", "npar", *arguments])
        except SystemExit as error:  # of argparse
            code = error.code
        assert code == 2
        assert words in capsys.readouterr().err

    def test_no_such_folder(self, capsys):
        assert main(["advise", "npar", "--from", "/no/such"]) == 3
        assert "/no/such" in capsys.readouterr().err


class TestLiterature:
    def test_v07_the_best_of_benchmark_1(self):
        times = sources.npar_times(1)
        assert [sources.best(times[n]) for n in (16, 32, 64, 128, 256)] == [2, 4, 4, 16, 32]

    def test_v08_the_best_of_benchmark_5(self):
        times = sources.npar_times(5)
        assert [sources.best(times[n]) for n in (128, 256, 512, 1024)] == [4, 8, 32, 32]

    def test_v09_hybrid_fixes_npar(self):
        assert all([*by_npar] == [cores] for cores, by_npar in sources.npar_times(2).items())

    def test_v11_less_critical_on_more_cores(self):
        times = sources.npar_times(5)
        assert sources.spread(times[128]) == pytest.approx(1.86, abs=0.005)
        assert sources.spread(times[1024]) == pytest.approx(1.28, abs=0.005)

    def test_v01_to_v04_gains_of_the_knobs(self):
        def gain(benchmark, cores, before, after):
            times = [sources.stage_time(benchmark, stage, cores) for stage in (before, after)]
            return times[0] / times[1]

        assert gain(1, 256, "original", "collectives") == pytest.approx(2.13, abs=0.01)
        assert gain(5, 1024, "original", "collectives") == pytest.approx(10.0, abs=0.05)
        assert gain(2, 128, "collectives", "allreduce") == pytest.approx(1.9, abs=0.05)
        assert gain(5, 1024, "nozero", "scalapack") == pytest.approx(1.23, abs=0.01)
        assert sources.stage_time(2, "original", 256) is None
