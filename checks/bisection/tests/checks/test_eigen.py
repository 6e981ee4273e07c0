"""checks/eigen.py on real ReFrame with a fake kernel."""

EIGEN = ("-n", "^eigen")
SMALLEST = ("-n", "^eigen.*launch.case=fock-256")


class TestChecks:
    def test_every_solver_is_judged_and_large_cases_need_a_machine(self, bisection):
        run = bisection(selected=EIGEN, tier="upgrade")
        assert run.code == 0, run.text
        verdicts = {
            (c["check"], c["layout"], c["case"], c["method"]): c["verdict"]
            for c in run.verdict["cases"]
            if c["method"]
        }
        assert verdicts["eigen", "mpi", "fock-256", "jacobi"] == "pass"
        assert verdicts["eigen", "node", "crystal-mini", "jacobi"] == "pass"
        assert verdicts["eigen", "mpi", "pdsyevd-3888", "pdsyevd"] == "pass"
        assert verdicts["eigen", "mpi", "pdsyevd-7194", "pdsyevd"] == "not applicable"
        assert verdicts["eigen_guess", "mpi", "fock-512", "jacobi"] == "pass"
        assert ("eigen", "mpi", "aimpro-mini", "jacobi") not in verdicts
        assert ("eigen", "mpi", "fock-2000", "pdsyev") not in verdicts
        assert "needs 32 cores, a launch here has 2" in run.whole

    def test_a_wrong_or_slow_solver_fails_and_elpa_may_be_missing(self, bisection):
        faults = {
            "pdsyevx": "wrong",
            "elpa1": "inapplicable",
            "pdsyevd": "slow-solver",
            "jacobi": "sweep",
        }
        run = bisection(selected=SMALLEST, faults=faults)
        assert run.code == 1, run.text
        assert "wrong answer of pdsyevx" in run.case("pdsyevx", case="fock-256")["cause"]
        assert "ratio_dsyevd" in run.case("pdsyevd", case="fock-256")["cause"]
        assert "sweeps" in run.case("jacobi", case="fock-256")["cause"]
        assert run.case("elpa1", case="fock-256")["verdict"] == "not applicable"
        assert run.case("pdsyevr", case="fock-256")["verdict"] == "pass"
