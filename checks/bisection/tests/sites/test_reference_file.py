"""Every defect of a reference file is made once, and must be reported with its line."""

import dataclasses
import json
import re
from types import SimpleNamespace

import pytest
import yaml
from reframe.core.pipeline import RegressionTestDict, RegressionTestPlugin, _KeyMatchingDict
from running import SITES

from bisection.core import reference_files
from bisection.core.reference_files import choose, lookup
from bisection.kernels import tables
from bisection.sites.reference_rules import reference_defects
from bisection.sites.site_files import Site


@pytest.fixture(scope="module")
def silent(site):
    """The site `localhost`, whose partition claims no references."""
    quiet = [{**p, "extras": {**p["extras"], "references": []}} for p in site.partitions]
    return dataclasses.replace(site, partitions=quiet)


TREE = """\
provenance: {date: 2026-11-21, sessions: [a], lock: none}
transpose:
  $index: [$partition, geometry, case, method]
  localhost:default:
    2x1:
      cnt40:
        alltoallv: {ratio_serial: [0.6, -0.5, 0.5]}
        (p2p|shm): {ratio_serial: [0.7, -0.5, 0.5]}
        .*: {ratio_alltoallv: [1.0, -0.5, 0.5], ratio_serial: [0.8, -0.5, 0.5]}
      .*: &all
        .*: {ratio_alltoallv: [1.0, -0.5, 0.5, ratio]}
    .*:
      .*: *all
network:
  $index: [$partition, method]
  localhost:.*:
    .*: {ratio_alltoallv_8B: [1.0, -0.5, 0.5], time_8B: [1.0e-6, -0.5, 0.5, s]}
"""

OF_METHOD = {key: [1, -0.5, 0.5] for key in ("ratio_alltoallv", "ratio_serial", "exchange_share")}

# (what is replaced, by what, line by its text, what the defect names)
DEFECTS = [
    ("date: 2026-11-21, ", "", "provenance", "provenance has no date"),
    ("[a]", "[]", "provenance", "provenance has no sessions"),
    ("network:", "transpose:", "transpose:\n  $index: [$partition, m", "is there twice"),
    ("(p2p|shm)", "alltoallv", "alltoallv: {ratio_serial: [0.7", "twice, first in line 7"),
    ("ratio_serial: [0.8", "ratio_alltoallv: [0.8", "[0.8", "twice, first in line 9"),
    ("(p2p|shm)", "No", "No:", "key 'No' is bool"),
    ("(p2p|shm)", "12", "12:", "key 12 is a number"),
    ("network:", "netwrk:", "netwrk:", "no check netwrk"),
    ("[$partition, method]", "[$partition, metod]", "metod", "$index of network has metod"),
    ("  $index: [$partition, method]\n", "", "network", "network has no $index"),
    ("[$partition, method]", "$partition", "$partition\n", "has no $index"),
    ("localhost:.*", "generc:.*", "generc", "is no partition of"),
    ("cnt40", "cnt41", "cnt41",
     "no case of transpose for partition localhost:default, geometry 2x1"),
    ("(p2p|shm)", "(p2p", "(p2p:", "(p2p is no regular expression"),
    ("(p2p|shm)", "shm|direct", "shm|direct", "also matches shm-padded"),
    ("(p2p|shm)", ".+", ".*: {ratio_alltoallv: [1.0, -0.5, 0.5], ", ".* is never reached"),
    ("ratio_serial: [0.7", "ratio_sereal: [0.7", "sereal", "ratio_sereal is no metric"),
    ("0.5, ratio]", "0.5, s]", "0.5, s]", "measured in ratio"),
    ("      .*: *all\n", "      .*: 1\n", ".*: 1", "by method, metrics"),
    ("{ratio_serial: [0.7, -0.5, 0.5]}", "{}", "{}", "no reference of"),
    ("      .*: *all\n", "      {}\n", "    .*:\n      {}", "no reference of"),
]  # fmt: skip

# (in place of a reference in line 8, kind of its fault)
FAULTS = [
    ("[1.0e6, -0.5, 0.5]", "is text, not a number"),
    ("[0.7, off, 0.5]", "is not a finite number"),
    ("[0.7, [1], 0.5]", "is not a finite number"),
    ("[.nan, -0.5, 0.5]", "is not a finite number"),
    ("[0.7, null, 0.5]", "is open"),
    ("[0, -0.5, 0.5]", "is not above zero"),
    ("[0.7, 0.5, -0.5]", "is not a fraction between -1 and 0"),
    ("[0.7, -1.0, 1]", "is not a fraction between -1 and 0"),
    ("[0.7, -0.5, -0.1]", "is below zero"),
    ("[0.7, -0.5]", "is not [value, lower, upper]"),
    ("0.7", "is not [value, lower, upper]"),
    ("[$xfail, why]", "is not [value, lower, upper]"),
    ("[$xfail, why, [0.7, -0.5, .inf]]", "is not a finite number"),
]

NO_REFERENCE_FILES = [
    (b"", "is not a mapping of checks"),
    (b"- 1", "is not a mapping of checks"),
    (b"network:", "is not a mapping"),
    (b"a: [", "is not YAML"),
    (b"? [1, 2]\n: 3", "is not YAML"),
    (b"a: \0", "is not YAML"),
    (b"\xff\xfe\xff", "cannot be read"),
    (b"&a {network: *a}", "has no $index"),
    (b"network: {$index: [{a: b}], 1: 2}", "has no $index"),
]


def examine(folder, text, site, recorded=None):
    """(line, text) of each defect of a reference file."""
    file = folder / "localhost.yaml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    defects = reference_defects(file, site, recorded)
    assert {defect.path for defect in defects} <= {str(file)}
    return [(defect.line, defect.text) for defect in defects]


class TestReferences:
    def test_good_ones(self, tmp_path, silent):
        assert examine(tmp_path, TREE, silent) == []
        for good in ("[$xfail, why, [0.7, -0.5, 0.5]]", "[0.7, 0, 0]"):
            assert examine(tmp_path, TREE.replace("[0.7, -0.5, 0.5]", good), silent) == []

    @pytest.mark.parametrize(("old", "new", "marker", "says"), DEFECTS)
    def test_defect(self, tmp_path, silent, old, new, marker, says):
        assert old in TREE
        text = TREE.replace(old, new, 1)
        line = text[: text.index(marker)].count("\n") + 1
        defects = examine(tmp_path, text, silent)
        assert any(at == line and says in text for at, text in defects), defects

    @pytest.mark.parametrize(("reference", "says"), FAULTS)
    def test_fault_of_a_reference(self, tmp_path, silent, reference, says):
        text = TREE.replace("[0.7, -0.5, 0.5]", reference)
        ((line, fault),) = examine(tmp_path, text, silent)
        assert (line, fault.startswith("ratio_serial: "), says in fault) == (8, True, True), fault

    @pytest.mark.parametrize(("content", "says"), NO_REFERENCE_FILES)
    def test_no_reference_file(self, tmp_path, silent, content, says):
        defects = examine(tmp_path, content, silent)
        assert any(says in text for _, text in defects), defects

    def test_without_checks(self, tmp_path):
        defects = examine(tmp_path, TREE.replace("0.6", "0.6e1"), None)
        absent, fault = (text for _, text in defects)
        assert "there is no site-configs/localhost.py" in absent
        assert fault.startswith("ratio_")
        # A site that does not load has none.
        assert examine(tmp_path, TREE, Site("localhost", SITES / "localhost.py")) == []

    def test_recorded_metrics_exist(self, tmp_path, silent):
        text = TREE.replace("ratio_serial: [0.7", "hops: [7")
        ((_, fault),) = examine(tmp_path, text, silent)
        assert "hops is no metric of" in fault
        assert examine(tmp_path, text, silent, {"hops": "hops"}) == []

    @pytest.mark.parametrize(("number", "known"), [("-96", True), ("-[48]", True), ("96", False)])
    def test_numbered_methods_follow_from_the_machine(self, tmp_path, silent, number, known):
        methods = {key: {"ratio_best": [1.0, -0.1, 0.1]} for key in (f"npar{number}", "npar-.*")}
        npar = {"$index": ["$partition", "method"], "localhost:default": methods}
        defects = examine(tmp_path, f"{TREE}npar: {json.dumps(npar)}", silent)
        assert [f"npar{number} is no method" in text for _, text in defects] == [True] * (not known)

    def test_claimed_kinds_are_there(self, tmp_path, site):
        defects = examine(tmp_path, TREE, site)
        lacks = re.compile(r"claims references, and there is none of (\w+) for (.*)")
        found = {lacks.search(text)[1]: (line, lacks.search(text)[2]) for line, text in defects}
        lines = {check: line for check, (line, _) in found.items()}
        assert {"md", "npar", "md_layout"} <= lines.keys()
        assert "npar_best" not in lines  # groups are of no kind
        assert lines["network"] == TREE[: TREE.index("network:")].count("\n") + 1
        assert found["network"][1].startswith("ratio_alltoallv_16B, ratio_alltoallv_32B")

    @pytest.mark.parametrize(("renamed", "new"), [({}, True), ({"shm": "overlapp"}, False)])
    def test_method_without_a_reference_is_a_note_as_in_a_run(self, tmp_path, site, renamed, new):
        """The rule of a run (commands/test_run_faults.py)."""
        names = [m for m in tables.methods("transpose") if m != "overlap"]
        methods = {renamed.get(name, name): OF_METHOD for name in names}
        index = {"$index": ["$partition", "geometry", "method"]}
        tree = {"transpose": {**index, "localhost:default": {".*": methods}}}
        texts = [text for _, text in examine(tmp_path, json.dumps(tree), site)]
        assert any(t.startswith("overlap is measured and verified, but not") for t in texts) == new
        assert any("there is none of transpose for" in text for text in texts) != new


# ---- references are found as ReFrame finds them ----


@pytest.mark.parametrize("value", ["1x1", "1x16", "2x1", "shm", "", "a\n", "1x2"])
def test_a_key_is_chosen_as_by_reframe(value):
    keys = ["1x1|1x2", ".x.*", "2x1", "shm", "", "a"]
    table = _KeyMatchingDict(lambda _: None, {key: key for key in keys})
    assert choose(keys, value) == table[value]


def by_reframe(entry, case):
    """What ReFrame finds for a case of the doctor; {} where it finds nothing."""
    test = object.__new__(RegressionTestPlugin)
    processor = SimpleNamespace(**{n.partition(".")[2]: v for n, v in case.items() if "." in n})
    vars(test).update(
        {name: value for name, value in case.items() if name[0] != "$"},
        current_system=SimpleNamespace(name=case["$system"]),
        current_partition=SimpleNamespace(fullname=case["$partition"], processor=processor),
        current_environ=SimpleNamespace(name=case["$environ"]),
    )
    try:
        return RegressionTestDict(entry)[test]
    except KeyError:
        return {}


# Its branch of cnt40 has nothing for shm-padded.
WITH_A_GAP = TREE.replace(".*: {ratio_alltoallv: [1.0, -0.5, 0.5], ", "md: {")


@pytest.mark.parametrize("text", [None, WITH_A_GAP], ids=["localhost", "gap"])
def test_references_are_those_that_reframe_finds(site, text):
    content = yaml.safe_load(text or reference_files.path("localhost").read_text())
    cases = [c for c in site.cases if c["check"] in content and c["geometry"] is not None]
    cases += [{**c, **e} for c in cases for e in ({"geometry": "2x1"}, {"$partition": "a:b"})]
    known = [lookup(content[case["check"]], case) for case in cases]
    assert known == [by_reframe(dict(content[case["check"]]), case) for case in cases]
    assert any(known)
