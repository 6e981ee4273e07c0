"""`bisection references`: made from stored sessions, and kept true."""

import argparse
import contextlib
import re
import sys
from pathlib import Path

import pytest
import yaml
from houses import told
from made_up import case, noise, session, sessions
from running import on_one_line
from validated import valid

from bisection.analysis import propose as proposals
from bisection.commands import references
from bisection.core.reference_files import path as references_path
from bisection.core.thresholds import LIMITS
from bisection.core.verdicts import BisectionError
from bisection.judge.evidence import Evidence, of_nights
from bisection.runs.run_verdict import RunVerdict
from bisection.sites.reference_edit import EditableReferences
from bisection.store import sync
from bisection.store.marks import Mark


@pytest.fixture
def site(monkeypatch):
    """A site of one check with two methods, as doctor.load gives it."""
    cases = [
        {
            "check": "transpose", "$partition": "lab:cpu", "$environ": "system", "geometry": "2x1",
            "case": "cnt40", "layout": "mpi", "method": name, "required": ["time", "ratio_serial"],
        }
        for name in ("p2p", "shm")
    ]  # fmt: skip
    partition = {"fullname": "lab:cpu", "extras": {"references": ["ratio"]}}
    checks = {"transpose": {"settled": ["case", "method", "layout"]}}
    site = argparse.Namespace(name="lab", cases=cases, partitions=[partition], checks=checks)
    monkeypatch.setattr(references, "require_site", str)
    monkeypatch.setattr(references, "load_site", lambda _: site)
    return site


def measured(rng, first=0, count=10, sigma=0.02, metrics=lambda *_: {}, system="lab", **more):
    """Nights of both methods. `metrics` are further ones of a method and a night, `more` are fields
    of sessions, or the factor of a method."""
    factors = {name: more.pop(name, 1) for name in ("p2p", "shm")}

    def test(name, night):
        ratio = factors[name] * float(noise(rng, 1, sigma, outliers=0)[0])
        values = {"time": 1e-3, "ratio_serial": [ratio, "ratio", "lower"]}
        return case(name, values | metrics(name, night), system=system)

    return sessions(first, ([test(name, n) for name in factors] for n in range(count)), **more)


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.setenv("RFM_REFERENCE_PREFIX", str(tmp_path))
    return tmp_path / "lab.yaml"


@pytest.fixture
def propose(home, file, site, capsys):
    """propose(*sessions, **options): what was printed, the file; the exit code is to be `code`. The
    same as JSON is valid, and writes nothing."""

    def run(*contents, code=0, **options):
        with sync.opened(home) as opened_store:
            for content in contents:
                opened_store.add(content)
        usual = {"system": "lab", "sessions": "..", "least": 5, "kinds": None, "widen": False}
        usual |= {"also": (), "mix": False, "write": True, "json": False}
        before = file.exists() and file.read_text()
        with contextlib.suppress(BisectionError, OSError):
            references.act(argparse.Namespace(**usual | options | {"json": True, "write": False}))
        if text := capsys.readouterr().out:
            assert valid(text)["written"] is False
        assert before == (file.exists() and file.read_text())
        try:
            ended = references.act(argparse.Namespace(**usual | options))
        except (BisectionError, OSError) as error:  # as cli.main has it
            print(error, file=sys.stderr)
            ended = getattr(error, "exit_code", 2)
        printed = capsys.readouterr()
        assert ended == code, printed
        tree = yaml.safe_load(file.read_text()) if file.exists() else None
        return printed, tree

    return run


def entry(tree, method="p2p", metric="ratio_serial"):
    return tree["transpose"]["lab:cpu"]["system"]["2x1"]["cnt40"][method].get(metric)


def test_references_hold_the_sessions_they_are_made_of(rng, propose):
    other = measured(rng, first=100, count=3, system="another")  # gives no value
    _, tree = propose(measured(rng), other)
    assert tree["transpose"]["$index"] == ["$partition", "$environ", "geometry", "case", "method"]
    value, lower, upper = entry(tree)
    assert value == pytest.approx(1, abs=0.02)
    assert -0.25 < lower < -0.06
    assert 0.06 < upper < 0.25
    assert entry(tree, metric="time") is None
    about = tree["provenance"]
    assert (about["count"], str(about["date"]), about["lock"]) == (10, "2026-06-10", "none")
    assert len(about["sessions"]) == 10


def test_the_file_stays_as_it_is(rng, propose, file):
    printed, tree = propose(measured(rng), code=1, write=False)
    assert tree is None
    assert "+          p2p:" in printed.out
    assert "not written: --write changes" in printed.out
    propose()
    text = file.read_text()
    for least, code, says in ((5, 0, "as proposed already"), (50, 3, "no reference to propose")):
        printed, _ = propose(least=least, code=code)
        assert (file.read_text(), says in printed.out) == (text, True)


def test_bounds_are_not_widened_in_silence(rng, propose, file):
    _, tree = propose(measured(rng, sigma=0.005))
    printed, kept = propose(measured(rng, first=50, count=30, sigma=0.05), code=1)
    assert entry(kept) == entry(tree)
    assert "not widened: transpose 2x1 cnt40 p2p ratio_serial" in printed.out
    assert "# 10 sessions to 2026-06-10, spread 0." in file.read_text()
    _, wider = propose(widen=True)
    assert entry(wider)[2] > entry(tree)[2]


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ({"sigma": 0.4}, "too wide for a reference: 2 of transpose, such as transpose 2x1 cnt40"),
        ({"count": 4}, "fewer than 5 sessions: 2 of transpose"),
    ],
)
def test_what_varies_too_much_or_was_seldom_measured_is_no_reference(rng, propose, how, says):
    printed, tree = propose(measured(rng, **how), code=3)
    assert (tree, says in on_one_line(printed.out)) == (None, True)
    assert max(map(len, printed.out.splitlines())) <= 80


BY_HAND = """\
# Ours.
provenance: {date: 2026-01-01, sessions: [a], lock: none}  # of the last review

transpose:
  $index: [$partition, geometry, case, method]
  lab:cpu:
    2x1:
      tin: &all # as all
        p2p: {ratio_serial: [1.0, -0.5, 0.5]} # wide
        .*:
          ratio_serial: &wide [1.0, -0.4, 0.4] # from the last machine
          exchange_share: [0.5, -0.4, 0.4]
      .*: *all
"""


def test_file_by_hand_is_amended_and_keeps_its_comments(rng, propose, file):
    file.write_text(BY_HAND)
    _, tree = propose(measured(rng))
    text = file.read_text()
    for comment in ("# Ours.\n", "# of the last review", "# as all", "# from the last machine"):
        assert comment in text
    places = tree["transpose"]["lab:cpu"]["2x1"]
    # What was measured is cnt40, which took the entries of `.*`; those of tin stay.
    assert places["tin"]["p2p"]["ratio_serial"] == [1.0, -0.5, 0.5]
    assert places["tin"][".*"]["ratio_serial"] == [1.0, -0.4, 0.4]
    for method in ("p2p", ".*"):
        bounds = places[".*"][method]["ratio_serial"]
        assert -0.2 < bounds[1] < 0 < bounds[2] < 0.2
    assert places[".*"][".*"]["exchange_share"] == [0.5, -0.4, 0.4]
    assert tree["provenance"]["date"].isoformat() == "2026-01-01"
    assert tree["provenance"]["amended"]["count"] == 10


def test_of_an_entry_of_several_tests_what_was_measured_gets_its_own(rng, propose, site, file):
    file.write_text(BY_HAND)
    site.cases += [
        {**site.cases[1], "method": "padded"},  # takes the reference of shm
        {**site.cases[1], "case": "silicon"},
        *({**case, "$environ": "spack"} for case in site.cases),  # is not installed
    ]
    nightly = measured(rng, metrics=lambda *_: {"time": 1e-3})
    told, tree = propose(nightly, kinds="ratio,time")
    assert "not measured in environment system: 2 tests: transpose cnt40, silicon" in on_one_line(
        told.out
    )
    assert "not measured in environment spack: 2 tests" in on_one_line(told.out)
    places = tree["transpose"]["lab:cpu"]["2x1"]
    share = [0.5, -0.4, 0.4]
    assert places[".*"][".*"] == {"ratio_serial": [1.0, -0.4, 0.4], "exchange_share": share}
    own = places["cnt40"]["shm"]
    assert own["exchange_share"] == share  # as before
    assert (own["ratio_serial"][1] > -0.2, own["time"][0]) == (True, 1e-3)
    assert places["cnt40"]["p2p"]["time"][0] == 1e-3
    assert places["cnt40"][".*"] == places[".*"][".*"]  # of padded
    told, again = propose(kinds="ratio,time")
    assert (again, "as proposed already" in told.out) == (tree, True)


def test_an_entry_of_two_environments_changes_only_if_both_were_measured(rng, propose, site, file):
    file.write_text(BY_HAND)
    site.cases += [{**case, "$environ": "spack"} for case in site.cases]
    few = measured(rng, first=50, count=2)
    for _, cases in few:
        cases[:] = [{**line, "environ": "spack"} for line in cases]
    told, tree = propose(measured(rng), few, code=3)
    assert "without enough sessions of transpose lab:cpu spack 2x1 cnt40 p2p" in on_one_line(
        told.out
    )
    assert tree["transpose"]["lab:cpu"]["2x1"]["tin"]["p2p"]["ratio_serial"] == [1.0, -0.5, 0.5]


def test_entry_of_several_tests_holds_all_of_them(rng, propose, file):
    text = BY_HAND.replace("        p2p: {ratio_serial: [1.0, -0.5, 0.5]} # wide\n", "")
    file.write_text(text)
    _, tree = propose(measured(rng, p2p=0.9, shm=1.1))
    value, low, high = tree["transpose"]["lab:cpu"]["2x1"][".*"][".*"]["ratio_serial"]
    assert value * (1 + low) < 0.9 * 0.95
    assert value * (1 + high) > 1.1 * 1.05


@pytest.mark.parametrize(
    ("text", "kinds", "says"),
    [
        ("provenance: {date: 2026-01-01}\ntranspose: {}\n", None, "cannot be amended"),
        (BY_HAND, "speed", "--kinds speed: ratio, time are allowed"),
    ],
)
def test_files_without_index_and_unknown_kinds_are_refused(rng, propose, file, text, kinds, says):
    file.write_text(text)
    told, _ = propose(measured(rng), code=2, kinds=kinds)
    assert (file.read_text(), says in told.err) == (text, True)


def test_the_projects_own_file_is_kept_but_for_the_entries_that_change(tmp_path):
    file = tmp_path / "localhost.yaml"
    file.write_text(references_path("localhost").read_text())
    edited = EditableReferences(file, "")
    assert edited.text() == edited.before
    case = {"check": "transpose", "$partition": "localhost:default", "geometry": "2x1"}
    place = edited.where({**case, "case": "cnt40", "method": "p2p"}, "ratio_serial")
    edited.put(place, [0.7, -0.1, 0.1], "12 sessions")
    lines = zip(edited.before.split("\n"), edited.text().split("\n"), strict=True)
    ((_, changed),) = [(old, new) for old, new in lines if old != new]
    assert changed.strip() == "ratio_serial: [0.7, -0.1, 0.1] # 12 sessions"


@pytest.mark.parametrize(("old", "now"), [(1.0, 1.0), (3e-5, 3e-5), ([1.0, "ms", "lower"], 1e-3)])
def test_times_have_references_where_they_are_asked_for(rng, propose, old, now):
    """3e-05 is text in YAML 1.1, which ReFrame reads. Values of another unit are not mixed."""
    nightly = measured(rng, count=15, metrics=lambda _, night: {"time": old if night < 5 else now})
    told, tree = propose(nightly, kinds="ratio,time")
    assert entry(tree, metric="time")[0] == now
    assert entry(tree)
    assert "too wide" not in told.out
    propose(kinds="ratio,time")


def test_shares_and_twin_layouts_have_references_too(rng, propose, site):
    site.cases = [
        {**line, "layout": layout, "required": ["ratio_serial", "exchange_share"]}
        for line in site.cases
        for layout in ("mpi", "node2")
    ]
    share = {"exchange_share": [0.02, "share", "lower"]}
    nightly = measured(rng, metrics=lambda *_: share)
    for _, cases in nightly[::2]:  # two layouts of one geometry, in turns
        cases[:] = [{**line, "layout": "node2"} for line in cases]
    _, tree = propose(nightly)
    value, lower, upper = entry(tree, metric="exchange_share")
    assert value == 0.02
    assert lower <= -0.49
    assert upper >= 1
    assert value * (1 + upper) < 1


def test_counts_are_asserted_exactly_and_only_where_they_never_changed(rng, propose, site):
    site.cases = [{**case, "required": ["ratio_serial", "sweeps"]} for case in site.cases]

    def sweeps(name, night):
        return {"sweeps": [5.0 if name == "shm" and night > 7 else 4.0, "sweeps", "lower"]}

    told, tree = propose(measured(rng, metrics=sweeps))
    assert entry(tree, metric="sweeps") == [4.0, 0.0, 0.0]
    assert entry(tree, "shm", "sweeps") is None
    assert re.search(r"no reference: .*shm sweeps was 4 and 5$", told.out, re.MULTILINE)


def test_old_references_and_those_that_the_machine_left_behind_are_stale(
    rng, propose, site, tmp_path, monkeypatch
):
    """Sessions of one partition count for its system."""
    monkeypatch.setattr(LIMITS, "stale", 30)  # days; made-up nights are of June 2026
    _, tree = propose(measured(rng))
    after = session(60, facts={"MPI": "Open MPI 5.0.9"}, tags={"system": "lab:cpu"})
    nights = [*measured(rng, first=50, count=5, p2p=1.6), (after, [])]
    with sync.opened(tmp_path) as opened_store:
        opened_store.add(nights[:-1])
        moved = told(proposals.stale(opened_store, site, Path("lab.yaml"), tree))
        opened_store.add(nights[-1:])
        other = told(proposals.stale(opened_store, site, Path("lab.yaml"), tree))
    assert "p2p ratio_serial: the last 5 sessions have 1." in moved
    assert " shm " not in moved
    assert "made with MPI Open MPI 4.1.4; the last session has Open MPI 5.0.9" in other
    assert "days old; 30 days are allowed" in other


@pytest.mark.parametrize("folder", ["file", "folder"])
def test_files_that_cannot_be_changed_are_reported(rng, propose, tmp_path, monkeypatch, folder):
    (tmp_path / "file").touch()
    (tmp_path / "folder" / "lab.yaml").mkdir(parents=True)
    monkeypatch.setenv("RFM_REFERENCE_PREFIX", str(tmp_path / folder))
    printed, _ = propose(measured(rng), code=2)
    assert printed.err.count("\n") == 1


def test_sessions_that_say_nothing_of_the_machine_are_left_out(rng, propose, tmp_path):
    usual = measured(rng)
    own = {**session(0)["tags"], "phase": "after"}
    others = [
        (session(20, tags=own), usual[0][1]),
        (session(21, tags={**own, "phase": "before"}), usual[0][1]),
        (session(22), [{**line, "disturbed": 0.4} for line in usual[0][1]]),
        (session(23), [{**usual[0][1][0], "verdict": "FAIL"}, usual[0][1][1]]),
        (session(24), [{**line, "verdict": "not measured"} for line in usual[0][1]]),
        (session(25), usual[0][1]),
        (session(26, tags={"system": "other"}), usual[0][1]),
    ]
    with sync.opened(tmp_path) as opened_store:
        opened_store.add(others)
        with opened_store.marking() as marks:
            marks[others[5][0]["session"]] = Mark(excluded="fan")
    told, tree = propose(usual)
    assert tree["provenance"]["count"] == 10
    with sync.opened(tmp_path) as opened_store:  # a verdict counts the same nights
        opened_store.add([(session(19), [])])  # killed
        for last, nights in ((9, 10), (19, 10), (22, 10), (23, 10), (24, 10)):
            run = RunVerdict(session=session(last)["session"])
            assert of_nights(Evidence(), opened_store, run).nights == nights
    assert "used: 10 sessions, 00000000 of 2026-06-01 00:00 UTC to 00000009 of" in on_one_line(
        told.out
    )
    tagged = "1 excluded, 2 tagged (phase=after, phase=before)"
    others = "1 disturbed, 1 failed, 1 not-measured (--also REASON uses them)"
    assert f"left out: {tagged}, {others}" in on_one_line(told.out)
    told, _ = propose(also=("failed", "tagged"))
    assert "used: 13 sessions" in told.out
    told, _ = propose(sessions="..2026-06-10,phase=after", code=1)
    assert "used: 11 sessions" in told.out
    told, _ = propose(sessions="00000019", code=3)  # excluded, named or not
    assert "used: none" in told.out


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("MPI environment", "none", "OMPI_MCA_btl=tcp,self"),
        ("libraries", "fftw 3.3.10, hdf5 1.10.8", "fftw 3.3.11"),
        ("libraries", "fftw 3.3.10, openblas 0.3", "fftw 3.3.10, mkl 2024"),
        ("operating system's kernel", "6.1.0", "6.1.1"),
        ("kernels", "0.1.0 b9f59da", "0.2.0 06ea76c"),
    ],
)
def test_sessions_of_other_software_are_mixed_only_if_asked(rng, propose, name, before, after):
    usual = measured(rng, 0, 9, facts={name: before})
    told, tree = propose(usual, measured(rng, 9, 1, facts={name: after}), code=2)
    assert tree is None
    assert f"mixed: {name}: {before} (9 sessions); {after} (1 session)" in on_one_line(told.out)
    assert f"the sessions differ in {name}: choose by --sessions" in told.err
    told, tree = propose(mix=True)
    assert tree["provenance"]["count"] == 10
    assert f"mixed: {name}" in told.out


def test_a_selection_of_kernels_with_fewer_libraries_is_no_mix(rng, propose):
    libraries = ("fftw 3.3.10", "fftw 3.3.10, hdf5 1.10.8")
    propose(*(measured(rng, 5 * i, 5, facts={"libraries": t}) for i, t in enumerate(libraries)))


@pytest.mark.parametrize("old", ["abc, -0.1, 0.1", "1.0, null, 0.1", "1.0, null, null"])
def test_what_never_passed_or_has_no_limit_is_replaced(rng, propose, file, old):
    file.write_text(BY_HAND.replace("1.0, -0.5, 0.5", old))
    _, tree = propose(measured(rng))
    assert -0.2 < tree["transpose"]["lab:cpu"]["2x1"][".*"]["p2p"]["ratio_serial"][1] < 0


def test_what_a_person_keeps_is_kept_with_all_comments(rng, propose, file):
    propose(measured(rng))
    lines = file.read_text().splitlines()
    place = next(i for i, line in enumerate(lines) if "ratio_serial" in line)
    start = lines[place].partition("[")[0]
    lines[place] = f"{start}[1.0, -0.7, 0.9] # keep: the fan is broken"
    lines.insert(place + 1, "            # until the vendor comes")
    file.write_text("\n".join(lines) + "\n")
    told, tree = propose(measured(rng, first=50, sigma=0.005))
    assert entry(tree, "p2p") == [1.0, -0.7, 0.9]
    assert "kept, by its comment: transpose 2x1 cnt40 p2p ratio_serial: 0.30..1.90" in on_one_line(
        told.out
    )
    text = file.read_text()
    assert "# keep: the fan is broken\n            # until the vendor comes\n" in text
    file.write_text(text.replace("keep: the fan", "the fan"))
    _, tree = propose(measured(rng, first=80, sigma=0.005), widen=True)
    assert entry(tree, "p2p") != [1.0, -0.7, 0.9]
    assert "; the fan is broken\n            # until the vendor comes\n" in file.read_text()
