"""Every defect of a reference file is made once, and must be reported with its line."""

import dataclasses
import json
from types import SimpleNamespace

import pytest
import yaml
from reframe.core.pipeline import RegressionTestDict, RegressionTestPlugin, _KeyMatchingDict
from running import SITES

from bisection.core import references
from bisection.core.reasons import Code
from bisection.core.references import choose, lookup
from bisection.kernels import tables
from bisection.sites.reference_rules import reference_defects
from bisection.sites.site import Site


@pytest.fixture(scope="module")
def silent(site):
    """The site `localhost`, whose partition claims no references."""
    quiet = [
        {**partition, "extras": {**partition["extras"], "references": []}}
        for partition in site.partitions
    ]
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

# (what is replaced, by what, line by its text, kind of the defect, its values)
DEFECTS = [
    ("date: 2026-11-21, ", "", "provenance", Code.PROVENANCE_LACKS, {"part": "date"}),
    ("[a]", "[]", "provenance", Code.PROVENANCE_LACKS, {"part": "sessions"}),
    ("network:", "transpose:", "transpose:\n  $index: [$partition, m", Code.KEY_TWICE, {}),
    ("(p2p|shm)", "alltoallv", "alltoallv: {ratio_serial: [0.7", Code.KEY_TWICE, {"first": 7}),
    ("ratio_serial: [0.8", "ratio_alltoallv: [0.8", "[0.8", Code.KEY_TWICE, {"first": 9}),
    ("(p2p|shm)", "No", "No:", Code.KEY_KIND, {"key": "No", "kind": "bool"}),
    ("(p2p|shm)", "12", "12:", Code.KEY_KIND, {"key": 12}),
    ("network:", "netwrk:", "netwrk:", Code.CHECK_UNKNOWN, {"check": "netwrk"}),
    ("[$partition, method]", "[$partition, metod]", "metod", Code.INDEX_UNKNOWN, {"name": "metod"}),
    ("  $index: [$partition, method]\n", "", "network", Code.NO_INDEX, {"check": "network"}),
    ("[$partition, method]", "$partition", "$partition\n", Code.NO_INDEX, {}),
    ("localhost:.*", "generc:.*", "generc", Code.KEY_UNKNOWN, {"name": "partition"}),
    ("cnt40", "cnt41", "cnt41", Code.KEY_UNKNOWN,
     {"name": "case", "branch": "transpose for partition localhost:default, geometry 2x1"}),
    ("(p2p|shm)", "(p2p", "(p2p:", Code.KEY_NO_REGEX, {"key": "(p2p"}),
    ("(p2p|shm)", "shm|direct", "shm|direct", Code.KEY_TAKES_MORE, {"more": ["shm-padded"]}),
    ("(p2p|shm)", ".+", ".*: {ratio_alltoallv: [1.0, -0.5, 0.5], ", Code.KEY_UNREACHED,
     {"key": ".*"}),
    ("ratio_serial: [0.7", "ratio_sereal: [0.7", "sereal", Code.METRIC_UNKNOWN, {}),
    ("0.5, ratio]", "0.5, s]", "0.5, s]", Code.METRIC_UNIT, {"measured": "ratio"}),
    ("      .*: *all\n", "      .*: 1\n", ".*: 1", Code.BRANCH_NO_MAPPING,
     {"by": ["method", "metrics"]}),
    ("{ratio_serial: [0.7, -0.5, 0.5]}", "{}", "{}", Code.BRANCH_EMPTY, {}),
    ("      .*: *all\n", "      {}\n", "    .*:\n      {}", Code.BRANCH_EMPTY, {}),
]  # fmt: skip

# (in place of a reference in line 8, kind of its fault)
FAULTS = [
    ("[1.0e6, -0.5, 0.5]", Code.REFERENCE_TEXT),
    ("[0.7, off, 0.5]", Code.REFERENCE_NOT_FINITE),
    ("[0.7, [1], 0.5]", Code.REFERENCE_NOT_FINITE),
    ("[.nan, -0.5, 0.5]", Code.REFERENCE_NOT_FINITE),
    ("[0.7, null, 0.5]", Code.REFERENCE_OPEN),
    ("[0, -0.5, 0.5]", Code.REFERENCE_NOT_ABOVE_ZERO),
    ("[0.7, 0.5, -0.5]", Code.LOWER_BOUND_RANGE),
    ("[0.7, -1.0, 1]", Code.LOWER_BOUND_RANGE),
    ("[0.7, -0.5, -0.1]", Code.UPPER_BOUND_RANGE),
    ("[0.7, -0.5]", Code.REFERENCE_SHAPE),
    ("0.7", Code.REFERENCE_SHAPE),
    ("[$xfail, why]", Code.REFERENCE_SHAPE),
    ("[$xfail, why, [0.7, -0.5, .inf]]", Code.REFERENCE_NOT_FINITE),
]

NO_REFERENCE_FILES = [
    (b"", Code.NOT_A_MAPPING),
    (b"- 1", Code.NOT_A_MAPPING),
    (b"network:", Code.CHECK_NO_MAPPING),
    (b"a: [", Code.NOT_YAML),
    (b"? [1, 2]\n: 3", Code.NOT_YAML),
    (b"a: \0", Code.NOT_YAML),
    (b"\xff\xfe\xff", Code.FILE_UNREADABLE),
    (b"&a {network: *a}", Code.NO_INDEX),
    (b"network: {$index: [{a: b}], 1: 2}", Code.NO_INDEX),
]


def examine(folder, text, site, recorded=None):
    """(line, reason) of each defect of a reference file."""
    file = folder / "localhost.yaml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    defects = reference_defects(file, site, recorded)
    assert {defect.path for defect in defects} <= {str(file)}
    return [(defect.line, defect.reason) for defect in defects]


def codes(defects):
    return [reason.code for _, reason in defects]


class TestReferences:
    def test_good_ones(self, tmp_path, silent):
        assert examine(tmp_path, TREE, silent) == []
        for good in ("[$xfail, why, [0.7, -0.5, 0.5]]", "[0.7, 0, 0]"):
            assert examine(tmp_path, TREE.replace("[0.7, -0.5, 0.5]", good), silent) == []

    @pytest.mark.parametrize(("old", "new", "marker", "code", "values"), DEFECTS)
    def test_defect(self, tmp_path, silent, old, new, marker, code, values):
        assert old in TREE
        text = TREE.replace(old, new, 1)
        line = text[: text.index(marker)].count("\n") + 1
        defects = examine(tmp_path, text, silent)
        there = [reason for at, reason in defects if (at, reason.code) == (line, code)]
        assert any(values.items() <= reason.values.items() for reason in there), defects

    @pytest.mark.parametrize(("reference", "code"), FAULTS)
    def test_fault_of_a_reference(self, tmp_path, silent, reference, code):
        text = TREE.replace("[0.7, -0.5, 0.5]", reference)
        ((line, reason),) = examine(tmp_path, text, silent)
        assert (line, reason.code, reason["metric"]) == (8, Code.METRIC_REFERENCE, "ratio_serial")
        assert reason["fault"]["code"] == code

    @pytest.mark.parametrize(("content", "code"), NO_REFERENCE_FILES)
    def test_no_reference_file(self, tmp_path, silent, content, code):
        assert code in codes(examine(tmp_path, content, silent))

    def test_without_checks(self, tmp_path):
        defects = examine(tmp_path, TREE.replace("0.6", "0.6e1"), None)
        assert codes(defects) == [Code.NO_SITE_FILE, Code.METRIC_REFERENCE]
        # A site that does not load has none.
        assert examine(tmp_path, TREE, Site("localhost", SITES / "localhost.py")) == []

    def test_recorded_metrics_exist(self, tmp_path, silent):
        text = TREE.replace("ratio_serial: [0.7", "hops: [7")
        assert codes(examine(tmp_path, text, silent)) == [Code.METRIC_UNKNOWN]
        assert examine(tmp_path, text, silent, {"hops": "hops"}) == []

    @pytest.mark.parametrize(("number", "known"), [("-96", True), ("-[48]", True), ("96", False)])
    def test_numbered_methods_follow_from_the_machine(self, tmp_path, silent, number, known):
        methods = {key: {"ratio_best": [1.0, -0.1, 0.1]} for key in (f"npar{number}", "npar-.*")}
        npar = {"$index": ["$partition", "method"], "localhost:default": methods}
        defects = examine(tmp_path, f"{TREE}npar: {json.dumps(npar)}", silent)
        assert codes(defects) == ([] if known else [Code.KEY_UNKNOWN])

    def test_claimed_kinds_are_there(self, tmp_path, site):
        defects = examine(tmp_path, TREE, site)
        assert set(codes(defects)) == {Code.CASES_NOT_COVERED}
        lines = {reason["check"]: line for line, reason in defects}
        assert {"md", "npar", "md_layout"} <= lines.keys()
        assert "npar_best" not in lines  # groups are of no kind
        assert lines["network"] == TREE[: TREE.index("network:")].count("\n") + 1
        (missing,) = (reason for _, reason in defects if reason["check"] == "network")
        assert missing["metrics"][:2] == ["ratio_alltoallv_16B", "ratio_alltoallv_32B"]

    @pytest.mark.parametrize(("renamed", "new"), [({}, True), ({"shm": "overlapp"}, False)])
    def test_method_without_a_reference_is_a_note_as_in_a_run(self, tmp_path, site, renamed, new):
        """The rule of a run (commands/test_run_faults.py)."""
        names = [m for m in tables.methods("transpose") if m != "overlap"]
        methods = {renamed.get(name, name): OF_METHOD for name in names}
        index = {"$index": ["$partition", "geometry", "method"]}
        tree = {"transpose": {**index, "localhost:default": {".*": methods}}}
        of_check = [
            (reason.code, reason["method"])
            for _, reason in examine(tmp_path, json.dumps(tree), site)
            if "transpose" in (reason["check"], reason["branch"]) or reason["method"]
        ]
        assert ((Code.METHOD_NOT_JUDGED, "overlap") in of_check) == new
        assert ((Code.CASES_NOT_COVERED, None) in of_check) != new


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
    content = yaml.safe_load(text or references.path("localhost").read_text())
    cases = [c for c in site.cases if c["check"] in content and c["geometry"] is not None]
    cases += [{**c, **e} for c in cases for e in ({"geometry": "2x1"}, {"$partition": "a:b"})]
    known = [lookup(content[case["check"]], case) for case in cases]
    assert known == [by_reframe(dict(content[case["check"]]), case) for case in cases]
    assert any(known)
