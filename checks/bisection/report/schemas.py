"""JSON Schemas of documents, made of the dataclasses and TypedDicts that have their fields.

A comment behind a field, or above it, is its description. A reason (core/reasons) is an object with
its `code`; of its fields, those that have their usual value are left out.
"""

import inspect
import json
import re
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

from bisection.core.reasons.base import Reason
from bisection.kernels import results
from bisection.nights import NightRow
from bisection.report.documents import (
    ComparisonDocument,
    DoctorDocument,
    Document,
    HistoryDocument,
    ReferencesDocument,
    SessionsDocument,
    VerdictDocument,
)
from bisection.report.probe_lines import SiteCheckDocument
from bisection.sites.cluster import facts
from bisection.store import sample_file

DIALECT = "https://json-schema.org/draft/2020-12/schema"
SIMPLE = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    types.NoneType: "null",
}

Schema = dict[str, Any]

DOCUMENTS: tuple[type[Document], ...] = (
    VerdictDocument,
    ComparisonDocument,
    HistoryDocument,
    SessionsDocument,
    ReferencesDocument,
    SiteCheckDocument,
    DoctorDocument,
)


def schema_of(kind: type[Document]) -> Schema:
    """The schema of a document."""
    named: dict[str, Schema] = {}
    begin = {"schema": {"const": f"bisection-{kind.name}"}, "version": {"const": kind.version}}
    return _whole(f"bisection-{kind.name}, version {kind.version}", kind, begin, named)


def schema_of_record(title: str, kind: type) -> Schema:
    """The schema of a record without a name of its own."""
    return _whole(title, kind, {}, {})


def _of_file(module: types.ModuleType, name: str) -> Schema:
    return json.loads(Path(str(module.__file__)).with_name(name).read_text(encoding="utf-8"))


# name -> about it, how it is made
SCHEMAS: dict[str, tuple[str, Callable[[], Schema]]] = {
    **{kind.name: (str(kind.__doc__), partial(schema_of, kind)) for kind in DOCUMENTS},
    "night": (
        "A line of stored nights: `bisection export --json`.",
        partial(schema_of_record, "A metric of a test in one session", NightRow),
    ),
    "site": (
        "The facts of a cluster: site-configs/NAME.json.",
        partial(schema_of_record, f"The facts of a site, version {facts.VERSION}", facts.SiteFacts),
    ),
    "samples": (
        "A line of the record of a session: samples.jsonl of a results folder.",
        partial(_of_file, sample_file, "sample.schema.json"),
    ),
    "result": (
        "The result of a kernel: result.json.",
        partial(_of_file, results, "result.schema.json"),
    ),
}


def _whole(title: str, kind: type, begin: Schema, named: dict[str, Schema]) -> Schema:
    body = _object(kind, named)
    body["properties"] = begin | body["properties"]
    body["required"] = [*begin, *body["required"]]
    return {"$schema": DIALECT, "title": title, **body, "$defs": named}


def _schema(hint: Any, named: dict[str, Schema]) -> Schema:
    """The schema of a type; those of classes are added to `named`."""
    origin, args = get_origin(hint), get_args(hint)
    if hint is Any:
        return {}
    if hint in SIMPLE:
        return {"type": SIMPLE[hint]}
    if origin in (Union, types.UnionType):
        return {"anyOf": [_schema(arg, named) for arg in args]}
    if origin is Literal:
        return {"enum": [*args]}
    if origin is tuple and args[-1] is not Ellipsis:
        return _tuple(args, named)
    if origin and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": _schema(args[1], named)}
    if origin and issubclass(origin, Sequence):
        return {"type": "array", "items": _schema(args[0], named)}
    if origin is None and issubclass(hint, Enum):
        return {"enum": [each.value for each in hint]}
    if hasattr(hint, "_fields"):
        return _tuple([*_hints(hint).values()], named)
    if not (is_dataclass(hint) or is_typeddict(hint)):
        raise TypeError(f"{hint}: JSON has no such type")
    if hint.__name__ not in named:
        named[hint.__name__] = {}  # while it is made: it may have itself
        named[hint.__name__] = _object(hint, named)
    return {"$ref": f"#/$defs/{hint.__name__}"}


def _tuple(kinds: Sequence[Any], named: dict[str, Schema]) -> Schema:
    items = [_schema(kind, named) for kind in kinds]
    return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}


def _object(kind: type, named: dict[str, Schema]) -> Schema:
    """The schema of a class with fields."""
    about, hints = _comments(kind), _hints(kind)
    if is_typeddict(kind):
        required = [name for name in hints if name in getattr(kind, "__required_keys__", ())]
    else:
        hints = {part.name: hints[part.name] for part in fields(kind)}
        required = [*hints]
    properties: Schema = {}
    if issubclass(kind, Reason):
        usual = {part.name for part in fields(kind) if part.default is not MISSING}
        code = {"const": kind.code} if kind.code else {"type": "string"}
        properties, required = {"code": code}, ["code", *(n for n in required if n not in usual)]
    for name, hint in hints.items():
        comment = {"description": about[name]} if about.get(name) else {}
        properties[name] = _schema(hint, named) | comment
    # Of a reason without a code, JSON has a kind with fields of its own.
    closed = {"additionalProperties": True} if issubclass(kind, Reason) and not kind.code else {}
    text = " ".join((kind.__doc__ or "").partition("\n\n")[0].split())
    made = text.startswith(f"{kind.__name__}(")  # by `dataclass`, of one without
    about_it = {"description": text} if text and not made else {}
    return {"type": "object", **about_it, "properties": properties, "required": required} | closed


def _hints(kind: type) -> dict[str, Any]:
    network = vars(import_module("interconnect.network_verdict"))
    return get_type_hints(kind, localns={"Interconnect": network["Interconnect"]})


def _comments(kind: type) -> dict[str, str]:
    """The comments at the fields of a class, and of those that it extends."""
    texts: dict[str, str] = {}
    # A TypedDict does not say which ones it extends.
    for base in reversed(
        [k for k in kind.__mro__ if k.__module__.startswith(("bisection", "int"))]
    ):
        above: list[str] = []
        for line in inspect.getsource(base).splitlines():
            field, comment = re.match(r"    (\w+): ", line), re.search(r"(?:^ {4}|  )# (.*)", line)
            if field:
                texts[field[1]] = " ".join([*above, comment[1] if comment else ""]).strip()
            above = [*above, comment[1]] if comment and not field else []
    return texts
