"""Documents beside their schemas."""

import copy
import functools
import json

from jsonschema import Draft202012Validator

from bisection.report.schemas import SCHEMAS

ROWS = 30  # of a comparison, that are validated


def closed(schema):
    """The schema, by which objects have the fields that it names and no others."""
    if isinstance(schema, dict):
        schema = {name: closed(part) for name, part in schema.items()}
        if schema.get("type") == "object" and isinstance(schema.get("properties"), dict):
            schema.setdefault("additionalProperties", False)
    return [closed(part) for part in schema] if isinstance(schema, list) else schema


@functools.cache
def validator(name):
    schema = SCHEMAS[name][1]()
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(closed(schema))


def valid(document, name=None):
    """The content of a document, as a dictionary or as text, which is valid by its schema."""
    text = document if isinstance(document, str) else json.dumps(document, allow_nan=False)
    content = json.loads(text)
    name = name or content["schema"].removeprefix("bisection-")
    if "rows" in (part := copy.copy(content)):
        part["rows"] = part["rows"][:ROWS]
    errors = [
        f"{error.json_path}: {error.message[:300]}" for error in validator(name).iter_errors(part)
    ]
    assert errors == []
    return content
