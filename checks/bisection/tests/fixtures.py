"""Fixtures of all tests, which each conftest.py takes over."""

import contextlib
import functools
import shutil
import signal

import numpy as np
import pytest
from gallery import *  # noqa: F403
from houses import make_house
from made_up import store
from running import RNG, TWO_CORES, command, fake_program, install_cmake, run_command, run_in
from validated import valid

from bisection.analysis.comparison import compare
from bisection.cli import BISECTION, main
from bisection.core import paths
from bisection.kernels import tables
from bisection.kernels.spack import externals, program
from bisection.report.comparison_text import comparison_text
from bisection.report.documents import ComparisonDocument
from bisection.sites.site_files import load_site
from bisection.store.selection import select

# As in a terminal. Children of nohup, and of a shell's `&`, ignore signals that tests send.
SIGNALS = {
    signal.SIGHUP: signal.SIG_DFL,
    signal.SIGINT: signal.default_int_handler,
    signal.SIGQUIT: signal.SIG_DFL,
    signal.SIGTERM: signal.SIG_DFL,
}
for number, handler in SIGNALS.items():
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, handler)


def pytest_addoption(parser):
    text = "test beds: all quick checks and faults; simulated tables: all of their sets"
    with contextlib.suppress(ValueError):  # of the conftest.py of the other program's tests
        parser.addoption("--full", action="store_true", help=text)


def pytest_collection_modifyitems(items):
    for item in items:
        if {"long", "spack", "testbed"} & {mark.name for mark in item.iter_markers()}:
            item.add_marker(pytest.mark.timeout(7200))


@pytest.fixture(scope="session")
def full(request):
    """Whether everything is to be run, which takes long."""
    return request.config.getoption("--full")


@pytest.fixture(scope="session")
def fake(tmp_path_factory):
    """A folder with bin/bisection-*, all of them the fake."""
    if shutil.which("mpirun") is None or "," not in TWO_CORES:
        pytest.skip("needs mpirun and two cores")
    prefix = tmp_path_factory.mktemp("fake")
    (prefix / "bin").mkdir()
    for name in tables.METHODS:
        kernel = prefix / "bin" / f"bisection-{name}"
        kernel.write_text(fake_program())
        kernel.chmod(0o755)
    return prefix


@pytest.fixture(scope="session")
def site(gallery):
    """The site `localhost` with all checks, as ReFrame loads them."""
    return gallery("site", lambda _: load_site("localhost"))


@pytest.fixture(scope="session")
def first(fake, gallery):
    """Real for what the command line and a build do in ReFrame: a tagged run of two cases in all
    layouts, each twice, in a home where ReFrame alone would not start. One case has work of its
    own, and jobs print their folder of temporary files."""
    printed = f'echo $TMPDIR ${{{paths.TEMPORARY}-none}} >"$BISECTION_HOME/printed"'
    how = ["--tag", "phase=before", "--reruns=1", "-S", f"TransposeLaunch.prerun_cmds={printed}"]
    how += ["-S", "TransposeLaunch.work=cnt80:--bands 3"]

    def run(home):
        with pytest.MonkeyPatch.context() as patch:
            install_cmake(patch, home / "tools", fake)
            (home / "temporary").mkdir()
            patch.setenv("TMPDIR", str(home / "temporary"))
            selected = ("-n", "^transpose%method=p2p%.*launch.case=cnt(40|80)")
            return run_command(home, "upgrade", *how, *selected)

    return gallery("Meine Prüfung's", run)


@pytest.fixture
def bisection(fake, tmp_path):
    """bisection(*arguments, faults=..., references=...) is a Run on the fake kernels."""
    return functools.partial(run_in, tmp_path, fake)


@pytest.fixture
def command_line(capsys):
    """command_line(*arguments): (exit code, output, errors) of a program, in this process. What it
    prints with --json is valid by its schema, and has its exit code."""

    def run(*arguments, program=BISECTION):
        try:
            code = main(arguments, program)
        except SystemExit as error:
            code = error.code
        printed = capsys.readouterr()
        lines = arguments[:1] == ("export",)  # which are no document
        if "--json" in arguments and printed.out and not lines:
            assert valid(printed.out)["exit_code"] == code
        return code, printed.out, printed.err

    return run


@pytest.fixture
def commands(tmp_path_factory, monkeypatch):
    """commands(name, body): a command before all others on PATH, whose body is a shell script."""
    folder = tmp_path_factory.mktemp("commands")
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    return functools.partial(command, folder)


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Where the commands of a test write."""
    monkeypatch.setenv("BISECTION_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def house(tmp_path, monkeypatch):
    """A small copy of the repository, which commands take for their own."""
    return make_house(tmp_path, monkeypatch)


@pytest.fixture(scope="module")
def told(request):
    """Lines of a table that simulations print, also where output is captured."""
    lines = []
    yield lines
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print("\n" + "\n".join(lines))


@pytest.fixture
def rng():
    return np.random.default_rng(RNG)


@pytest.fixture
def compared(tmp_path):
    """compared(before, after, **options): the Comparison of two lists of (session, cases)."""

    def run(before, after, **options):
        database = store(tmp_path / "store.db", before, after)
        sides = [
            select(",".join(line["session"] for line, _ in side), database)
            for side in (before, after)
        ]
        if same := options.get("aa"):
            database.add(same)
            options["aa"] = select(",".join(line["session"] for line, _ in same), database)
        result = compare(database, *sides, **options)
        database.close()
        assert "\n".join(comparison_text(result))
        valid(ComparisonDocument.of(result).text())
        return result

    return run


@pytest.fixture
def spack_at_hand():
    """Skips a test where Spack and its recipes cannot be had."""
    program.SPACK.folder.parent.mkdir(parents=True, exist_ok=True)
    pins = [program.PACKAGES] if program.find_spack() else [program.SPACK, program.PACKAGES]
    try:
        for pin in pins:
            program.clone(pin)
    except externals.SpackError as error:
        pytest.skip(f"no Spack can be had: {error}")


@pytest.fixture
def debian():
    """Versions of the system packages that debian12 takes; skips a test where any is missing."""
    survey = externals.survey_externals(externals.environment_file("debian12"))
    if survey.missing:
        pytest.skip(f"not the system packages of debian12: {', '.join(survey.missing)} missing")
    return survey.installed
