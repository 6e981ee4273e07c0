"""Files are written whole, for those whom the umask lets read them."""

import os

import pytest

from bisection.core import paths


@pytest.mark.parametrize(("umask", "mode"), [(0o077, 0o600), (0o022, 0o644), (0o002, 0o664)])
def test_the_umask_says_who_may_read(tmp_path, umask, mode):
    before = os.umask(umask)
    try:
        file = paths.write_whole(tmp_path / "ä", ["one\n", "two\n"])
    finally:
        os.umask(before)
    assert file.stat().st_mode & 0o777 == mode
    assert file.read_text() == "one\ntwo\n"


def test_a_file_that_cannot_be_written_keeps_the_old_one(tmp_path):
    file = paths.write_whole(tmp_path / "file", "old")
    with pytest.raises(TypeError):
        paths.write_whole(file, ["new", None])
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]
