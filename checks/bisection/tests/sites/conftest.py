"""The site `localhost` with all checks, and a small house."""

import dataclasses

import pytest
from houses import make_house

from bisection.sites.site import load_site


@pytest.fixture(scope="session")
def site():
    """The site `localhost` with all checks, as ReFrame loads them."""
    return load_site("localhost")


@pytest.fixture(scope="session")
def silent(site):
    """The same, whose partition claims no references."""
    quiet = [
        {**partition, "extras": {**partition["extras"], "references": []}}
        for partition in site.partitions
    ]
    return dataclasses.replace(site, partitions=quiet)


@pytest.fixture
def house(tmp_path, monkeypatch):
    return make_house(tmp_path, monkeypatch)
