"""Every defect of a reference file is made once, and must be told with its line."""

import textwrap

import pytest
from houses import told
from running import SITES

from bisection.core import paths
from bisection.kernels import tables
from bisection.report.words import defect_line
from bisection.sites import reference_rules
from bisection.sites.site import Site

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

OF_METHODS = """\
transpose:
  $index: [$partition, geometry, method]
  localhost:default:
    .*:
"""
OF_METHOD = """\
      %s: {ratio_alltoallv: [1, -0.5, 0.5], ratio_serial: [1, -0.5, 0.5], exchange_share: [1, 0, 1]}
"""


# (what is replaced, by what, line by its text, what is told)
REFERENCE_DEFECTS = [
    ("provenance: {date", "x: &x {date", "x: &x", "there is no check x: there are eigen, eigen_"),
    ("date: 2026-11-21, ", "", "provenance", "provenance has no date"),
    ("[a]", "[]", "provenance", "provenance has no sessions"),
    ("[a]", "a", "provenance", "sessions is 'a', not a list"),
    (", lock: none", "", "provenance", "provenance has no lock"),
    ("network:", "transpose:", "transpose:\n  $index: [$partition, m", "transpose is there twice"),
    ("(p2p|shm)", "alltoallv", "alltoallv: {ratio_serial: [0.7", "there twice, first in line 7"),
    ("ratio_serial: [0.8", "ratio_alltoallv: [0.8", "[0.8", "key ratio_alltoallv is there twice"),
    ("network:", "on:", "on:", "key on is bool in YAML: quote it"),
    ("(p2p|shm)", "No", "No:", "key No is bool in YAML: quote it"),
    ("(p2p|shm)", "12", "12:", "YAML reads the key 12 as a number, not a string: quote it"),
    ("network:", "netwrk:", "netwrk:", "there is no check netwrk"),
    ("localhost:.*", "generc:.*", "generc", "generc:.* is no partition of network: there are"),
    ("  localhost:default", "  default", "  default", "default is no partition of transpose"),
    ("[$partition, method]", "[$partition, metod]", "metod", "$index of network has metod, which"),
    ("[$partition, method]", "[$part, method]", "$part,", "$index of network has $part, not $"),
    ("method]\n  localhost:.*", "$processor.cpus]\n  localhost:.*", "$processor", "has no cpus"),
    ("  $index: [$partition, method]\n", "", "network", "network has no $index"),
    ("[$partition, method]", "$partition", "$partition\n", "network has no $index, a list"),
    ("cnt40", "cnt41", "cnt41", "cnt41 is no case of transpose for partition localhost:default"),
    ("alltoallv: {ratio_serial", "altoall: {ratio_serial", "altoall", "altoall is no method of t"),
    ("(p2p|shm)", "(p2p", "(p2p:", "(p2p is no regular expression: missing )"),
    ("(p2p|shm)", "shm|direct", "shm|direct", "also matches shm-padded, as ReFrame puts ^ and $"),
    ("2x1", "two", "two:", "two is no geometry: those are [nodes x]ranks x threads"),
    ("2x1", "2x1x1x1", "2x1x1x1", "2x1x1x1 is no geometry"),
    ("2x1", "2", "2:", "YAML reads the key 2 as a number"),
    ("2x1", "2y.*", "2y", "2y.* is no geometry"),
    ("(p2p|shm)", ".*", ".*: {ratio_alltoallv: [1.0, -0.5, 0.5], ", ".* is there twice"),
    ("(p2p|shm)", ".+", ".*: {ratio_alltoallv: [1.0, -0.5, 0.5], ", ".* is never reached: "),
    ("ratio_serial: [0.7", "ratio_sereal: [0.7", "sereal", "is no metric of transpose: such are r"),
    ("time_8B", "time_9B", "time_9B", "time_9B is no metric of network"),
    ("[1.0e-6", "[1.0e6", "[1.0e6", "time_8B: the reference '1.0e6' is text, not a number"),
    ("[0.7, -0.5", "[0.7, off", "[0.7, off", "ratio_serial: off is bool in YAML, in place of a"),
    ("[0.7, -0.5", "[0.7, [1]", "[0.7, [1]", "ratio_serial: a YAML seq, in place of a number"),
    ("[0.7, -0.5", f"[1{'0' * 400}, -0.5", "[100", "ratio_serial: a YAML int, in place of a num"),
    ("[0.7, -0.5", "[0.7, null", "[0.7", "ratio_serial: the lower bound is open"),
    ("[0.7, -0.5", "[.nan, -0.5", ".nan", "ratio_serial: the reference nan is not a finite number"),
    ("[0.7, -0.5", "[0, -0.5", "[0,", "ratio_serial: the reference 0 is not above zero"),
    ("[0.7, -0.5, 0.5]", "[0.7, 0.5, -0.5]", "[0.7", "the lower bound 0.5 is not a fraction betw"),
    ("[0.7, -0.5, 0.5]", "[0.7, -1.0, 1]", "[0.7", "the lower bound -1.0 is not a fraction betw"),
    ("[0.7, -0.5, 0.5]", "[0.7, -0.5, -0.1]", "[0.7", "the upper bound -0.1 is below zero"),
    ("[0.7, -0.5, 0.5]", "[0.7, -0.5]", "[0.7", "is not [value, lower, upper]"),
    ("[0.7, -0.5, 0.5]", "0.7", "0.7", "ratio_serial: this is not [reference, lower bound, upper"),
    ("[0.7, -0.5, 0.5]", "[$xfail, why]", "[$xfail", "ratio_serial: this is not [reference"),
    ("0.5, ratio]", "0.5, s]", "0.5, s]", "the unit is s, but is measured in ratio"),
    ("0.5, s]", "0.5, ms]", "0.5, ms]", "time_8B: the unit is ms, but is measured in s"),
    ("{ratio_serial: [0.7, -0.5, 0.5]}", "[1]", "[1]", "(p2p|shm) must be a mapping of metrics"),
    ("      .*: *all\n", "      .*: 1\n", ".*: 1", "must be a mapping of method of metrics"),
    ("{ratio_serial: [0.7, -0.5, 0.5]}", "{}", "{}", "there is no reference of transpose for p"),
    ("      .*: *all\n", "      {}\n", "    .*:\n      {}", "there is no reference of transpose f"),
]  # fmt: skip


def examine(folder, text, site, recorded=None):
    file = folder / "localhost.yaml"
    file.write_text(text)
    return reference_rules.reference_defects(file, site, recorded)


class TestReferences:
    def test_real_ones_are_good(self, site):
        assert (
            reference_rules.reference_defects(
                paths.ROOT / "reference" / "systems" / "localhost.yaml", site
            )
            == []
        )

    def test_good_ones(self, tmp_path, silent):
        assert examine(tmp_path, TREE, silent) == []

    @pytest.mark.parametrize(("old", "new", "marker", "says"), REFERENCE_DEFECTS)
    def test_defect(self, tmp_path, silent, old, new, marker, says):
        assert old in TREE
        text = TREE.replace(old, new, 1)
        defects = [defect_line(defect) for defect in examine(tmp_path, text, silent)]
        line = text[: text.index(marker)].count("\n") + 1
        where = f"{tmp_path}/localhost.yaml:{line}: "
        assert [shown for shown in defects if shown.startswith(where) and says in shown], defects

    @pytest.mark.parametrize(
        ("text", "says"),
        [
            ("", "is not a mapping of checks"),
            ("- 1", "is not a mapping of checks"),
            ("a: [", "is not YAML: "),
            ("a: *b", "is not YAML: found undefined alias 'b'"),
            ("? [1, 2]\n: 3", "is not YAML: found unhashable key"),
            ("a: !x b", "is not YAML: could not determine a constructor"),
            ("&a {network: *a}", "network has no $index"),
            ("network: {$index: [[1]]}", "network has no $index"),
            ("network: {$index: [{a: b}], 1: 2}", "network has no $index"),
            ("network: {$index: [1]}", "network has no $index"),
            ("network:", "network is not a mapping"),
            ("a: \0", "is not YAML: unacceptable character"),
        ],
    )
    def test_what_is_not_a_reference_file(self, tmp_path, silent, text, says):
        assert says in told(examine(tmp_path, text, silent))

    def test_what_is_not_text(self, tmp_path, silent):
        file = tmp_path / "localhost.yaml"
        file.write_bytes(b"\xff\xfe\xff")
        assert "cannot be read: " in told(reference_rules.reference_defects(file, silent))

    def test_without_a_site(self, tmp_path):
        defects = examine(tmp_path, TREE.replace("0.6", "0.6e1"), None)
        assert "there is no site-configs/localhost.py" in told(defects)
        assert "the reference '0.6e1' is text" in told(defects)
        assert len(defects) == 2

    def test_site_that_does_not_load(self, tmp_path):
        broken = Site("localhost", SITES / "localhost.py")
        assert examine(tmp_path, TREE, broken) == []

    def test_recorded_metrics_exist(self, tmp_path, silent):
        text = TREE.replace("ratio_serial: [0.7", "hops: [7")
        assert "hops is no metric of transpose" in told(examine(tmp_path, text, silent))
        assert examine(tmp_path, text, silent, {"transpose": {"hops": "hops"}}) == []

    def test_known_failure_is_a_reference(self, tmp_path, silent):
        text = TREE.replace("[0.7, -0.5, 0.5]", "[$xfail, why, [0.7, -0.5, 0.5]]")
        assert examine(tmp_path, text, silent) == []
        text = TREE.replace("[0.7, -0.5, 0.5]", "[$xfail, why, [0.7, -0.5, off]]")
        assert "off is bool" in told(examine(tmp_path, text, silent))

    def test_numbered_methods_follow_from_the_machine(self, tmp_path, silent):
        npar = """
            npar:
              $index: [$partition, method]
              localhost:default:
                npar-96: {ratio_best: [1.0, -0.1, 0.1]}
                npar-.*: {ratio_best: [1.0, -0.1, 0.1]}
            """
        text = TREE + textwrap.dedent(npar)
        assert examine(tmp_path, text, silent) == []
        defects = examine(tmp_path, text.replace("npar-96", "npar96"), silent)
        assert "npar96 is no method of npar for partition localhost:default" in told(defects)
        assert "there are npar-N, emulated" in told(defects)

    def test_claimed_kinds_are_there(self, tmp_path, site):
        texts = told(examine(tmp_path, TREE, site))
        for check in ("md", "npar", "md_layout"):
            assert (
                f"it claims references, and {tmp_path}/localhost.yaml has none of {check}" in texts
            )
        assert "npar_best" not in texts  # groups are of no kind
        line = TREE[: TREE.index("network:")].count("\n") + 1
        assert f"localhost.yaml:{line}: localhost:default claims references" in texts
        assert "none of network for ratio_alltoallv_16B, ratio_alltoallv_32B" in texts

    @pytest.mark.parametrize(("renamed", "new"), [({}, True), ({"shm": "overlapp"}, False)])
    def test_method_without_a_reference_is_a_note_as_in_a_run(self, tmp_path, site, renamed, new):
        """The rule of a run, with the references of its test (checks/test_new_method.py)."""
        methods = [m for m in tables.methods("transpose") if m != "overlap"]
        lines = "".join(OF_METHOD % renamed.get(m, m) for m in methods)
        defects = examine(tmp_path, OF_METHODS + lines, site)
        notes = told([defect for defect in defects if defect.is_note])
        says = f"note: overlap is measured and verified, but not judged: {tmp_path}/localhost.yaml"
        assert (says in notes) == new
        assert notes.count("\n") == 0
        missed = "there is none of transpose for ratio_alltoallv"
        assert (missed in told(defects)) != new
