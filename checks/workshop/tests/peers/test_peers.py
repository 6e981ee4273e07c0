"""`workshop bench transpose|npar|eigen|store` on made-up results: ratios, limits, exit codes."""

import pytest

from bisection.core.verdicts import Exit
from workshop.peers import eigen, npar, store_scale, transpose
from workshop.peers import text as peers


def entry(method, seconds, **metrics):
    """An entry of a method; ELPA is missing."""
    numbers = {
        name: {"value": value, "low": value - 0.01, "high": value + 0.01, "unit": "messages"}
        for name, value in metrics.items()
    }
    return {
        "method": method,
        "applicable": method not in ("elpa", "elpa1"),
        "baseline": method == "dsyevd",
        "metrics": {"time": {"value": seconds, "low": seconds, "high": seconds}, **numbers},
        "samples": {"seconds": [seconds], "preempted": [True, False, False, False]},
        "communication": {"p2p": {"seconds": {"mean": 0.5}, "messages": {"max": 0}}},
    }


def transposes(ranks, arguments):
    if "--transpose-only" in arguments:
        return [entry("direct", 1e-5, ratio_copy=2.1), entry("p2p", 2e-5, ratio_copy=7.0)], {}
    ratios = {"p2p": 0.5, "direct": 0.7}
    entries = [entry(method, 2e-4 * ratio, ratio_serial=ratio) for method, ratio in ratios.items()]
    return [entry("serial", 2e-4), *entries], {}


def sweeps(ranks, arguments):
    waves = 2 if "--kpoints" in arguments else 1
    seconds = {"npar-1": 1.0 * waves / ranks, "npar-2": 0.9 / ranks}
    shares = {f"{name}_share": 0.1 for name in (*npar.FFT_PHASES, *npar.BLAS_PHASES)}
    methods = arguments[arguments.index("--method") + 1].split(",")
    entries = (entry(m, seconds.get(m, 1.0), ratio_base=1.06, **shares) for m in methods)
    memory = {"memory_resident": 1.2e8, "memory_predicted": 1.0e8}
    return [each for each in entries if each["applicable"]], memory


def solvers(ranks, arguments):
    """PDSYEVD has limits, the others stand beside it."""
    size = int(arguments[arguments.index("--size") + 1])
    ratio = {"pdsyevd": (1.15, 0.8)[ranks - 1] * (1.6 if size < 384 else 1), "jacobi": 18.0}
    ratio["jacobi"] -= 12 * ("--guess-error" in arguments)
    more = {"sweeps": 8.0, "messages": 99.0, "workspace_asked": 0.0}
    more["matrices"] = 1.02 * 2 * size**2 * 8 / ranks
    methods = ("pdsyevd", "pdsyevr", "elpa1", "jacobi", "dsyevd")
    entries = [entry(m, 2.0, ratio_dsyevd=ratio.get(m, 2.0), **more) for m in methods]
    return entries, {"size": size}


@pytest.mark.parametrize(
    ("module", "made_up", "words", "texts", "absent"),
    [
        (
            transpose,
            transposes,
            "transpose --grid cnt40",
            [
                "30x30x30 on 2 ranks: serial 200 us; 75% of the samples not preempted",
                "p2p 100 us 0.50 [0.49 0.51] 7.00 [6.99 7.01]",
                "2 serial FFTW p2p 0.50 [0.49 0.51] at most 0.6 met by 16.7%",
                "2 memcpy, exchange alone direct 2.10 [2.09 2.11] at most 2 MISSED by 5.0%",
                "2 memcpy, exchange alone p2p 7.00 [6.99 7.01] at most 8 met by 12.5%",
                "30x30x30, 1 rank: 15.0% of 1.0 s",
            ],
            "81x81x81",
        ),
        (
            npar,
            sweeps,
            "npar",
            [
                "not measured: there is no pw.x on PATH (Debian: quantum-espresso)",
                "mini1, 2 ranks 1 s over 450 ms 2.22 at least 1.8 met by 23.5%",
                "mini1, 1 rank, npar-1 2 s over 1 s 2.00 at most 2.2 met by 9.1%",
                "mini1, 1 rank, npar-1 250 ms over 1 s 25% at most 20% MISSED by 25.0%",
                "bench1, 2 ranks, npar-2 120 MB over 100 MB 1.20 within 10% MISSED",
                "mini5 2 1.06 [1.05 1.07]",
                "not built",
            ],
            "elpa 1.06",
        ),
        (
            eigen,
            solvers,
            "eigen",
            [
                "2000 rows, 1 rank, pdsyevd 2 s over 2 s 1.15 [1.14 1.16] at most 1.2 met",
                "3888 rows, 2 ranks, pdsyevd 2 s over 2 s 0.80 [0.79 0.81] at most 0.75 MISSED by",
                "jacobi cold, 8 sweeps 2 s over 2 s 18.00",
                "jacobi guess 1e-3, 8 sweeps 2 s over 2 s 6.00",
                "2000 rows, 2 ranks, jacobi, memory 32.6 MB over 32 MB 1.02 within 5% met",
                "jacobi 18 messages 25% 99 messages",
                "two ranks pay from 384 rows on",
            ],
            "elpa1",
        ),
        (
            eigen,
            solvers,
            "eigen --part memory",
            [
                "7194 rows, 2 ranks, pdsyevd 2 s over 2 s 0.80 [0.79 0.81] at most 0.75 MISSED",
                "7194 rows, 2 ranks, pdsyevd, memory 422 MB over 414 MB 1.02",
            ],
            "2000 rows",
        ),
    ],
)
def test_ratios_stand_beside_their_limits(
    module, made_up, words, texts, absent, bench, monkeypatch
):
    def launch(kernel, ranks, arguments, output):
        entries, details = made_up(ranks, arguments)
        harness, layout = {"overhead_s": 0.15, "measure_s": 1.0}, {"ranks": ranks}
        return {"results": entries, "details": details, "harness": harness, "layout": layout}

    monkeypatch.setattr(module, "launch", launch)
    monkeypatch.setattr(npar.shutil, "which", lambda name: None)
    text = bench(words)
    assert [line for line in texts if line not in text] == []
    assert absent not in text


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
    text = bench("store", code)
    assert "500 nights x 2000 metrics: stored in 1.0 s, 2.0 MiB" in text
    assert "history: from 100,000 to 1,000,000 values as their number to the power" in text
    assert ("power 1.00" in text) == (not slow)


def test_knobs_on_shared_cores_are_named(monkeypatch):
    monkeypatch.setattr(peers.os, "sched_getaffinity", lambda pid: {0, 1})
    *_, last = peers.knob_table([("mini1", 2, {}), ("mini1", 4, {})])
    assert last.strip().startswith("4 ranks share 2 cores; on one host")
