"""References are found as ReFrame finds them."""

import types

import pytest
import yaml
from reframe.core.pipeline import RegressionTestDict, RegressionTestPlugin, _KeyMatchingDict

from bisection.core import paths
from bisection.core.references import choose, lookup


@pytest.mark.parametrize("value", ["1x1", "1x16", "2x1", "shm", "", "a\n", "1x2"])
def test_a_key_is_chosen_as_by_reframe(value):
    keys = ["1x1|1x2", "2x1", ".x.*", "shm", "", "a"]
    table = _KeyMatchingDict(lambda _: None, {key: key for key in keys})
    assert choose(keys, value) == table[value]


def by_reframe(entry, case):
    """What ReFrame finds for a case of the doctor; {} where it finds nothing."""
    test = object.__new__(RegressionTestPlugin)
    processor = types.SimpleNamespace(
        **{n.removeprefix("$processor."): v for n, v in case.items() if n.startswith("$processor.")}
    )
    system = types.SimpleNamespace(name=case["$system"])
    partition = types.SimpleNamespace(fullname=case["$partition"], processor=processor)
    environ = types.SimpleNamespace(name=case["$environ"])
    attributes = {"current_system": system, "current_partition": partition}
    attributes |= {"current_environ": environ}
    attributes |= {n: v for n, v in case.items() if not n.startswith("$")}
    vars(test).update(attributes)
    try:
        return RegressionTestDict(entry)[test]
    except KeyError:
        return {}


TREE = """
$index: [$partition, geometry, case, method]
localhost:.*:
  1x2|2x1:
    cnt.*:
      alltoallv: {time: [1.0, -0.1, 0.1]}
      (p2p|shm): {time: [2.0, -0.1, 0.1]}
  .*:
    cnt40: {shm.*: {time: [3.0, -0.1, 0.1]}}
    .*: {.*: {time: [4.0, -0.1, 0.1]}}
"""


@pytest.mark.parametrize("partition", ["localhost:default", "other:default"])
@pytest.mark.parametrize("geometry", ["1x2", "2x1", "4x1"])
@pytest.mark.parametrize("case", ["cnt40", "cnt80", "silicon"])
@pytest.mark.parametrize("method", ["alltoallv", "shm", "shm-padded", "p2p"])
def test_a_tree_gives_what_it_gives_to_reframe(partition, geometry, case, method):
    names = {"$system": "localhost", "$partition": partition, "$environ": "system"}
    names |= {"geometry": geometry, "case": case, "method": method}
    entry = yaml.safe_load(TREE)
    assert lookup(entry, names) == by_reframe(entry, names)


def test_generic_references_are_those_that_reframe_finds(site):
    content = yaml.safe_load((paths.ROOT / "reference" / "systems" / "localhost.yaml").read_text())
    compared = 0
    for case in site.cases:
        entry = content.get(case["check"])
        references = lookup(entry, case)
        if entry and references is not None and case["geometry"] is not None:
            assert references == by_reframe(dict(entry), case), case
            compared += bool(references)
    assert compared > 100
