"""Stored nights as CSV (RFC 4180), as JSON lines and as Parquet, row by row."""

import csv
import io
import itertools
import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import fields
from datetime import datetime
from pathlib import Path

from bisection.core import paths
from bisection.core.verdicts import BisectionError
from bisection.nights import NightRow

NAMES = [part.name for part in fields(NightRow)]
TOGETHER = 10_000  # rows that are written at once


def csv_text(rows: Iterable[NightRow]) -> Iterator[str]:
    """A head and a line per row, in parts. Tags are NAME=VALUE, with semicolons between, hosts have
    blanks between; what is not known is empty."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\r\n")
    writer.writerow(NAMES)
    for some in _parts(rows):
        for row in some:
            tags = "; ".join(f"{name}={value}" for name, value in row.tags.items())
            writer.writerow((vars(row) | {"tags": tags, "hosts": " ".join(row.hosts)}).values())
        yield buffer.getvalue()
        buffer.seek(0)
        buffer.truncate()
    yield buffer.getvalue()  # the head, of no row


def json_text(rows: Iterable[NightRow]) -> Iterator[str]:
    """An object per row and line (JSON lines), in parts."""
    for some in _parts(rows):
        yield "".join(json.dumps(vars(row), allow_nan=False) + "\n" for row in some)


def write_parquet(rows: Iterable[NightRow], path: Path) -> None:
    """Writes a Parquet file, whole. BisectionError: pyarrow is not installed."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise BisectionError(
            "--parquet needs the Python package pyarrow, which is not installed: "
            f"{sys.executable} -m pip install pyarrow"
        ) from None
    kinds = {
        **dict.fromkeys(("value", "lower", "upper", "disturbed"), pyarrow.float64()),
        "date": pyarrow.timestamp("s", "UTC"),
        "tags": pyarrow.map_(pyarrow.string(), pyarrow.string()),
        "hosts": pyarrow.list_(pyarrow.string()),
    }
    form = pyarrow.schema([(name, kinds.get(name, pyarrow.string())) for name in NAMES])
    with paths.replacing(path) as temporary, parquet.ParquetWriter(temporary, form) as file:
        for some in _parts(rows):
            file.write_table(pyarrow.table(_columns(some), form))


def _columns(rows: Iterable[NightRow]) -> dict[str, list[object]]:
    columns: dict[str, list[object]] = {name: [] for name in NAMES}
    for row in rows:
        values = vars(row) | {
            "date": datetime.fromisoformat(row.date.replace("Z", "+00:00")),
            "tags": [*row.tags.items()],
        }
        for name in NAMES:
            columns[name].append(values[name])
    return columns


def _parts(rows: Iterable[NightRow]) -> Iterator[list[NightRow]]:
    rows = iter(rows)
    while some := [*itertools.islice(rows, TOGETHER)]:
        yield some
