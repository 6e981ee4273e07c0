"""All thresholds of verdicts, each with its unit and reason: the rows of thresholds.csv.

The report prints that table whole, under "How it was judged".
"""

import csv
import json
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace

MAD = 1.4826  # standard deviations per median absolute deviation, of the normal distribution
with open(Path(__file__).with_suffix(".csv"), newline="", encoding="utf-8") as file:
    ROWS = {row["name"]: row for row in csv.DictReader(file)}
VALUES = {name: json.loads(row["value"]) for name, row in ROWS.items()}
LIMITS = SimpleNamespace(**VALUES)


def listed() -> dict[str, list[tuple[str, str, str]]]:
    """All thresholds: subject -> [(name, value with unit, reason)]."""
    subjects = defaultdict(list)
    for name, row in ROWS.items():
        value = f"{VALUES[name]:g} {row['unit']}"
        subjects[row["about"]].append((name.replace("_", " "), value, row["reason"]))
    return subjects
