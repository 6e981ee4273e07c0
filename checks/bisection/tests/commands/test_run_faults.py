"""Faults of launches, methods and references in real runs, on a fake kernel: a run for each kind.

Many of these tests reproduce a way in which ReFrame alone would have reported PASSED.
"""

import itertools
import json
import re
import shlex
import shutil
import socket

import pytest
from running import SITES, command, first_cores, joined, run_in, start

from bisection.kernels import tables
from bisection.sites import site_files

# The first six end the job; the others end it well. One run has them all.
LAUNCH_FAULTS = [
    ("mpi/cnt40", "exit-3", "not measured", "transpose exited with 3 (resources)"),
    ("mpi/cnt80", "exit-2", "not measured", "transpose exited with 2 (usage)"),
    ("mpi/silicon", "segv-after", "FAIL", "transpose was killed by SIGSEGV"),
    ("mpi/silicon", "segv-after", "FAIL", "its result was complete: MPI had only to end"),
    ("node/al2o3-g", "hang", "FAIL", "HANG: nothing finished for 5 min; no answer from rank 1 on"),
    ("mpi/cpmd", "hang-on-one-core", "FAIL", "; HANG: nothing finished for 5 min"),
    ("mpi/tin-8k", "exit-1-but-verified", "FAIL", "exited with 1 (wrong answer), but its"),
    ("mpi/al2o3-g", "two-hosts", "FAIL", "INVALID placement: ranks ran on the hosts elsewhere"),
    ("node/cnt40", "nothing", "FAIL", "transpose wrote no result file"),
    ("node/cnt80", "running", "FAIL", "status is 'running', not 'complete'"),
    ("node/silicon", "wrong-but-exit-0", "FAIL", "exited with 0 (verified), but its result"),
    ("node/tin-8k", "wrong-baseline", "FAIL", "the baseline serial gave a wrong answer"),
    ("node/cpmd", "unchecked", "FAIL", "its result has verified: True, wrong: p2p"),
    ("mpi/cpmd-mini", "shared-core", "FAIL", "INVALID placement: rank 1 on "),
    ("node/cpmd-mini", "shared-core", "FAIL", "thread 1 (cpus 0) "),
    ("mpi/gamess-uk-mini", "tcp", "FAIL", "mlx5_0"),
    ("node/gamess-uk-mini", None, "pass", ""),
    # Who ended it was the launcher, or a library.
    ("mpi/pchan-24", "slots", "not measured", "NOT_STARTED: the launcher has too few slots: 99 "
     "ranks are asked for, 2 CPUs are granted on "),
    ("mpi/pchan-24", "slots", "not measured", ": There are not enough slots available in the "),
    ("mpi/polcoms-48", "mpi-error", "FAIL", "MPI_ERROR: MPI_ERR_TRUNCATE in MPI_Alltoallw on "),
    ("mpi/thor-24", "no-library", "not measured", "NOT_STARTED: libgone.so.7 does not load on "),
    ("node/pchan-24", "odd-launcher", "not measured", "NOT_STARTED: the launch ended with exit "
     "code 1 before the kernel began"),
    ("node/pchan-24", "odd-launcher", "not measured", "the oracle could not be reached"),
    ("node/thor-24", "no-interface", "not measured", "unable to find network interfaces"),
    ("node/polcoms-48", "warns", "pass", ""),
]  # fmt: skip


# That takes MPICH's options for the number of ranks and for cores, and has Open MPI start them.
MPICH = """[ "$1" = --version ] && exec echo HYDRA build details
words=("${{@:1:2}}" --bind-to none "${{@:9}}")
[[ $FAKE_FAULTS == *pchan-24*slots* && $* == *pchan-24*layout=mpi* ]] && words[1]=99
exec {} "${{words[@]}}"
"""


@pytest.fixture(scope="session")
def launch_run(fake, gallery):
    """Real for how launches end: by signals, exit codes, and files that they leave. The partition
    claims a network, which one launch bypassed, and references, of which there is no file. The
    MPI library is an environment's: its mpirun says that it is MPICH's."""
    faults = {where: fault for where, fault, _, _ in LAUNCH_FAULTS if fault}

    def run(home):
        shutil.copytree(SITES, home / "sites")
        file = home / "sites" / "localhost.py"
        text = file.read_text().replace('"nodes": 1', '"nodes": 1, "network": ["mlx5_0"]')
        text = text.replace('["system", "spack"]', '["mpich"]')
        own = f"common.environment_of('mpich', '{home}/mpi')"
        file.write_text(text.replace("configuration(", f"configuration(environments=[{own}], "))
        (home / "mpi" / "bin").mkdir(parents=True)
        command(home / "mpi" / "bin", "mpirun", MPICH.format(shutil.which("mpirun")))
        selected = ("-n", "^transpose%method=p2p%launch.layout=(mpi|node)%")
        selected += ("-n", "^tasks%method=counter%launch.layout=(mpi|node)%.*mini")
        small = "(pchan-24|polcoms-48|thor-24)$"
        selected += ("-n", f"^halo%method=isend%launch.layout=(mpi|node)%launch.case={small}")
        how = {"selected": selected, "tier": "upgrade", "faults": faults, "references": home}
        return run_in(home, fake, "--system", str(file), **how)

    return gallery("launches", run)


def test_a_run_with_faults_fails(launch_run):
    assert "FAIL: 0 of " in launch_run.said
    cause = launch_run.case("", "mpi", "cpmd")["cause"]  # placement before what followed from it
    assert cause.startswith("INVALID placement: rank 1 on ")
    reasons = launch_run.case("", case="gamess-uk-mini")["reasons"]
    bypassed = "the messages between nodes bypassed mlx5_0, which the site file claims: eth0 100%"
    assert reasons["cause"]["text"].startswith(bypassed)


def test_what_a_launcher_says_is_in_the_verdict_with_what_to_do(launch_run):
    for step in ("ask for fewer cores (processor in the site file)", "load the modules that have"):
        assert f"next: {step}" in launch_run.said
    note = f"note: {socket.gethostname()}: no space for shared memory in /dev/shm: It appears as "
    note += "if there is not enough space, in 1 of "
    (shown,) = re.findall(f"{re.escape(note)}[0-9]+ (.*?) price: ", launch_run.said)
    assert shown.startswith("launches; next: remove what is left")


def test_launches_have_path_and_options_of_their_environment(launch_run):
    folder = launch_run.folder / "kernels"
    scripts = [file.read_text() for file in folder.glob("*gamess-uk-mini-node-*.sh")]
    for words in ("/mpi/bin:$PATH", "mpirun -np 1 -ppn 1 -bind-to core:2 -map-by core:2 "):
        assert any(words in script for script in scripts)


METHOD_FAULTS = [
    ("p2p", "wrong", "wrong answer of p2p: serial transform: error 0.5 largest element"),
    ("padded", "no-method", "method padded is missing from the results"),
    ("shm", "no-ratio", "metric missing from shm: ratio_serial"),
    ("shm-padded", "inapplicable", "shm-padded did not run: needs two nodes"),
    ("gather-scatter", "slow", "ratio_alltoallv is 2.50, allowed is"),
    ("direct", "ratio_alltoallv=0.0", "metric of direct: ratio_alltoallv is 0.0, not above zero"),
    ("alltoallw", "ratio_alltoallv=Infinity", "ratio_alltoallv is Infinity, not a finite"),
    ("leaders", "ratio_alltoallv=null", "metric of leaders: ratio_alltoallv is null, not a finite"),
    ("overlap", 'ratio_alltoallv="1.0"', 'of overlap: ratio_alltoallv is "1.0", not a finite'),
]


# A reference file with a METHOD % (name, references) of each method in its second case. ReFrame
# cannot read the references of two other checks.
TREE = """
transpose:
  $index: [$partition, case, method]
  localhost:default:
    cnt40:
%s    cpmd-mini:
%s
tasks: {$index: [$partition], localhost:default: {ratio_ideal: [9.0e6, -0.5, 0.5]}}
patches: {$index: [$partition], localhost:default: {ratio_static: [1.0, -0.5]}}
"""
METHOD = """      %s:
        ratio_alltoallv: %s
        ratio_serial: [0.6, -0.5, 0.5]
        exchange_share: [0.3, -0.9, 1.0]
"""
GOOD = "[1.0, -0.5, 0.5]"
BAD_REFERENCES = [
    ("p2p", "[4.0, -0.5, 0.5]", "ratio_alltoallv is 1.00, allowed is 2.00..6.00"),
    ("padded", "[1.0, -0.5, null]", "ratio_alltoallv: the upper bound is open"),
    ("shm", "[1.0, null, 0.5]", "ratio_alltoallv: the lower bound is open"),
    ("shm-padded", "[1.0, -1.0, 0.5]", "ratio_alltoallv: the lower bound -1.0 is not a fract"),
    ("gather-scatter", "[1.0, -0.5, .inf]", "the upper bound inf is not a finite number"),
    ("direct", "[1.0, -0.5, .nan]", "the upper bound nan is not a finite number"),
    ("alltoallw", "[1.0, -0.5, 9.0e6]", "the upper bound '9.0e6' is text, not a number"),
    ("leaders", "[0, -0.5, 0.5]", "ratio_alltoallv: the reference 0 is not above zero"),
    ("overlap", f"{GOOD}\n        ratio_seiral: {GOOD}", "ratio_seiral has a reference on"),
]


# Check -> a method without references of its own, and keys that may be that method's, mistyped.
NEW = {"halo": ("shm", []), "eigen": ("jacobi", ["jacobii"])}
# Check, method, layout and case of what has no reference.
UNREAD = [
    ("eigen", "jacobi", "mpi", "fock-256", "for ratio_dsyevd"),
    ("transpose", "p2p", "mpi", "cnt80", "for ratio_alltoallv, ratio_serial"),
    ("tasks", "counter", "mpi", "gamess-uk-mini", "unknown modifier '9.0e6'"),
    ("patches", "static", "mpi", "dhfr-mini", "does not match type"),
]


@pytest.fixture(scope="session")
def method_run(fake, gallery):
    """Real for how ReFrame reads references, and compares with them. In one layout a host has a
    slow clock, in the other one an adapter that counted errors."""
    cnt40 = ("mpi/cnt40", "node/cnt40")
    faults = {f"{name}@{at}": fault for name, fault, _ in METHOD_FAULTS for at in cnt40}
    faults |= dict(zip(cnt40, ("slow-clock", "errors"), strict=True))
    faults["sendrecv@mpi/pchan-24"] = "lacking"
    bad = "".join(METHOD % row[:2] for row in [*BAD_REFERENCES, ("alltoallv", GOOD)])

    def run(home):
        tree = TREE % (METHOD % (".*", GOOD), bad)
        for check, (new, others) in NEW.items():
            names = {*tables.methods(check), *others} - {new}
            of_methods = json.dumps({name: {"time": [1, -0.5, 0.5]} for name in names})
            tree += f"{check}: {{$index: [$partition, method], localhost:default: {of_methods}}}\n"
        (home / "localhost.yaml").write_text(tree)
        names = ["transpose%.*launch.layout=(mpi|node)%launch.case=cnt40"]
        names += ["transpose%.*launch.layout=mpi%launch.case=cpmd-mini"]
        names += ["transpose%method=p2p%.*launch.case=cnt80"]
        names += ["halo%method=(shm|sendrecv)%.*=mpi%.*case=pchan-24"]
        names += ["npar%method=emulated%.*=mpi%.*case=mini1"]
        names += [f"{c}%method={name}%.*=mpi%.*case={case}" for c, name, _, case, _ in UNREAD]
        selected = [word for name in names for word in ("-n", f"^{name}$")]
        selected += ["-S", "transpose.inapplicable=shm-padded:node"]
        kernels = shutil.copytree(fake, home / "without")
        (kernels / "bin" / "left-out").write_text("npar: no FFTW\n")
        how = {"selected": selected, "tier": "upgrade", "references": home, "faults": faults}
        return run_in(home, kernels, **how)

    return gallery("methods", run)


def test_what_cannot_run_lacks_a_library_or_is_new_is_named_and_not_judged(method_run):
    for method, where in (
        ("shm-padded", {"layout": "node"}), ("sendrecv", {"case": "pchan-24"}),
        ("emulated", {"case": "mini1"}),
    ):  # fmt: skip
        assert method_run.case(method, **where)["verdict"] == "not applicable"
    assert "not applicable: 1 x needs two nodes" in method_run.whole
    assert "note: left out of the build: npar: no FFTW" in method_run.said
    new = method_run.case("shm", case="pchan-24")
    assert new["verdict"] == "pass"
    remark = new["reasons"]["remark"]["text"]
    assert remark.startswith("shm is measured and verified, but not judged")
    assert not any(metric["asserted"] for metric in new["metrics"])


def test_hosts_with_a_slow_clock_or_an_adapter_that_counted_errors_are_named(method_run):
    ran = [launch for launch in method_run.verdict["launches"] if launch["exit_code"] is not None]
    once = f", in 1 of {len(ran)} launches"
    clock = "is slow: the clock of rank 1 (cpus 1) was 2.60 GHz, the launch's median 3.00 GHz"
    errors = "errors of adapter mlx5_0:1 grew: symbol_error by 12"
    nodecheck = (method_run.folder / "nodecheck.txt").read_text()
    assert f"{clock}{once}" in method_run.said
    assert clock not in nodecheck  # not after one launch
    assert f"{errors}{once}" in method_run.said
    assert errors in nodecheck
    assert method_run.case("", "node")["verdict"] == "pass"  # the answers are right


def test_the_command_to_rerun_selects_the_launches_that_failed(method_run):
    """As ReFrame selects: all methods of a launch of which any failed, or these alone."""
    verdict = (method_run.folder / "verdict.txt").read_text()
    words = shlex.split(" ".join(re.findall("rerun: (.*)", joined(verdict))))
    names = [name for option, name in itertools.pairwise(words) if option == "-n"]
    selected = [test for test in site_files.load_site("localhost", names).tests if test["named"]]
    selected = {(t["check"], t["method"], t["layout"], t["case"]) for t in selected}
    of_run = [c for c in method_run.verdict["cases"] if c["method"]]
    of_run = {(c["check"], c["method"], c["layout"], c["case"]): c["verdict"] for c in of_run}
    assert {key for key, word in of_run.items() if word == "FAIL"} <= selected <= of_run.keys()


def test_the_printed_command_can_be_run_dry_and_layouts_that_do_not_fit_do_not_run(
    method_run, tmp_path
):
    """Real for what a shell makes of the command; on one core."""
    (printed,) = re.findall("^command: (.*) -r$", joined(method_run.text), re.M)
    dry = printed.replace(str(method_run.folder), str(tmp_path)) + " --dry-run"
    code, text = start(["sh", "-c", dry], tmp_path, cpus=first_cores(1))
    assert code == 0, text
    assert "PASSED" in text
    assert "layout node is the same as mpi here (1x1)" in text
    assert "layout node2 needs 2 cores per node, there are 1" in text


def test_a_verdict_is_printed_again(method_run, command_line):
    for path in (method_run.folder, method_run.folder / "report.json"):
        code, text, _ = command_line("verdict", str(path))
        assert code == 1
        assert "ratio_alltoallv is 2.50" in text


@pytest.mark.parametrize(
    ("run", "where", "word", "says"),
    [
        *(("launch_run", ("", *w.split("/")), word, says) for w, _, word, says in LAUNCH_FAULTS),
        ("launch_run", ("counter", "node", "gamess-uk-mini"), "FAIL", "and there is no "),
        *(("method_run", (method,), "FAIL", says) for method, _, says in METHOD_FAULTS),
        *(("method_run", (m, "mpi", "cpmd-mini"), "FAIL", says) for m, _, says in BAD_REFERENCES),
        *(("method_run", where, "FAIL", says) for _, *where, says in UNREAD),
        ("method_run", ("alltoallv", "mpi", "cpmd-mini"), "pass", ""),
        *(("method_run", ("alltoallv", layout), "pass", "") for layout in ("mpi", "node")),
    ],
)
def test_what_went_wrong_fails_by_name_and_the_others_pass(request, run, where, word, says):
    """Methods of a launch that went wrong are not judged."""
    run = request.getfixturevalue(run)
    assert run.code == 1
    judged = run.case(*where)
    assert judged["verdict"] == word
    assert says in judged["cause"]
    assert says in run.said
    if where[0] == "" and word != "pass":
        of_launch = {"layout": where[1], "case": where[2]}.items()
        methods = [c for c in run.verdict["cases"] if c["method"] and of_launch <= c.items()]
        assert {case["verdict"] for case in methods} == {"not measured"}
