"""All thresholds of verdicts, each with its unit and reason: the rows of thresholds.csv.

The report prints that table whole, under "How it was judged".
"""

import csv
import json
from dataclasses import field, make_dataclass
from pathlib import Path

MAD = 1.4826  # standard deviations per median absolute deviation, of the normal distribution
with open(Path(__file__).with_suffix(".csv"), newline="", encoding="utf-8") as file:
    ROWS = {row["name"]: row for row in csv.DictReader(file)}
VALUES = {name: json.loads(row["value"]) for name, row in ROWS.items()}
# A field per threshold.
Thresholds = make_dataclass(
    "Thresholds",
    ((name, type(value), field(default=value)) for name, value in VALUES.items()),
    frozen=True,
    namespace={"__module__": __name__},
)
LIMITS = Thresholds()


def listed(limits: Thresholds = LIMITS) -> list[tuple[str, float, str, str]]:
    """All thresholds: [(name, value, unit, reason)]."""
    return [
        (name.replace("_", " "), getattr(limits, name), row["unit"], row["reason"])
        for name, row in ROWS.items()
    ]
