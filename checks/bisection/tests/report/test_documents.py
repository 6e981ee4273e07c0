"""What --json prints, by schemas of its own. `command_line` and `valid` compare all that tests make
with these."""

import json

import numpy as np
import pytest
from made_up import store, tables
from validated import valid, validator

from bisection.report.schemas import DOCUMENTS, SCHEMAS


def test_each_document_has_a_schema_with_descriptions(command_line):
    code, text, _ = command_line("schema")
    assert (code, [line.split()[0] for line in text.splitlines()]) == (0, [*SCHEMAS])
    for kind in DOCUMENTS:
        code, text, _ = command_line("schema", kind.name)
        schema = json.loads(text)
        assert (code, schema["title"]) == (0, f"bisection-{kind.name}, version {kind.version}")
        assert schema["required"][:2] == ["schema", "version"]
    _, text, _ = command_line("schema", "verdict")
    known = json.loads(text)["$defs"]["LaunchRecord"]["properties"]
    assert known["geometry"]["description"] == "2x8x1: nodes, ranks per node, threads per rank"
    assert known["seconds"]["description"].startswith("That its job held them, without the queue")
    _, text, _ = command_line("schema", "site")
    assert "draft" not in json.loads(text)["required"]


def test_an_unknown_schema_is_one_line(command_line):
    code, text, errors = command_line("schema", "verdicts")
    assert (code, text, errors.count("\n")) == (2, "", 1)
    assert "'verdicts': no such schema; there are verdict, comparison, " in errors


@pytest.fixture
def home(home, rng):
    """Sixty nights, in the last thirty of which one of ten metrics is slower."""
    values = 1e-3 * np.exp(rng.normal(0, 0.01, (10, 60)))
    values[3, 30:] *= 1.3
    store(home / "store.db", tables({"transpose": values})).close()
    return home


def test_a_history_has_what_its_text_has(home, command_line):
    code, text, _ = command_line("history")
    known = json.loads(command_line("history", "--json")[1])
    (event,) = [event for event in known["events"] if event["alarm"]]
    assert (code, event["state"], event["metrics"]) == (4, "worse", {"transpose": [1, 10]})
    assert [point["method"] for point in event["points"]] == ["m3"]
    assert event["session"][:8] in text
    assert (known["sessions"][30], known["metrics"]) == (event["session"], 10)
    assert len(event["after"]) == 30


@pytest.mark.parametrize("words", ["sessions", "sessions list", "compare latest~1 latest"])
def test_json_stands_alone_on_standard_output(home, words, command_line):
    code, text, errors = command_line(*words.split())
    again, printed, more = command_line(*words.split(), "--json")
    assert (again, more) == (code, errors)
    assert printed != text
    assert json.loads(printed)["version"] == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("sessions --json tag a=b latest", "only the list is printed as JSON, not `tag`"),
        ("history --json --accept 0000001e", "alone is printed as JSON, no --accept or --revoke"),
        ("verdict --json no/such/folder", "no verdict in no/such/folder: No such file"),
        ("compare --json latest", "the following arguments are required: BEFORE, AFTER"),
    ],
)
def test_what_has_no_json_is_one_line_and_does_nothing(home, words, says, command_line):
    before = command_line("sessions", "--json"), command_line("history", "--json")
    code, text, errors = command_line(*words.split())
    assert (code, text, errors.count("\n")) == (2, "", 1)
    assert says in errors
    assert before == (command_line("sessions", "--json"), command_line("history", "--json"))


def test_a_document_that_is_not_of_its_schema_is_told(home, command_line):
    known = json.loads(command_line("sessions", "--json")[1])
    valid(known)
    of_first = known["sessions"][0]
    for wrong in ({"more": 1}, {"start": "now"}, {"changed": {"MPI": ["a"]}}, {"verdict": "no"}):
        changed = {**known, "sessions": [{**of_first, **wrong}]}
        assert len([*validator("sessions").iter_errors(changed)]) == 1
    del known["forgotten"]
    assert len([*validator("sessions").iter_errors(known)]) == 1
