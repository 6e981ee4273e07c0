"""checks/npar.py on real ReFrame with a fake kernel."""

NPAR = ("-n", "^npar.*layout=mpi%launch.case=mini3$")


class TestChecks:
    def test_every_choice_and_knob_is_judged(self, bisection):
        run = bisection(selected=("-n", "^npar"), tier="upgrade")
        assert run.code == 0, run.text
        cases = {(c["layout"], c["case"], c["method"]) for c in run.verdict["cases"] if c["method"]}
        assert ("mpi", "mini1", "npar-1") in cases
        assert ("mpi", "mini1", "npar-2") in cases
        assert ("node", "mini1", "npar-1") in cases
        assert ("node", "mini1", "npar-2") not in cases  # one rank
        assert ("mpi", "mini2", "npar-1") not in cases  # hybrid: NPAR is the number of ranks
        assert ("mpi", "mini2", "npar-2") in cases
        assert ("mpi", "mini4", "scalapack") in cases

    def test_a_slow_knob_and_a_slow_choice_fail(self, bisection):
        run = bisection(
            selected=NPAR,
            tier="nightly",
            faults={"zeroing": "slow-knob", "npar-1": "slow-choice"},
        )
        assert run.code == 1
        assert run.case("zeroing", case="mini3")["verdict"] == "FAIL"
        assert "ratio_best" in run.case("npar-1", case="mini3")["cause"]
        assert run.case("emulated", case="mini3")["verdict"] == "pass"

    def test_another_best_is_reported_and_does_not_fail(self, bisection):
        run = bisection(selected=NPAR, tier="nightly", faults={"npar-1": "other-best"})
        assert run.code == 0, run.text
        assert "the best NPAR is 1, it was 2; that is 7% slower" in run.said

    def test_without_elpa(self, bisection):
        run = bisection(selected=NPAR, tier="nightly", faults={"elpa": "inapplicable"})
        assert run.code == 0, run.text
        assert run.case("elpa", case="mini3")["verdict"] == "not applicable"
