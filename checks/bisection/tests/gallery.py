"""Real runs, and all else that is dear, shared by the tests of a session."""

import fcntl
import pickle

import pytest


@pytest.fixture(scope="session")
def gallery(tmp_path_factory, worker_id):
    """gallery(name, make): what make(folder) returned once, for all workers of pytest-xdist."""
    base = tmp_path_factory.getbasetemp()
    base = base if worker_id == "master" else base.parent

    def exhibit(name, make):
        folder, kept = base / name, base / f"{name}.pickle"
        with open(base / f"{name}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not kept.exists():
                folder.mkdir(exist_ok=True)
                kept.write_bytes(pickle.dumps(make(folder)))
        return pickle.loads(kept.read_bytes())

    return exhibit
