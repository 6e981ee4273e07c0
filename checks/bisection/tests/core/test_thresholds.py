"""The table of thresholds, and the code that reads it."""

import re

from running import CHECKS

from bisection.core.thresholds import VALUES


def test_each_threshold_is_used_and_each_name_is_a_row():
    """No type checker knows the rows of a CSV file."""
    files = [file for file in CHECKS.rglob("*.py") if "tests" not in file.parts]
    text = "\n".join(file.read_text() for file in files)
    assert {*re.findall(r"\bLIMITS\.(?!items\b)([a-z]\w*[a-z0-9])\b", text)} == {*VALUES}
