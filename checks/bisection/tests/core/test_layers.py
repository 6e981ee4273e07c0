"""The map of the packages, and what import-linter allows."""

import re

from running import CHECKS


def test_the_readme_has_the_packages_in_the_order_of_the_linter():
    """Two packages of one layer import each other neither way."""
    text = (CHECKS.parent / "pyproject.toml").read_text()
    listed = re.search(r'containers = \["bisection"\].*?layers = \[(.*?)\]', text, re.S)[1]
    layers = [layer.split(" | ") for layer in reversed(re.findall(r'"(.+)"', listed))]
    table = (CHECKS / "bisection" / "README.md").read_text().partition("\n\n- ")[0]
    rows = re.findall(r"^\| \[?`(\w+)(?:/|\.py)`", table, re.M)
    place = {name: number for number, layer in enumerate(layers) for name in layer}
    assert rows == sorted(rows, key=place.__getitem__)
    assert len(rows) == len(place)
