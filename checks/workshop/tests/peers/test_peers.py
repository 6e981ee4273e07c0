"""`workshop bench` of all kernels but md, and of the store, on made-up results: ratios."""

import sys

import pytest

from bisection.core.verdicts import Exit
from workshop.peers import eigen, halo, harness, npar, restart, store_scale, suite_scale, transpose
from workshop.peers import text as peers


def entry(method, seconds, **metrics):
    """An entry of a method; each metric has its value and 0.01 on either side."""
    numbers = {
        name: {"value": value, "low": value - 0.01, "high": value + 0.01, "unit": "messages"}
        for name, value in metrics.items()
    }
    return {
        "method": method,
        "applicable": not method.startswith("elpa"),
        "baseline": method == "dsyevd",
        "metrics": {"time": {"value": seconds, "low": seconds, "high": seconds}, **numbers},
        "samples": {
            "seconds": [seconds] * 4,
            "disturbed": [method == "serial", False, False, False],
        },
        "communication": {"p2p": {"seconds": {"mean": 0.5}, "messages": {"max": 0}}},
    }


def test_the_best_of_the_methods_is_set_beside_each_limit(bench, monkeypatch):
    def launch(kernel, ranks, arguments, output):
        harness = {"overhead_s": 0.1, "measure_s": 2.0}
        if "--transpose-only" in arguments:
            entries = [entry("direct", 1e-5, ratio_copy=2.1), entry("p2p", 2e-5, ratio_copy=7.0)]
        else:
            ratios = [("p2p", 0.5), ("direct", 0.7)]
            entries = [entry(method, 2e-4 * ratio, ratio_serial=ratio) for method, ratio in ratios]
            entries.append(entry("serial", 2e-4))
        return {"results": entries, "harness": harness}

    monkeypatch.setattr(transpose, "launch", launch)
    text = bench("transpose", "--grid", "cnt40")
    assert "30x30x30 on 2 ranks: serial 200 us; 92% of the samples not disturbed" in text
    assert "p2p 100 us 0.50 [0.49 0.51] 7.00 [6.99 7.01]" in text
    assert "2 serial FFTW p2p 0.50 [0.49 0.51] at most 0.52 met by 3.8%" in text
    assert "2 memcpy, exchange alone direct 2.10 [2.09 2.11] at most 1.7 MISSED by 23.5%" in text
    assert "2 memcpy, exchange alone p2p 7.00 [6.99 7.01] at most 8 met by 12.5%" in text
    assert "30x30x30, 1 rank: 5.0% of 2.0 s" in text
    assert "81x81x81" not in text


def test_npar_without_quantum_espresso(bench, monkeypatch):
    def launch(kernel, ranks, arguments, output):
        methods = arguments[arguments.index("--method") + 1].split(",")
        waves = 2 if "--kpoints" in arguments else 1
        seconds = {"npar-1": 1.0 * waves / ranks, "npar-2": 0.9 / ranks}
        shares = {f"{name}_share": 0.1 for name in (*npar.FFT_PHASES, *npar.BLAS_PHASES)}
        return {
            "results": [
                entry(method, seconds.get(method, 1.0), ratio_base=1.06, **shares)
                for method in methods
                if method != "elpa"
            ],
            "details": {"memory_resident": 1.2e8, "memory_predicted": 1.0e8},
            "harness": {"overhead_s": 0.15, "measure_s": 1.0},
        }

    monkeypatch.setattr(npar, "launch", launch)
    monkeypatch.setattr(npar.shutil, "which", lambda name: None)
    text = bench("npar")
    assert "not measured: there is no pw.x on PATH (Debian: quantum-espresso)" in text
    assert "mini1, 2 ranks 1 s over 450 ms 2.22 at least 1.8 met by 23.5%" in text
    assert "mini1, 1 rank, npar-1 2 s over 1 s 2.00 at most 2.2 met by 9.1%" in text
    assert "mini1, 1 rank, npar-1 250 ms over 1 s 25% at most 20% MISSED by 25.0%" in text
    assert "bench1, 2 ranks, npar-2 120 MB over 100 MB 1.20 within 10% MISSED" in text
    assert "mini5 2 1.06 [1.05 1.07]" in text
    assert "not built" in text


def test_solvers_beside_lapack(bench, monkeypatch):
    """PDSYEVD has limits, the others stand beside it; ELPA may be missing."""

    def launch(kernel, ranks, arguments, output):
        size = int(arguments[arguments.index("--size") + 1])
        ratio = {"pdsyevd": (1.15, 0.8)[ranks - 1] * (1.6 if size < 384 else 1), "jacobi": 18.0}
        ratio["jacobi"] -= 12 * ("--guess-error" in arguments)
        costs = {"sweeps": 8.0, "messages": 99.0, "workspace_asked": 0.0}
        costs["matrices"] = 1.02 * 2 * size**2 * 8 / ranks
        methods = ("pdsyevd", "pdsyevr", "elpa1", "jacobi", "dsyevd")
        results = [entry(m, 2.0, ratio_dsyevd=ratio.get(m, 2.0), **costs) for m in methods]
        return {"results": results, "details": {"size": size}, "layout": {"ranks": ranks}}

    monkeypatch.setattr(eigen, "launch", launch)
    text = bench("eigen")
    assert "2000 rows, 1 rank, pdsyevd 2 s over 2 s 1.15 [1.14 1.16] at most 1.05 MISSED" in text
    assert "3888 rows, 2 ranks, pdsyevd 2 s over 2 s 0.80 [0.79 0.81] at most 0.75 MISSED" in text
    assert "elpa1" not in text
    assert "jacobi cold, 8 sweeps 2 s over 2 s 18.00" in text
    assert "jacobi guess 1e-3, 8 sweeps 2 s over 2 s 6.00" in text
    assert "2000 rows, 2 ranks, jacobi, memory 32.6 MB over 32 MB 1.02 within 5% met" in text
    assert "7194 rows" not in text
    assert "jacobi 18 messages 25% 99 messages" in text
    assert " dsyevd 2 messages" not in text  # beside which they stand
    assert "two ranks pay from 384 rows on" in text
    text = bench("eigen", "--part", "memory")
    assert "7194 rows, 2 ranks, pdsyevd 2 s over 2 s 0.80 [0.79 0.81] at most 0.75 MISSED" in text
    assert "7194 rows, 2 ranks, pdsyevd, memory 422 MB over 414 MB 1.02" in text


def test_exchange_beside_petsc(bench, monkeypatch, commands):
    def launch(kernel, ranks, arguments, output):
        shares = {"isend": 0.5, "aggregated": 0.4, "shm": 0.1}
        return {"results": [entry(m, 2.0, exchange_share=share) for m, share in shares.items()]}

    monkeypatch.setattr(halo, "launch", launch)
    monkeypatch.setattr(halo, "placement", lambda ranks: [])
    commands("pkg-config", "echo -lpetsc")
    commands("mpicc", "exit 0")
    commands("mpirun", "echo 0.8")
    text = bench("halo")
    assert "2 ranks, isend 1 s over 800 ms 1.25" in text
    assert "at most 1 MISSED" in text
    assert "2 ranks, shm 200 ms over 800 ms 0.25" in text
    commands("mpicc", "exit 1")
    assert "not measured: there is no PETSc" in bench("halo")


def test_restart_files_beside_fio(bench, monkeypatch, commands):
    def launch(kernel, ranks, arguments, output):
        metrics = {"bandwidth_write": 2.1e8, "bandwidth_read": 8e8}
        return {"results": [entry("file-per-rank", 1.0, **metrics)]}

    monkeypatch.setattr(restart, "launch", launch)
    rates = '{"read": {"bw_bytes": 4e8}, "write": {"bw_bytes": 2e8}}'
    commands("fio", f"""echo '{{"jobs": [{rates}]}}'""")
    text = bench("restart")
    assert "2 ranks, write 210 MB/s over 200 MB/s 1.05 within 10% met" in text
    assert "1 rank, read 800 MB/s over 400 MB/s 2.00 within 10% MISSED" in text
    monkeypatch.setattr(restart.shutil, "which", lambda name: None)
    assert "not measured: there is no fio on PATH" in bench("restart")


def test_what_the_harness_costs(bench, monkeypatch):
    turns = iter([13, 15, 14, 16, 40])

    def run(command):
        if "--seconds" in command:
            return "30.5 14.5\n" if command[-1] == "p2p" else "20.5 4.5\n"
        more = next(turns)
        costs = f"Barrier   2   {2 + more}   {more}\nAlltoallw, 10 peers   11   41   30\n"
        return "   bare   now  more ns\n" + costs

    monkeypatch.setattr(harness, "make", lambda *_: None)
    monkeypatch.setattr(harness, "run", run)
    monkeypatch.setattr(harness.shutil, "which", lambda name: name)
    text = bench("harness")
    assert "1 rank, Barrier 17 ns over 2 ns 15 ns [14 ns 16 ns] at most 20 ns met by 25.0%" in text
    assert "1 rank, Alltoallw, 10 peers 41 ns over 11 ns 30 ns at most 20 ns MISSED" in text
    assert "8,192 ranks, p2p, Linux 14.5 s of it 45 s at most 40 s MISSED by 12.5%" in text
    assert "8,192 ranks, shm, Linux 4.5 s of it 25 s at most 40 s met" in text
    turns = iter([13] * 5)
    monkeypatch.setattr(harness.shutil, "which", lambda name: None)
    assert "not measured: smpirun of SimGrid is not installed" in bench("harness")


@pytest.mark.parametrize(
    ("slow", "large", "code"),
    [(0, 100, Exit.OK), (2.5, 100, Exit.FAILED), (0, 2000, Exit.FAILED)],
)
def test_a_store_beyond_its_limits_fails(bench, monkeypatch, slow, large, code):
    def timed(nights, metrics, repeats):
        size = nights * metrics / 1e6
        seconds = {name: [size + slow] * repeats for name in store_scale.LIMITS}
        return store_scale.Timed(nights, metrics, 1.0, 2.0, seconds, dict.fromkeys(seconds, large))

    monkeypatch.setattr(store_scale, "timed", timed)
    text = bench("store", code=code)
    assert "500 nights x 2000 metrics: stored in 1.0 s, 2.0 MiB" in text
    assert "history: from 100,000 to 1,000,000 values as their number to the power" in text
    assert ("power 1.00" in text) == (not slow)


def test_what_is_timed_keeps_its_compiled_sources(monkeypatch, tmp_path):
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    asks = "import sys; sys.exit(2 * sys.dont_write_bytecode)"
    store_scale.cost_of(tmp_path, [sys.executable, "-c", asks])


@pytest.mark.parametrize(("factor", "code"), [(0.9, Exit.OK), (1.1, Exit.FAILED)])
def test_a_suite_beyond_its_targets_fails(bench, monkeypatch, factor, code):
    def measure(home, nodes, nights):
        assert (nodes, nights) == (4000, 365)
        for name, (_, most) in suite_scale.TARGETS.items():
            yield name, suite_scale.Figure((most or 1e9) * factor, 1.0, 2.0)

    monkeypatch.setattr(suite_scale, "measure", measure)
    text = bench("suite", code=code)
    assert ("met" in text, "MISSED" in text) == (code == Exit.OK, code == Exit.FAILED)
    assert text.count("at most") == sum(
        most is not None for _, most in suite_scale.TARGETS.values()
    )


def test_a_page_without_a_browser_is_not_measured(bench, monkeypatch, tmp_path):
    monkeypatch.setattr(suite_scale.shutil, "which", lambda program: None)
    name = "page in headless Chromium"

    def measure(home, nodes, nights):
        yield name, suite_scale.Figure(suite_scale.opening(tmp_path / "report.html"))

    monkeypatch.setattr(suite_scale, "measure", measure)
    assert f"{name}: not measured: no Chromium; at most 2 s" in bench("suite")


def test_knobs_on_shared_cores_are_named(monkeypatch):
    monkeypatch.setattr(peers.os, "sched_getaffinity", lambda pid: {0, 1})
    *_, last = peers.knob_table([("mini1", 2, {}), ("mini1", 4, {})])
    assert last.strip().startswith("4 ranks share 2 cores; on one host")
