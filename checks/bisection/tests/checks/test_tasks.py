"""checks/tasks.py on real ReFrame with a fake kernel."""

TASKS = ("-n", "^tasks")
SMALL = ("-n", "^tasks.*layout=mpi.*launch.case=gamess-uk-mini")


class TestChecks:
    def test_every_way_is_judged_and_the_large_case_needs_a_machine(self, bisection):
        run = bisection(selected=TASKS, tier="upgrade")
        assert run.code == 0, run.text
        assert run.case("static", case="gamess-uk-mini")["verdict"] == "pass"
        assert run.case("manager", case="gamess-uk-mini")["verdict"] == "pass"
        assert run.case("counter", case="gamess-uk")["verdict"] == "not applicable"
        assert "needs 32 cores, a launch here has 2" in run.whole

    def test_a_wrong_unbalanced_or_slow_way_fails(self, bisection):
        faults = {"static": "unbalanced", "counter": "wrong", "hierarchical": "slow-counter"}
        run = bisection(selected=SMALL, faults=faults)
        assert run.code == 1, run.text
        assert "wrong answer of counter" in run.case("counter", case="gamess-uk-mini")["cause"]
        assert "ratio_ideal" in run.case("static", case="gamess-uk-mini")["cause"]
        assert "ratio_bare" in run.case("hierarchical", case="gamess-uk-mini")["cause"]
        assert run.case("manager", case="gamess-uk-mini")["verdict"] == "pass"

    def test_one_rank_alone_is_not_spared(self, bisection):
        selected = ("-n", "^tasks.*layout=node%.*launch.case=gamess-uk-mini")
        run = bisection(
            selected=selected, faults={"manager": "inapplicable", "static": "inapplicable"}
        )
        assert run.code == 1, run.text
        assert run.case("manager", "node", "gamess-uk-mini")["verdict"] == "not applicable"
        assert run.case("static", "node", "gamess-uk-mini")["verdict"] == "FAIL"
