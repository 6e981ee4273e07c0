"""Tests of a run with the record of their launch, made up from one list of fields."""

import dataclasses

from bisection.kernels.launch_record import LaunchRecord
from bisection.runs.model import TestResult

RECORDED = {item.name for item in dataclasses.fields(LaunchRecord)}


def _split(facts):
    record = {name: facts.pop(name) for name in RECORDED & facts.keys()}
    return {name: tuple(v) if isinstance(v, list) else v for name, v in record.items()}


def result_of(*place, **facts):
    """A TestResult; facts of its launch go into the record."""
    record = LaunchRecord(**_split(facts))
    return TestResult(*place, **facts, record=record)


def changed(test, /, **facts):
    """The TestResult with other values, also of the record."""
    record = dataclasses.replace(test.record, **_split(facts))
    return dataclasses.replace(test, **facts, record=record)
