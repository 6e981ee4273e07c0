"""The table of thresholds, and the code that reads it."""

import ast

from running import CHECKS

from bisection.core.thresholds import VALUES


def test_each_threshold_is_used_and_each_name_is_a_row():
    """No type checker knows the rows of a CSV file."""
    files = [file for file in CHECKS.rglob("*.py") if "tests" not in file.parts]
    nodes = [node for file in files for node in ast.walk(ast.parse(file.read_text()))]
    read = [node for node in nodes if isinstance(node, ast.Attribute)]
    used = {node.attr for node in read if getattr(node.value, "id", "") == "LIMITS"}
    assert used - {"items"} == {*VALUES}
