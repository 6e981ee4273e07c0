"""`bisection advise md`"""

import json

import pytest

from bisection.advice import sources
from bisection.cli import main


def result(ranks, threads, time, case="cu3au", hosts=4, switches=0):
    shares = (
        "p2p collective barrier communication fork_join two_body_forces metal_ld_compute "
        "tersoff_forces"
    )
    metrics = {f"{name}_share": {"value": 0.1} for name in shares.split()}
    metrics["time"] = {"value": time, "low": time * 0.98, "high": time * 1.03}
    for name, value in {"atom_steps": 32000 / time, "bytes_per_rank": 1e6 / ranks}.items():
        metrics[name] = {"value": value}
    metrics["bytes"], metrics["messages"] = {"value": 1e6}, {"value": 20 * ranks}
    return {
        "schema": "bisection-result",
        "version": 1,
        "kernel": "md",
        "case": case,
        "status": "complete",
        "started": "2026-01-01T00:00:00Z",
        "labels": {"partition": "default"},
        "layout": {
            "threads": threads,
            "per_rank": [{"rank": r, "host": f"node{r * hosts // ranks}"} for r in range(ranks)],
        },
        "results": [
            {
                "method": "packed",
                "applicable": True,
                "verification": {"passed": True, "checks": [{"passed": True}]},
                "samples": {"seconds": [time] * 4, "switches": [switches] * 4},
                "metrics": metrics,
            }
        ],
    }


@pytest.fixture
def told(tmp_path, capsys):
    def tell(made, *arguments):
        for number, one in enumerate(made):
            (tmp_path / f"{number}.json").write_text(json.dumps(one))
        code = main(["advise", "md", "--from", str(tmp_path), *arguments])
        return code, *capsys.readouterr()

    return tell


class TestAdvise:
    def test_the_table_and_the_crossover(self, told):
        made = [
            result(32, 1, 10e-3), result(4, 8, 12e-3),
            result(64, 1, 8e-3), result(8, 8, 6e-3),
            result(128, 1, 9e-3), result(16, 8, 4e-3),
        ]  # fmt: skip
        code, text, _ = told(made)
        assert code == 0
        assert "cu3au: best mpi on 32, 8x8 on 64, 16x8 on 128; hybrid from 64 cores on" in text
        rows = map(str.split, text.splitlines())
        row = next(cells for cells in rows if cells[:3] == ["cu3au", "64", "64x1"])
        assert row[-2:] == ["1.33", "default"]
        assert "1,000,000" in text
        assert "no network was measured" not in text

    def test_one_layout_alone_and_one_host(self, told):
        code, text, _ = told([result(4, 1, 1e-3, hosts=1)])
        assert code == 0
        assert "no two layouts on as many cores" in text
        assert "All ranks ran on one host: no network was measured" in text

    def test_a_disturbed_launch_is_left_out(self, told):
        made = [result(4, 1, 1e-3), result(4, 1, 9e-3, switches=50), result(2, 2, 2e-3)]
        made[1]["started"] = "2026-02-01T00:00:00Z"
        code, text, errors = told(made)
        assert code == 0
        assert "cu3au: best mpi on 4" in text
        assert "1 launch left out: other processes" in errors

    def test_refusals(self, told):
        assert told([])[0] == 3
        code, _, errors = told([result(4, 1, 1e-3)], "--case", "mini1")
        assert code == 2
        assert "--case mini1: md has sic, cu3au" in errors


class TestPublished:
    """Findings D01 to D04 of the 2010 study, from its table."""

    @pytest.mark.parametrize(
        ("cluster", "test", "start"),
        [
            ("merlin", 10, 256),
            ("merlin", 20, 256),
            ("merlin", 30, 128),
            ("stella", 10, 64),
            ("stella", 20, 64),
            ("stella", 30, 64),
        ],
    )
    def test_crossovers(self, cluster, test, start):
        assert sources.crossover(sources.md_times(cluster, test)) == start

    def test_best_layouts(self):
        times = sources.md_times("merlin", 10)
        assert [sources.best(times[n]) for n in (128, 256, 512)] == ["mpi", "node2", "node"]
        assert times[512]["node"] == 12.014
        assert 1 not in times
