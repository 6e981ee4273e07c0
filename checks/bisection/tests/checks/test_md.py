"""checks/md.py on real ReFrame with a fake kernel."""

CU3AU = ("-n", "^md.*launch.case=cu3au", "-n", "^md_layout.*launch.case=cu3au")
HYBRIDS = ("-n", "^md_layout.*launch.case=(cu3au|fe)")


class TestChecks:
    def test_every_style_and_layout_is_judged(self, bisection):
        run = bisection(selected=("-n", "^md"))
        assert run.code == 0, run.text
        cases = {
            (c["check"], c["layout"], c["case"], c["method"]): c["verdict"]
            for c in run.verdict["cases"]
            if c["method"]
        }
        for layout in ("mpi", "node"):
            for method in ("packed", "dlpoly3", "recompute"):
                assert cases["md", layout, "fe", method] == "pass"
            assert ("md", layout, "sic", "recompute") not in cases  # keeps no pair terms
            assert cases["md", layout, "nacl-mini", "column-wise"] == "pass"
            assert ("md", layout, "fe", "column-wise") not in cases  # has no charges
        assert cases["md_layout", "node", "fe", "packed"] == "pass"
        assert cases["md_layout", "node2", "fe", "packed"] == "not applicable"
        assert "layout node2 is the same as mpi here (2x1)" in run.whole
        assert cases["md", "domain", "fe", "packed"] == "not applicable"

    def test_a_slow_or_wrong_style_fails(self, bisection):
        faults = {"dlpoly3": "slow-style", "packed": "slow-memory", "recompute": "wrong"}
        run = bisection(selected=CU3AU, faults=faults)
        assert run.code == 1, run.text
        words = ("ratio_packed is 9", "ratio_cached is 9", "wrong answer of recompute")
        for method, cause in zip(faults, words, strict=True):
            for layout in ("mpi", "node"):
                case = run.case(method, layout, case="cu3au", check="md")
                assert case["verdict"] == "FAIL"
                assert cause in case["cause"]

    def test_a_hybrid_that_is_slow_or_sends_more_fails(self, bisection):
        faults = {"node/cu3au": "slow-node", "node/fe": "more-bytes"}
        run = bisection(selected=HYBRIDS, faults=faults)
        words = {"cu3au": "ratio_mpi is 2.00", "fe": "1 ranks send 1e+06 bytes a step, 2 send 1000"}
        for name, cause in words.items():
            case = run.case("packed", "node", name, check="md_layout")
            assert case["verdict"] == "FAIL"
            assert cause in case["cause"]

    def test_a_hybrid_that_wins_is_noted(self, bisection):
        run = bisection(selected=CU3AU, faults={"node/cu3au": "fast-node"})
        assert run.code == 0, run.text
        assert "node is 25% faster than one rank per core on 2 cores" in run.said
