"""`bisection advise npar|md|eigen` on made-up results: what is read, left out and recommended."""

import json
import re

import pytest
from fake_kernel import layout_of

from bisection.advice import sources


def entry(method, seconds, disturbed=0, **metrics):
    """An entry that is right, of a method with one sample a round."""
    count = len(seconds)
    samples = {"seconds": seconds, "disturbed": [disturbed] * count, "rounds": [*range(count)]}
    right = {"applicable": True, "verification": {"passed": True, "checks": [{"passed": True}]}}
    return {"method": method, "samples": samples, "metrics": metrics, **right}


def result(kernel, ranks, threads, hosts, entries, case, **more):
    seats = [{"host": f"node{r * hosts // ranks}"} for r in range(ranks)]
    head = {"schema": "bisection-result", "version": 5, "kernel": kernel, "case": case}
    head |= {"status": "complete", "started": "2026-01-01T00:00:00Z", "results": entries}
    head |= {"layout": layout_of(seats, threads=threads)}
    return {**head, "labels": {"partition": "default"}, **more}


def of_npar(times, hosts=1, **more):
    """A result of so many choices: NPAR -> seconds, one per round."""
    entries = [entry(f"npar-{choice}", seconds) for choice, seconds in times.items()]
    return result("npar", max(times), 1, hosts, entries, "mini1", **more)


def of_md(ranks, threads, time, hosts=4, disturbed=0, **more):
    """A result of the packed method, with its time per step in seconds."""
    values = {f"{name}_share": 0.1 for name in sources.SHARES}
    values |= {"atom_steps": 32000 / time, "bytes_per_rank": 1e6 / ranks, "bytes": 1e6}
    values |= {"messages": 20 * ranks}
    metrics = {name: {"value": value} for name, value in values.items()}
    metrics["time"] = {"value": time, "low": time * 0.98, "high": time * 1.03}
    packed = entry("packed", [time] * 4, disturbed, **metrics)
    return result("md", ranks, threads, hosts, [packed], "cu3au", **more)


def of_eigen(ranks, rows, ratio, case="fock-512"):
    """A result of two solvers beside dsyevd."""
    entries = []
    for method, worse in (("pdsyevd", 1.0), ("pdsyevr", 1.5)):
        over = {"value": worse * ratio, "low": ratio, "high": worse * ratio + 0.02}
        entries.append(entry(method, [1.0] * 4, time={"value": 1.0}, ratio_dsyevd=over))
    return result("eigen", ranks, 1, 1, entries, case, details={"size": rows, "kpoints": 1})


STEADY = {1: [1.2, 1.21, 1.19, 1.2, 1.2], 4: [1.0, 1.01, 0.99, 1.0, 1.0], 16: [1.1] * 5}


@pytest.fixture
def advised(tmp_path, command_line):
    """advised(kernel, *results): exit code, output and errors of advise on results."""

    def advise(kernel, *results):
        for number, content in enumerate(results):
            text = content if isinstance(content, str) else json.dumps(content)
            (tmp_path / f"{number}.json").write_text(text)
        return command_line("advise", kernel, "--from", str(tmp_path))

    return advise


def cells(text, *first):
    """The cells of the line that begins with these."""
    rows = map(str.split, text.splitlines())
    return next(row for row in rows if row[: len(first)] == [*first])


class TestNpar:
    def test_best_and_losses_by_rule(self, advised):
        code, text, _ = advised("npar", of_npar(STEADY, hosts=4))
        row = " ".join(cells(text, "mini1", "16", "4"))
        assert code == 0
        assert "NPAR 1: +20% [+20%, +20%]" in row  # cores / 8 and / 16
        assert "NPAR 4: best" in row  # the square root
        assert "1.20" in row
        assert "no network was measured" not in text
        assert re.search(r"bench1 +64 +4 +cores/8 -> 8: \+20% +1.44", text)  # published
        losses = r"cores/16 -> 32: \+0%, cores/32 -> 16: \+9%"
        assert re.search(rf"bench5 +512 +32 +{losses} ", text)  # V08
        assert "bench5: 512 cores with NPAR 32, the most" in text

    def test_cores_are_recommended_by_parallel_efficiency(self, advised):
        launches = [
            of_npar({1: [8.0] * 3, 2: [9.0] * 3}, hosts=2),
            of_npar({1: [5.0] * 3, 4: [4.5] * 3}, hosts=4),  # 89%
            of_npar({1: [5.0] * 3, 8: [4.1] * 3}, hosts=4),  # 49%
        ]
        assert "mini1 on default" not in advised("npar", launches[0])[1]
        text = advised("npar", *launches)[1]
        assert "mini1 on default: 4 cores with NPAR 4, the most with" in text
        assert "of at least 50% against 2 (89%)" in text

    def test_noisy_choices_are_tied(self):
        times = {1: [1.0, 1.2, 1.0, 1.3, 0.9], 2: [1.1, 1.0, 1.2, 0.9, 1.2]}
        assert sources.Sweep(of_npar(times)).ties() == [2]

    def test_only_the_newest_counts(self, advised):
        old = of_npar({1: [1.0] * 3, 2: [2.0] * 3})
        new = of_npar({1: [2.0] * 3, 2: [1.0] * 3}, started="2026-01-02T00:00:00Z")
        assert cells(advised("npar", new, old)[1], "mini1", "2", "2")

    def test_unusable_files_are_skipped(self, advised):
        nan, wrong = of_npar(STEADY | {4: [float("nan"), *STEADY[4][1:]]}), of_npar(STEADY)
        for entry in wrong["results"]:
            entry["verification"]["passed"] = False
        simulated = of_npar(STEADY, simulated={})
        foreign = ["{", "[]", json.dumps({"kernel": "npar"})]
        code, text, _ = advised("npar", *foreign, wrong, simulated, nan)
        assert code == 0
        assert cells(text, "mini1", "16", "16")  # of the others in `nan`

    @pytest.mark.parametrize(
        "results", [[], [of_npar({1: [1.0] * 5})], [of_npar({1: [1.0], 2: [1.0]})]]
    )
    def test_nothing_to_advise_from(self, advised, results):
        code, _, errors = advised("npar", *results)
        assert code == 3
        assert "no results of the npar checks with two ranks or more" in errors


class TestMd:
    def test_best_layouts_and_crossover(self, advised):
        shapes = (32, 1, 10), (4, 8, 12), (64, 1, 8), (8, 8, 6), (128, 1, 9), (16, 8, 4)
        code, text, _ = advised("md", *(of_md(r, t, ms * 1e-3) for r, t, ms in shapes))
        assert code == 0
        assert "cu3au: best mpi on 32, 8x8 on 64, 16x8 on 128; hybrid from 64 cores on" in text
        assert cells(text, "cu3au", "64", "64x1")[-2:] == ["1.33", "default"]
        assert "1,000,000" in text
        assert "no network was measured" not in text

    def test_one_layout_on_one_host(self, advised):
        code, text, _ = advised("md", of_md(4, 1, 1e-3, hosts=1))
        assert code == 0
        assert "no two layouts on as many cores" in text
        assert "All ranks ran on one host: no network was measured" in text

    def test_disturbed_launch_is_left_out(self, advised):
        newer = of_md(4, 1, 9e-3, disturbed=1, started="2026-02-01T00:00:00Z")
        code, text, errors = advised("md", of_md(4, 1, 1e-3), newer, of_md(2, 2, 2e-3))
        assert code == 0
        assert "cu3au: best mpi on 4" in text
        assert "1 launch left out: other processes" in errors


def test_where_a_parallel_solver_pays(advised):
    code, out, _ = advised(
        "eigen",
        of_eigen(2, 256, 1.3, "fock-256"),
        of_eigen(2, 512, 0.99, "fock-512"),  # not surely
        of_eigen(2, 1024, 0.8, "fock-1024"),
        of_eigen(4, 512, 1.1, "fock-512"),
        of_eigen(4, 500, 0.1, "aimpro-mini"),  # other work
        of_eigen(1, 512, 1.2, "fock-512"),  # in the table alone
    )
    assert code == 0
    text = " ".join(out.split())
    assert "1024 2 pdsyevd 1 s 0.80 [0.80, 0.82] default" in text
    assert "2 ranks, default: a parallel solver pays from 1024 rows on" in text
    assert "4 ranks, default: a parallel solver does not pay up to 512 rows" in text
    assert "512 1 pdsyevd 1 s 1.20" in text
    assert "1 rank, default:" not in text
    assert "500" not in text


@pytest.mark.parametrize(
    ("kernel", "launched"),
    [("npar", [(4, 1, "npar-1,npar-2,npar-4")]), ("md", [(4, 1), (2, 2), (1, 4)])],
)
def test_measured_here(kernel, launched, monkeypatch, home, command_line):
    calls = []

    def launch(executable, ranks, arguments, output, per_rank):
        calls.append((ranks, per_rank, arguments[arguments.index("--method") + 1]))
        host = {"host": sources.socket.gethostname()}
        stub = of_npar({1: [1.0] * 3, 2: [2.0] * 3}) if kernel == "npar" else of_md(1, 1, 1e-3)
        stub["layout"] = layout_of([host] * ranks, threads=per_rank)
        for entry in stub["results"]:
            entry["samples"]["disturbed"] = [1] * len(entry["samples"]["seconds"])
        return stub

    monkeypatch.setattr(sources, "build", lambda name: name)
    monkeypatch.setattr(sources, "launch", launch)
    monkeypatch.setattr(sources.os, "sched_getaffinity", lambda pid: {0, 1})
    code, text, _ = command_line("advise", kernel, "--measure", "4")
    assert code == 0
    assert [call[: len(launched[0])] for call in calls] == launched
    assert "4 threads in all shared 2 cores: these times show that everything works" in text
    assert f"on the cores of {len(calls)} launch" in text


@pytest.mark.parametrize(
    ("arguments", "expected", "words"),
    [
        (["--measure", "x"], 2, "--measure: 'x'"),
        (["--measure", "2", "1"], 2, "--measure: '1'"),
        (["--measure", "2", "--from", "x"], 2, "does not go with"),
        (["--from", "/no/such"], 2, "/no/such"),
    ],
)
def test_refusals(command_line, arguments, expected, words):
    code, _, errors = command_line("advise", "npar", *arguments)
    assert (code, words in errors) == (expected, True)
