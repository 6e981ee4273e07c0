"""A store written by the code of commit b9f59da gives comparisons like those that it gave then.

stored/b9f59da.tar.gz holds a home folder and expected.json. The sessions are real: transpose cnt40
and the network sweep, layout mpi, on a two-core host; five jobs each before, again and after (with
OMPI_MCA_btl=tcp,self), and two sessions phase=broken, one whose sweep ran into its time limit and
one with a reference that gather-scatter cannot meet. expected.json is what b9f59da made of them.
"""

import json
import re
import shutil
import tarfile
from collections import Counter
from pathlib import Path

import pytest

from bisection.analysis.compare import compare
from bisection.core import paths
from bisection.core.reasons import Code
from bisection.core.verdicts import Verdict
from bisection.store import sync
from bisection.store.selection import select

ARCHIVE = Path(__file__).with_name("stored") / "b9f59da.tar.gz"


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stored")
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder)
    return folder


@pytest.fixture(params=["database", "made again from sample files and ReFrame's database"])
def store(request, unpacked, tmp_path):
    home = tmp_path / "home"
    shutil.copytree(unpacked / "home", home)
    if request.param != "database":
        paths.store_db(home).unlink()
    with sync.opened(home) as store:
        yield store


@pytest.fixture
def expected(unpacked):
    return json.loads((unpacked / "expected.json").read_text())


def test_sessions_of_an_earlier_version_are_read_whole(store, expected):
    now_stored = {
        session.uuid: {
            "start": session.start,
            "tags": session.tags,
            "facts": session.facts,
            "outcomes": len(store.outcomes([session])),
            "samples": len(store.samples([session])),
        }
        for session in store.sessions()
    }
    assert now_stored == expected["sessions"]


def test_comparisons_of_an_earlier_version_agree(store, expected):
    """The statistics are others since, for few jobs of one day stricter ones: ratios lie in the
    intervals of then, and no verdict is reversed."""
    kept = Counter()
    for then in expected["comparisons"]:
        before = select(then["before"], store)
        result = compare(store, before, select(then["after"], store, before))
        assert then["exit_code"] == 0 or result.exit_code == then["exit_code"]
        assert [[c.what, c.before, c.after] for c in result.changes] == then["changes"]
        rows = {"|".join(row.key): row for row in result.rows}
        assert rows.keys() == then["rows"].keys()
        for key, (verdict, _, ratio, low, high, _) in then["rows"].items():
            now = rows[key]
            assert {now.verdict, verdict} != {Verdict.REGRESSED, Verdict.IMPROVED}, key
            assert (now.ratio is None) == (ratio is None), key
            assert low is None or low <= now.ratio <= high, key
            kept[verdict, now.verdict == verdict] += 1
    regressed = kept[Verdict.REGRESSED, True]
    assert regressed > 0.85 * (regressed + kept[Verdict.REGRESSED, False]) > 100
    assert kept[Verdict.MISSING, True] == 1
    assert not kept[Verdict.MISSING, False]
    assert not kept[Verdict.NOT_MEASURED, False]


def test_what_stopped_a_job_in_an_earlier_version_is_still_known(store):
    timed_out = select("a4fe4d5e", store)
    reasons = {o.reason for o in store.outcomes(timed_out) if o.verdict == "not measured"}
    assert [(r.code, r["test"].split()[0]) for r in reasons] == [(Code.FOLLOWS, "SweepLaunch")]


def test_archive_names_no_machine_of_the_developers(unpacked):
    for file in unpacked.rglob("*"):
        if file.is_file():
            assert not re.search(rb"/work/|/tmp/|/root", file.read_bytes()), file
