"""A table that simulations print."""

import pytest


@pytest.fixture(scope="module")
def told(request):
    """Lines of the table, which is printed also where output is captured."""
    lines = []
    yield lines
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print("\n" + "\n".join(lines))
