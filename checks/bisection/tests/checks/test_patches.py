"""checks/patches.py on real ReFrame with a fake kernel."""

PATCHES = ("-n", "^patches")
SMALL = ("-n", "^patches.*layout=mpi.*launch.case=dhfr-mini")


class TestChecks:
    def test_every_way_is_judged(self, bisection):
        run = bisection(selected=PATCHES, tier="upgrade")
        assert run.code == 0, run.text
        for case in ("dhfr-mini", "f1-atpase"):
            assert run.case("static", case=case)["verdict"] == "pass"
            assert run.case("aggregated", case=case)["verdict"] == "pass"

    def test_a_wrong_or_slow_way_fails(self, bisection):
        faults = {"testsome": "wrong", "iprobe": "slow-messages", "static": "slow-step"}
        run = bisection(selected=SMALL, faults=faults)
        assert run.code == 1, run.text
        assert "wrong answer of testsome" in run.case("testsome", case="dhfr-mini")["cause"]
        assert "ratio_static" in run.case("iprobe", case="dhfr-mini")["cause"]
        assert "ratio_forces" in run.case("static", case="dhfr-mini")["cause"]
        assert run.case("waitany", case="dhfr-mini")["verdict"] == "pass"
