"""What is read of Slurm: outputs of several versions and of unlike machines (folder slurm/)."""

import os
import random
from pathlib import Path
from unittest.mock import Mock

import pytest

from bisection import schedulers
from bisection.core.commands import Answer
from bisection.schedulers import slurm as slurm_jobs
from bisection.schedulers import slurm_records as slurm
from bisection.schedulers import survey
from bisection.schedulers.slurm_records import node_records, record_of, takes_jobs

# squeue's JOB STATE CODES.
ENDED = (
    "BOOT_FAIL CANCELLED COMPLETED DEADLINE FAILED NODE_FAIL OUT_OF_MEMORY PREEMPTED REVOKED "
    "TIMEOUT"
).split()
NOT_ENDED = (
    "COMPLETING CONFIGURING PENDING REQUEUED REQUEUE_FED REQUEUE_HOLD RESIZING RESV_DEL_HOLD "
    "RUNNING SIGNALING SPECIAL_EXIT STAGE_OUT STOPPED SUSPENDED"
).split()
OUTPUTS = Path(__file__).with_name("slurm")


@pytest.mark.parametrize("state", [*ENDED, *NOT_ENDED])
def test_a_job_in_each_state_of_slurm_is_alive_or_has_ended(monkeypatch, state):
    monkeypatch.setattr(slurm_jobs, "job_record", lambda _: ({"JobState": state}, ""))
    assert schedulers.of("slurm").look(Mock(jobid="7")).alive == (state in NOT_ENDED)


def queues(name, account="", groups=(), accounts=()):
    text = (OUTPUTS / f"{name}.txt").read_text()
    return {queue.name: queue for queue in slurm.queues(text, text, account, set(groups), accounts)}


def groups(queue):
    """(cores, CPUs per core, sockets, gres, constraint, nodes, nodes that are up) of each."""
    return [(*g.known.kind, g.constraint, len(g.nodes), g.up) for g in queue.groups]


def names(group):
    return [node.name for node in group.nodes]


GROUPS = {
    ("20.11-threads", "standard"): [(120, 2, 2, "", "", 3, 1)],
    ("22.05-unlike", "mixed"): [(1, 1, 1, "", "thin", 2, 2), (2, 1, 1, "", "fat", 2, 1)],
    ("22.05-unlike", "shared"): [(2, 1, 1, "", "", 2, 1)],
    ("23.11-gpu", "gpu"): [(8, 2, 1, "gpu:2", "", 1, 1)],
    ("24.05-spared", "g"): [(56, 2, 1, "gpu:mi250:8", "", 4, 3)],
    ("25.05-grace", "normal"): [(284, 1, 4, "gpu:4", "", 4, 4)],
    ("25.05-grace", "mix"): [(284, 1, 4, "gpu:4", "", 4, 4), (128, 1, 2, "", "", 1, 1)],
}


def test_groups_of_alike_nodes():
    assert {names: groups(queues(names[0])[names[1]]) for names in GROUPS} == GROUPS


def test_limits_of_queues():
    standard = queues("20.11-threads")["standard"]
    assert (standard.max_time, standard.max_nodes, standard.whole_nodes) == (172800, 16, True)
    unlike = queues("22.05-unlike")
    assert (unlike["mixed"].max_time, unlike["mixed"].max_nodes) == (86400, None)
    assert (unlike["shared"].max_time, unlike["shared"].max_nodes) == (None, 1)
    assert [unlike[name].shared for name in ("mixed", "shared")] == [False, True]


A1 = {"account": "a1", "accounts": ["a1", "a7"]}
A3 = {"account": "a3", "groups": ["users"]}
A9 = {"account": "a9"}


@pytest.mark.parametrize(
    ("version", "queue", "user", "says"),
    [
        ("22.05-unlike", "mixed", A3, None),
        ("22.05-unlike", "down", A3, "it has State=INACTIVE"),
        ("20.11-threads", "long", A3, "only members of"),
        ("20.11-threads", "long", {"groups": ["wheel"]}, None),
        ("20.11-threads", "empty", A3, "it has no nodes"),
        ("23.11-gpu", "debug", A3, "it has ReqResv=YES"),
        ("24.05-spared", "admin", A3, "it has RootOnly=YES"),
        ("20.11-threads", "project", {"account": "a2"}, None),
        ("20.11-threads", "project", A9, "account a9 cannot use it; --account can be: a1, a2"),
        ("20.11-threads", "project", {**A9, "accounts": ["a9"]}, "can be: none"),
        ("24.05-spared", "shared", A1, "can be: a7"),
    ],
)
def test_queues_that_a_user_cannot_use(version, queue, user, says, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    closed = queues(version, **user)[queue].closed
    assert (closed is None) == (says is None)
    assert says is None or (f"queue {queue}: " in str(closed) and says in str(closed))


def test_queues_of_groups_and_of_root_are_open_to_root(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert queues("20.11-threads")["long"].closed is None
    assert queues("24.05-spared")["admin"].closed is None


def test_values_with_blanks_and_equals_signs():
    *_, fields = node_records((OUTPUTS / "22.05-unlike.txt").read_text())
    assert fields["Reason"] == "bad DIMM, ticket=4711"
    assert fields["OS"] == "Linux 6.18.44-fc-v657 #1 SMP PREEMPT_DYNAMIC @0"
    assert (fields["AllocTRES"], fields["Gres"], fields["State"]) == ("", "", "IDLE+DRAIN")
    job = "JobId=7 JobState=RUNNING NodeList=n1 Command=/a JobState=x/run NodeList=n9"
    assert record_of(job)["JobState"] == "RUNNING"
    assert record_of(job)["NodeList"] == "n1"


FREE = ("Reason", "Comment", "Extra")
WORDS = (
    "State=IDLE State=DOWN CPUTot=2 CPUEfctv=2 CoresPerSocket=1 Sockets=8 Partitions=other "
    "Gres=gpu:8 CoreSpecCount=5 AvailableFeatures=x NodeName=n9 Reason=none Comment=1 Extra= "
    'moved: DIMM ü #4711 = " [now] State A=b=c'
)


def in_words(rng, *, lines=False):
    """What somebody may write into a node's Reason, Comment or Extra."""
    words = [*WORDS.split(), '{"seen":"CPUTot=2 Sockets=1"}', *(["\n"] if lines else [])]
    return " ".join(rng.choices(words, k=rng.randrange(8)))


def with_words(line, rng):
    """A node's line with such words, in the order of any version of Slurm; and its reason."""
    reason, comment, extra = (in_words(rng, lines=name == "Reason") for name in FREE)
    first, *further = [text for text in reason.split("\n") if text] or [""]
    # As slurm_sprint_node_table writes a reason of several lines.
    written = [f"{first} [root@1795334400]", *(f"        {text}" for text in further)]
    fields = [f"Reason={' '.join(written)}", f"Comment={comment}", f"Extra={extra}"]
    fields = fields if rng.random() < 0.5 else [*fields[1:], fields[0]]
    return " ".join([line.partition(" Reason=")[0], *fields])


VERSIONS = ["20.11-threads", "22.05-unlike", "24.05-spared", "25.05-grace"]


@pytest.mark.parametrize("version", VERSIONS)
def test_no_words_about_a_node_change_what_it_is(version):
    """Those of its queue, its cores and its state are Slurm's own."""
    text = (OUTPUTS / f"{version}.txt").read_text()
    expected, rng = [*slurm.queues(text, text, "", set())], random.Random(4711)
    nodes = [line for line in text.splitlines() if line.startswith("NodeName=")]
    for _ in range(200):
        lines = "\n".join(with_words(line, rng) for line in nodes)
        for queue, other in zip(slurm.queues(text, lines, "", set()), expected, strict=True):
            assert groups(queue) == groups(other)
            assert [names(group) for group in queue.groups] == [*map(names, other.groups)]


@pytest.mark.parametrize(
    ("fields", "name", "value"),
    [
        ("RealMemory=4017 AllocMem=0", "memory", 4017 * 2**20),
        ("RealMemory=4017 MemSpecLimit=17", "memory", 4000 * 2**20),
        ("RealMemory=1", "memory", 0),  # as where slurm.conf names none
        ("", "memory", 0),
        # Only some cores have two threads.
        ("CoresPerSocket=10 Sockets=1 CPUTot=16 CPUEfctv=16 ThreadsPerCore=1", "cores", 10),
        ("CoresPerSocket=10 Sockets=1 CPUTot=16 CPUEfctv=14 CoreSpecCount=1", "cores", 9),
        ("CoresPerSocket=10 Sockets=1 CPUTot=16 CoreSpecCount=2", "cores", 8),
        ("CoresPerSocket=10 Sockets=1 CPUTot=20 CPUEfctv=20 ThreadsPerCore=2", "cores", 10),
        ("CoresPerSocket=24 Sockets=1 CPUTot=32 CPUEfctv=32", "cores", 24),
    ],
)
def test_memory_and_cores_of_a_node_that_jobs_may_have(fields, name, value):
    assert getattr(slurm.node(record_of(f"NodeName=n1 {fields} State=IDLE")), name) == value


# scontrol's base states and flags of nodes, of Slurm 22.05 to 25.05: whether such a node takes jobs
# now, or once its jobs have ended, or once it has woken up.
NODE_STATES = {
    "ALLOCATED": True,
    "IDLE": True,
    "MIXED": True,
    "DOWN": False,
    "ERROR": False,
    "FUTURE": False,
    "UNKNOWN": False,
    "IDLE*": False,
    "IDLE+BLOCKED": True,
    "IDLE+CLOUD": True,
    "ALLOCATED+COMPLETING": True,
    "IDLE+COMPLETING": True,
    "IDLE+DRAIN": False,
    "ALLOCATED+DRAIN": False,
    "IDLE+DYNAMIC_FUTURE": True,
    "IDLE+DYNAMIC_NORM": True,
    "MIXED+CLOUD+DYNAMIC_NORM": True,
    "DOWN+DYNAMIC_NORM": False,
    "IDLE+FAIL": False,
    "DOWN+INVALID_REG": False,
    "IDLE+DRAIN+INVALID_REG": False,
    "IDLE+MAINTENANCE": False,
    "IDLE+MAINTENANCE+RESERVED": False,
    "IDLE+NOT_RESPONDING": False,
    "IDLE+PERFCTRS": False,
    "IDLE+PLANNED": True,
    "MIXED+PLANNED": True,
    "IDLE+CLOUD+POWER_DOWN": True,
    "IDLE+CLOUD+POWERED_DOWN": True,
    "IDLE+CLOUD+POWERING_DOWN": True,
    "IDLE+CLOUD+POWERING_UP": True,
    "ALLOCATED+CLOUD+NOT_RESPONDING+POWERING_UP": False,
    "DOWN+CLOUD+POWERED_DOWN": False,
    "IDLE+POWER_UP": True,
    "IDLE+REBOOT_CANCELED": True,
    "DOWN+REBOOT_ISSUED": False,
    "IDLE+REBOOT_REQUESTED": False,
    "IDLE+RESERVED": True,  # see the reservations
    "IDLE+RESUME": True,
    "IDLE+UNDRAIN": False,
}


@pytest.mark.parametrize(("state", "takes"), NODE_STATES.items())
def test_states_of_nodes(state, takes):
    assert takes_jobs(state) == takes


# Recorded: 22.05.8 of Debian. Composed after srun(1): 20.11, which prints on standard error.
RECORDED = """\
MPI plugin types are...
\tpmix
\tnone
\tcray_shasta
\tpmi2
specific pmix plugin versions available: pmix_v4
"""
OLD = "srun: MPI types are...\nsrun: cray_shasta\nsrun: none\nsrun: pmi2\n"
TYPES = {  # (output, errors, default) -> types
    (RECORDED, "", "pmix"): ["pmix", "cray_shasta", "pmi2"],
    (RECORDED, "", "none"): ["none", "pmix", "cray_shasta", "pmi2"],
    ("", OLD, "none"): ["none", "cray_shasta", "pmi2"],
    ("", "srun: command not found", "none"): ["none"],
}


def test_types_of_srun():
    types = {key: slurm.mpi_types(Answer("srun", 0, *key[:2]), key[2]) for key in TYPES}
    assert types == TYPES


MEMORY = {
    "JobState=RUNNING TRES=cpu=8,mem=8000M,node=2,billing=8": 8000 * 2**20,
    "ReqTRES=cpu=1,mem=1G,node=1 AllocTRES=cpu=2,mem=187.50G,node=1": 187.5 * 2**30,
    "JobState=RUNNING TRES=cpu=8,node=2,billing=8": 0,
}


def test_time_limits_and_the_memory_that_a_job_was_given():
    texts = ("00:30:00", "1-00:00:00", "1:00", "UNLIMITED", "")
    assert [*map(survey.seconds_of, texts)] == [1800, 86400, 60, None, None]
    assert {text: slurm.allocated_memory(record_of(text)) for text in MEMORY} == MEMORY


NO_PLACE = "Requested node configuration is not available"


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        (f"allocation failure: {NO_PLACE}", f"sbatch: allocation failure: {NO_PLACE}"),
        ("allocation failure: Unable to contact slurm controller (connect failure)", ""),
        ("sbatch: error: Batch job submission failed: Invalid qos specification", ""),
        ("policy: qos long is not available\nsbatch: error: Batch job submission failed: x", ""),
    ],
)
def test_only_what_has_no_place_cannot_be_placed(commands, words, refusal):
    commands("sbatch", f"echo '{words}' >&2; exit 1")
    job = Mock(**{"scheduler.get_option": lambda name: []}, script_filename="script")
    assert schedulers.of("slurm").place(job) == refusal


# As Slurm 22.05 prints them, with times as the suite asks for them.
RESERVED = "\n".join(
    f"ReservationName={name} StartTime=1796044942 EndTime=1796046142 Duration=00:20:00 "
    f"Nodes={nodes} NodeCnt=3 CoreCnt=3 Features=(null) PartitionName=(null) "
    f"Flags={flags} TRES=cpu=3 Users={users} Groups=(null) Accounts={accounts} "
    f"Licenses=(null) State={state} BurstBuffer=(null) Watts=n/a MaxStartDelay=(null)"
    for name, nodes, flags, users, accounts, state in (
        ("upgrade", "n[1-3]", "MAINT,SPEC_NODES", "root,alice", "(null)", "ACTIVE"),
        ("others", "n4", "SPEC_NODES", "-bob", "physics,biology", "ACTIVE"),
        ("later", "n[1-4]", "SPEC_NODES", "root", "(null)", "INACTIVE"),
        ("drawing", "n6", "SPEC_NODES,MAGNETIC", "alice", "(null)", "ACTIVE"),
    )
)
RESERVED += "\n" + RESERVED.splitlines()[0].replace("=upgrade", "=cores").replace(
    "n[1-3] NodeCnt=3", "n5 NodeCnt=1 NodeName=n5 CoreIDs=0-1"
).replace("MAINT,", "")
STATES = {  # of the nodes n1, n2, ...; None: such as n5 are in no reservation
    "n1": "IDLE+MAINTENANCE+RESERVED",
    "n2": "MAINT",  # of Slurm 20.11
    "n3": "IDLE+DRAIN+MAINTENANCE+RESERVED",
    "n4": "RESERVED",
    "n5": "IDLE",
    "n6": "IDLE+RESERVED",
}
HOUSE = "\n".join(
    f"NodeName={name} CoresPerSocket=4 CPUTot=4 Sockets=1 State={state} Partitions=all,resv"
    for name, state in STATES.items()
)
QUEUES = "PartitionName=all State=UP\nPartitionName=resv State=UP ReqResv=YES"


@pytest.fixture
def held(commands):
    """The reservations of a cluster that has these."""
    commands("scontrol", f"cat <<'E'\n{RESERVED}\nE")
    return slurm.reservations()


@pytest.mark.parametrize(
    ("own", "down"),
    [
        (
            None,
            {
                "n1": "IDLE+MAINTENANCE+RESERVED, reservation upgrade",
                "n2": "MAINT, reservation upgrade",
                "n3": "IDLE+DRAIN+MAINTENANCE+RESERVED, reservation upgrade",
                "n4": "RESERVED, reservation others",
            },
        ),
        (
            "upgrade",
            {
                "n3": "IDLE+DRAIN",
                "n4": "not in reservation upgrade",
                "n5": "not in reservation upgrade",
                "n6": "not in reservation upgrade",
            },
        ),
        ("others", dict.fromkeys(("n1", "n2", "n3", "n5", "n6"), "not in reservation others")),
    ],
)
def test_nodes_of_a_reservation_take_its_jobs(held, own, down):
    holding = [each for each in held.values() if each.holds("alice", {"physics": {"physics"}})]
    infos = slurm.queues(QUEUES, HOUSE, "", set(), (), holding, held.get(own))
    every, reserved = infos
    assert dict(every.groups[0].down) == down
    assert (reserved.closed is None) == bool(own)


@pytest.mark.parametrize(
    ("name", "user", "accounts", "says"),
    [
        ("upgrade", "alice", ["physics"], None),
        ("upgrade", "bob", [], "reservation upgrade has Users=root,alice, not bob"),
        ("others", "alice", ["physics", "chemistry"], None),
        ("others", "alice", [], None),  # Slurm knows its account, we do not
        ("others", "bob", ["physics"], "reservation others has Users=-bob, not bob"),
        ("others", "alice", ["chemistry"], "has Accounts=physics,biology, not chemistry"),
        (
            *("later", "root", []),
            "later is not active: it is from 2026-11-30 13:22 UTC to 2026-11-30 13:42 UTC",
        ),
    ],
)
def test_who_may_use_a_reservation_and_when(held, name, user, accounts, says):
    closed = held[name].closed(user, {account: {account} for account in accounts})
    assert (closed is None) == (says is None)
    assert says is None or says in str(closed)


@pytest.mark.parametrize(
    ("title", "is_open"),
    [("science", True), ("physics", True), ("arts", False), ("-science", False), ("-arts", True)],
)
def test_a_parent_account_lets_its_children_in(commands, title, is_open):
    tree = "physics|science\nscience|root\nroot|\nphysics|"
    commands("sacctmgr", f"case $5 in *physics*|*science*|*root*) cat <<'E'\n{tree}\nE\nesac")
    lineages = slurm._lineages(["physics"], "cluster")
    assert lineages == {"physics": {"physics", "science", "root"}}
    line = RESERVED.splitlines()[1].replace("physics,biology", title).replace("-bob", "(null)")
    commands("scontrol", f"cat <<'E'\n{line}\nE")
    closed = slurm.reservations()["others"].closed("alice", lineages)
    assert (closed is None) == is_open


def test_without_a_database_an_account_is_itself_alone(commands):
    commands("sacctmgr", "exit 1")
    assert slurm._lineages(["physics"], "cluster") == {"physics": {"physics"}}


def test_reservations_that_draw_jobs_hold_nodes_for_others_only(held):
    assert [name for name, each in held.items() if each.holds("alice", {})] == ["upgrade", "others"]
    assert "drawing" in [name for name, each in held.items() if each.holds("bob", {})]


def test_without_reservations_or_an_answer_there_are_none(commands):
    for words in ("echo No reservations in the system", "exit 1"):
        commands("scontrol", words)
        assert slurm.reservations() == {}


def test_nodes_that_jobs_of_a_reservation_may_ask_for(held, commands):
    states = {"n1|h1": "maint", "n2|h2": "alloc", "n5|h5": "idle"}
    rows = "\n".join(f"{node}|{state}|all*|(null)|none" for node, state in states.items())
    commands("sinfo", f"cat <<'E'\n{rows}\nE")
    access = ["--partition=all", "--reservation=upgrade"]
    nodes = schedulers.of("slurm").nodes_of(access)
    assert [(node.name, node.host, node.state) for node in nodes] == [
        ("n1", "h1", "idle"),
        ("n2", "h2", "alloc"),
    ]
    assert schedulers.of("slurm").nodes_of(["--reservation=unknown"]) == []


def test_a_reason_may_have_the_word_none(commands):
    rows = "n1|n1|drain|cpu*|(null)|nonessential fan, none left\nn2|n2|idle|cpu*|(null)|none"
    commands("sinfo", f"cat <<'E'\n{rows}\nE")
    nodes = schedulers.of("slurm").nodes_of(["--partition=cpu"])
    assert [node.why for node in nodes] == ["nonessential fan, none left", ""]
