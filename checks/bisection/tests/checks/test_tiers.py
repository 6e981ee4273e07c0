"""What each tier selects, and ReFrame by hand as the README has it."""

import json
import re
import shlex

import pytest
from running import CHECKS, start

from bisection.core.verdicts import TIERS
from bisection.runs.command import check_files

# what one host has a use for
LOCAL = {"transpose", "npar", "eigen", "md", "network", "halo", "tasks", "patches", "restart"}
KERNELS = {
    "quick": LOCAL,
    "nightly": {*LOCAL, "pairs"},
    "upgrade": {*LOCAL, "pairs", "congestion", "burn"},
    "interconnect": {*LOCAL, "pairs", "congestion"} - {"restart"},
    "burn": {"burn"},
    "triage": {"transpose", "network", "pairs", "congestion"},
    "nodes": {"network", "pairs"},
}


@pytest.fixture(scope="session")
def tests(gallery):
    """Real for ReFrame by hand: all tests on two cores, as `reframe --describe` has them."""
    files = [word for file in check_files() for word in ("-c", str(file))]
    command = ["reframe", "-C", "site-configs/localhost.py", *files, "--describe"]
    code, text = gallery("described", lambda home: start(command, home))
    assert code == 0, text
    return json.loads(text[text.index("[\n") :])


def of_tier(tests, tier):
    return {test["name"]: test for test in tests if tier in test["tags"]}


def test_tiers_serve_their_purpose(tests):
    names = {tier: of_tier(tests, tier).keys() for tier in TIERS}
    assert names["upgrade"] == {test["name"] for test in tests}
    assert names["quick"] < names["nightly"] < names["upgrade"]
    assert names["interconnect"] - names["nightly"]
    assert names["nightly"] - names["interconnect"]
    for tier in TIERS:
        kernels = {re.split("[ _]", name)[0] for name in names[tier]}
        assert kernels == KERNELS[tier]
    of_network = of_tier(tests, "interconnect").values()
    assert {t["layout"] for t in of_network if t["name"].startswith(("npar", "md"))} == {"mpi"}
    of_triage = list(of_tier(tests, "triage"))
    order = " ".join(dict.fromkeys(name.partition(" ")[0] for name in of_triage))
    assert order == "network_noise pairs network congestion transpose"  # the suspects first
    transposes = [test for test in tests if test["name"].startswith("transpose")]
    assert all("interconnect" in test["tags"] for test in transposes)


def test_each_check_has_a_description_and_spack_builds_only_where_it_is_named(tests):
    """An environment that Spack provisions takes an hour the first time."""
    assert all(re.fullmatch(r"[A-Z].{20,100}\?", test["descr"]) for test in tests)
    assert all({*test["valid_prog_environs"]} == {"+kernels -spack"} for test in tests)


def test_help_has_the_tiers(command_line):
    _, text, _ = command_line("run", "--help")
    for name, tier in TIERS.items():
        assert re.search(rf"^  {name} +{tier.minutes}  {tier.purpose}$", text, re.M)


def documented():
    """The command lines of ReFrame in checks/README.md."""
    text = (CHECKS / "README.md").read_text()
    lines = [line.partition("  #")[0] for line in text.splitlines()]
    return [shlex.split(line) for line in lines if line.startswith("reframe ")]


@pytest.mark.parametrize("number", range(len(documented())))
@pytest.mark.long
def test_documented_command_selects_something(tmp_path, monkeypatch, number):
    monkeypatch.setenv("RFM_CONFIG_FILES", str(CHECKS.parent / "site-configs" / "localhost.py"))
    monkeypatch.setenv("RFM_CHECK_SEARCH_PATH", str(CHECKS))
    command = ["-l" if word == "-r" else word for word in documented()[number]]
    code, text = start(command, tmp_path)
    assert code == 0, text
    assert re.search(r"^Found [1-9]\d* check", text, re.M)
    assert "ERROR" not in text
    assert "skipping" not in text
