"""The site `localhost` without references, and a small house."""

import dataclasses

import pytest
from houses import make_house


@pytest.fixture(scope="session")
def silent(site):
    """The site `localhost`, whose partition claims no references."""
    quiet = [
        {**partition, "extras": {**partition["extras"], "references": []}}
        for partition in site.partitions
    ]
    return dataclasses.replace(site, partitions=quiet)


@pytest.fixture
def house(tmp_path, monkeypatch):
    return make_house(tmp_path, monkeypatch)
