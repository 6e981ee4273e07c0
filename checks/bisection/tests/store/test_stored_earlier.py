"""A store written by the code of commit b9f59da gives the comparisons that it gave then.

stored/b9f59da.tar.gz holds a home folder and expected.json. The sessions are real: transpose cnt40
and the network sweep, layout mpi, on a two-core host; five jobs each before, again and after (with
OMPI_MCA_btl=tcp,self), and two sessions phase=broken, one whose sweep ran into its time limit and
one with a reference that gather-scatter cannot meet. expected.json is what b9f59da made of them.
"""

import json
import re
import shutil
import tarfile
from pathlib import Path

import pytest

from bisection.analysis.compare import compare
from bisection.core import paths
from bisection.core.reasons import Code
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


def test_comparisons_of_an_earlier_version_come_out_the_same(store, expected):
    for wanted in expected["comparisons"]:
        before = select(wanted["before"], store)
        after = select(wanted["after"], store, before)
        aa = select(wanted["aa"], store) if wanted["aa"] else ()
        result = compare(store, before, after, aa=aa)
        assert result.exit_code == wanted["exit_code"]
        assert bool(result.unsafe) != wanted["safe"]
        assert [[c.what, c.before, c.after] for c in result.changes] == wanted["changes"]
        now_stored = {
            "|".join(row.key): [row.verdict, row.scope or "", row.ratio, row.low, row.high, row.p]
            for row in result.rows
        }
        assert list(now_stored) == list(wanted["rows"])  # the worst first, too
        for key, (verdict, scope, *numbers) in wanted["rows"].items():
            assert now_stored[key][:2] == [verdict, scope], key
            for now, then in zip(now_stored[key][2:], numbers, strict=True):
                assert now == then if then is None else now == pytest.approx(then, rel=1e-4), key


def test_what_stopped_a_job_in_an_earlier_version_is_still_known(store):
    timed_out = select("a4fe4d5e", store)
    reasons = {o.reason for o in store.outcomes(timed_out) if o.verdict == "not measured"}
    assert [(r.code, r["test"].split()[0]) for r in reasons] == [(Code.FOLLOWS, "SweepLaunch")]


def test_archive_names_no_machine_of_the_developers(unpacked):
    for file in unpacked.rglob("*"):
        if file.is_file():
            assert not re.search(rb"/work/|/tmp/|/root", file.read_bytes()), file
