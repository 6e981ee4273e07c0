"""`bisection compare --plan`: how many nights a change takes, by what is stored."""

import numpy as np
import pytest
from made_up import case, sessions, store, times

from bisection.core import paths


@pytest.fixture
def stored(tmp_path, monkeypatch):
    """stored(count): that many nights of thirty metrics with 3% noise are in the store."""

    def fill(count):
        rng = np.random.default_rng(1)
        monkeypatch.setenv("BISECTION_HOME", str(tmp_path))

        def night():
            return [case(f"m{i}", {"time": t}) for i, t in enumerate(times(rng, count=30))]

        store(paths.store_db(tmp_path), sessions(0, (night() for _ in range(count)))).close()

    return fill


def test_smaller_changes_take_more_nights(stored, command_line):
    stored(30)
    needed = {}
    for effect in ("5%", "0.1", "20%"):
        code, text, _ = command_line("compare", "--plan", effect)
        assert code == 0
        (line,) = [line for line in text.splitlines() if line.startswith("transpose")]
        needed[effect] = int(line.split()[-1])
    assert needed["5%"] > needed["0.1"] > needed["20%"] >= 5


def test_few_nights_are_not_planned_with(stored, command_line):
    stored(9)
    code, text, _ = command_line("compare", "--plan", "5%")
    assert (code, "at least 10 nights with the same tests are needed" in text) == (3, True)


@pytest.mark.parametrize("effect", ["0", "-5%", "much", "101%", "nan"])
def test_an_effect_is_a_part(stored, command_line, effect):
    code, _, errors = command_line("compare", f"--plan={effect}")
    assert (code, "is not a part such as 5%" in errors) == (2, True)
