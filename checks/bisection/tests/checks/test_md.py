"""checks/md.py on real ReFrame with a fake kernel."""

import pytest

CU3AU = ("-n", "^md.*launch.case=cu3au", "-n", "^md_layout.*launch.case=cu3au")


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
        assert cases["md_layout", "node", "fe", "packed"] == "pass"
        assert cases["md_layout", "node2", "fe", "packed"] == "not applicable"
        assert "layout node2 is mpi here: 2x1" in run.said
        assert cases["md", "domain", "fe", "packed"] == "not applicable"

    @pytest.mark.parametrize(
        ("method", "fault", "words"),
        [
            ("dlpoly3", "slow-style", "ratio_packed is 9"),
            ("packed", "slow-memory", "ratio_cached is 9"),
            ("recompute", "wrong", "wrong answer of recompute"),
        ],
    )
    def test_a_slow_or_wrong_style_fails(self, bisection, method, fault, words):
        run = bisection(selected=CU3AU, faults={method: fault})
        assert run.code == 1, run.text
        case = run.case(method, case="cu3au", check="md")
        assert case["verdict"] == "FAIL"
        assert words in case["cause"]

    @pytest.mark.parametrize(
        ("fault", "words"),
        [
            ("slow-node", "ratio_mpi is 2.00"),
            ("more-bytes", "1 ranks send 1e+06 bytes a step, 2 send 1000"),
        ],
    )
    def test_a_hybrid_that_is_slow_or_sends_more_fails(self, bisection, fault, words):
        run = bisection(selected=CU3AU, faults={"node/cu3au": fault})
        case = run.case("packed", "node", "cu3au", check="md_layout")
        assert case["verdict"] == "FAIL"
        assert words in case["cause"]

    def test_a_hybrid_that_wins_is_noted(self, bisection):
        run = bisection(selected=CU3AU, faults={"node/cu3au": "fast-node"})
        assert run.code == 0, run.text
        assert "node is 25% faster than one rank per core on 2 cores" in run.said
