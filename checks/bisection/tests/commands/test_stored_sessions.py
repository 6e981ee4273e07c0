"""`bisection compare`, `history` and `report` on stored sessions."""

import json
import re
import shlex

import numpy as np
import pytest
from made_up import case, nights, sessions, store, tables, times
from running import joined, on_one_line

from bisection.core.format import WIDEST
from bisection.core.thresholds import LIMITS
from bisection.core.verdicts import Verdict


@pytest.fixture
def command(home, rng, command_line):
    """command(*arguments): (exit code, output, errors) on a store of 40 nights."""
    values = np.concatenate([times(rng), times(rng, 1.2)])
    store(
        home / "store.db", nights({"p2p": values, "shm": times(rng, count=40, sigma=0.01)})
    ).close()
    return command_line


BEFORE, AFTER = "2026-06-01..2026-06-20", "2026-06-21..2026-07-10"


@pytest.mark.parametrize(
    ("options", "code"),
    [([], 1), (["--fail-on", "missing"], 0), (["--fail-on", "nothing"], 0), (["-n", "shm"], 0)],
)
def test_exit_code_follows_fail_on(command, options, code):
    assert command("compare", BEFORE, AFTER, *options)[0] == code
    if "nothing" in options:
        assert command("compare", "latest~1", "latest", *options)[0] == 0


def test_comparison_as_text_and_as_json(command):
    _, text, _ = command("compare", BEFORE, AFTER)
    assert "1 regressed, 1 unchanged (of 2 metrics)" in text
    assert "bisection run --tier nightly --system lab -n '^transpose%" in joined(text)
    result = json.loads(command("compare", BEFORE, AFTER, "--json")[1])
    assert [row["verdict"] for row in result["rows"]] == [Verdict.REGRESSED, Verdict.UNCHANGED]
    assert len(result["before"]) == 20
    advice = [reason["text"] for reason in result["reasons"]["advice"]]
    assert [text.partition(":")[0].partition(",")[0] for text in advice] == [
        "no control",
        "with 20 and 20 nights",
    ]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("compare latest latest", "error: 'latest' and 'latest' both have session 00000027"),
        ("compare no/such.jsonl latest", "cannot read no/such.jsonl: No such file"),
        ("compare latest~1 latest --aa never", "error: 'never' names no session"),
        *(
            (f"compare a b --expected-ratio {ratio}", f"'{ratio}' is not a number from 0.01 to 100")
            for ratio in ("0", "nan")
        ),
        ("compare a b --name (", "argument -n/--name: '(' is no regular expression: missing )"),
        ("compare a b --control (", "error: argument"),
        ("compare a b --fail-on worse", "'worse': allowed are regressed, "),
        *(
            (f"compare --plan={part}", "is not a part such as 5%")
            for part in ("0", "-5%", "much", "101%", "nan")
        ),
        ("compare --budget 0", "'0' is not above 0"),
        ("compare --budget inf", "'inf' is not above 0"),
        ("compare --budget much", "'much' is not node-hours such as 20"),
        *(
            (f"history --false-alarms-per-year {rate}", f"'{rate}' is not a number from 0.01 to 50")
            for rate in ("0", "x", "1e9")
        ),
        ("history -n (", "bisection history: error: "),
        ("history never", "bisection history: error: "),
        ("report --aa", "error: argument"),
        ("references propose --least 1", "error: argument"),
        ("run --tag before", "argument --tag: 'before': not NAME=VALUE"),
        ("sessions exclude latest", "-m/--reason"),
        ("sessions exclude latest -m ' '", "-m/--reason"),
        ("sessions latest", "bisection sessions: error: argument ACTION: invalid choice: 'latest'"),
        ("doctor --jsno", "bisection doctor: error: unrecognized arguments: --jsno"),
        ("advise", "bisection advise: error: the following arguments are required: npar|md|eig"),
        ("compare latest~1 latest --aa latest", "'latest' and 'latest' both have session"),
        ("compare latest~1 latest --aa latest~1", "both have session 00000026"),
        ("bench store", "error: argument"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(command, arguments, says):
    code, _, errors = command(*shlex.split(arguments))
    assert (code, errors.count("\n")) == (2, 1)
    assert says in errors
    assert len([line for line in errors.splitlines() if "error:" in line]) == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("compare latest~1 latest", "2 inconclusive by too few nights (of 2 metrics)\n"),
        ("compare latest~1 latest", "1 against 1 sessions give no verdict on the machine"),
        ("compare 2026-06-01..2026-06-09 --plan 5%", "at least 10 nights with the same tests are"),
        ("compare --budget 20", "recorded their seconds"),
        ("history 2026-06-01..2026-06-05", "a change of level needs 6 sessions"),
    ],
)
def test_too_few_data_are_no_verdict(command, arguments, says):
    code, text, _ = command(*arguments.split())
    assert (code, says in text) == (3, True)


def test_history_names_the_night_and_an_accepted_event_is_no_alarm_until_it_is_revoked(command):
    code, text, _ = command("history")
    assert code == 4
    assert "2 metrics in 40 sessions: 1 metric worse" in text
    (name,) = re.findall(
        r"worse since 2026-06-2[^:]* on lab:cpu, session (\w+): ", on_one_line(text)
    )
    code, text, _ = command("history", "--accept", name, "-m", "slower disks")
    assert (code, text) == (0, f"{name}: accepted\n")
    code, text, _ = command("history")
    assert (code, "accepted (slower disks): worse since" in text) == (0, True)
    assert command("history", "--revoke", name)[0] == 0
    assert command("history")[0] == 4
    code, _, errors = command("history", "--accept", "ffff")
    assert (code, f"'ffff': no event of this name; events: {name}" in errors) == (2, True)


def test_history_begins_with_what_is_new_then_what_stands_then_what_is_no_alarm(
    home, rng, command_line
):
    """Of each night: the alarm that it raised is new in it, and known in the nights after it."""
    levels = np.ones((4, 10, 48))
    transpose, stream, md, ffte = levels
    transpose[:5, 29:], stream[:5, 40:], md[:5, 12:], ffte[3, 20:26] = 1.15, 1.4, 1.15, 0.4
    names = ("transpose", "stream", "md", "ffte")
    values = levels * np.exp(rng.normal(0, 0.01, levels.shape))
    store(home / "store.db", tables(dict(zip(names, values, strict=True)))).close()
    (name,) = re.findall(
        r"session (\w+): 5 of 10 metrics of md", on_one_line(command_line("history")[1])
    )
    assert command_line("history", "--accept", name, "-m", "new disks")[0] == 0
    days = [f"2026-07-{day:02d}" for day in range(10, 19)]
    looks = [command_line("history", f"2026-06-01..{day}")[1] for day in days]
    for line in "\n".join(looks).splitlines():
        assert len(line) <= WIDEST or " " not in line.strip("\\ "), line  # as a long path

    texts = [*map(on_one_line, looks)]
    known = r"new tonight: nothing worse since 2026-06-30, 11 nights, alarm since 2026-07-0\d, on"
    assert re.match(known, texts[0])
    others = (
        "worse since 2026-06-30",
        "better for 6 nights, then back: ffte cnt40 mpi m3 time, 2026-06-27",
        "accepted (new disks): worse since 2026-06-13 on lab:cpu",
        "40 metrics in 40 sessions: 5 metrics worse",
    )
    places = [*map(texts[0].find, others)]
    assert places == sorted(places)
    assert -1 not in places
    (new,) = [n for n, text in enumerate(texts) if not text.startswith("new tonight: nothing")]
    assert texts[new].startswith(f"new tonight: worse since 2026-07-11, {new} nights, on lab:cpu, ")
    for text in texts[new + 1 :]:
        assert f"alarm since {days[new]}, on lab:cpu, session 00000028: " in text
    out = home / "out"
    text = command_line("report", "earlier:20", days[new], "-o", str(out))[1]
    assert text.startswith("new tonight: worse since 2026-07-11")
    banner = (out / "report.md").read_text().splitlines()[2]
    assert re.search(r"new tonight: \d metrics worse since 2026-07-11, and 1 more alarm", banner)


def test_what_is_inconclusive_is_counted_by_reason_with_the_nights_that_decide(
    home, rng, command_line
):
    """Of 60 metrics some vary much, some have two states, and some are a little faster."""
    values = np.exp(rng.normal(0, 0.02, (60, 24)))
    values[:8] = np.exp(rng.normal(0, 0.15, (8, 24)))
    values[8:16] *= np.where(rng.random((8, 24)) < 0.5, 1.3, 1.0)
    values[16:26, 12:] *= 0.96
    store(home / "store.db", tables({"transpose": values})).close()
    sides = "2026-06-01..2026-06-12", "2026-06-13..2026-06-24"
    text = command_line("compare", *sides)[1]
    result = json.loads(command_line("compare", *sides, "--json")[1])
    verdicts = [row["verdict"] for row in result["rows"]]
    groups = {group["why"]: group for group in result["undecided"]}
    assert sum(group["metrics"] for group in groups.values()) == verdicts.count("inconclusive")
    assert {"noise", "two states", "a change below the margin"} <= groups.keys()
    assert int(groups["noise"]["nights"]) > 12
    improved = [row for row in result["rows"] if row["verdict"] == "improved"]
    assert all(row["ratio"] < 1 / (1 + LIMITS.margin) for row in improved)
    assert on_one_line(text).startswith(result["sentence"])
    counts = result["sentence"].replace("inconclusive by", "by")
    for why, group in groups.items():
        assert f"{group['metrics']} by {why}" in counts
        assert re.search(rf"^{why} +{group['metrics']} *{group['nights']}$", text, re.M)
    assert command_line("report", *sides, "-o", str(home / "out"))[1].count("inconclusive by") == 2
    assert "by noise" in (home / "out" / "report.md").read_text().splitlines()[2]


def test_what_got_worse_is_accepted_on_all_partitions_and_what_got_better_is_not(
    home, rng, command_line
):
    levels = {("a", "p2p"): 1.2, ("a", "shm"): 0.7, ("b", "p2p"): 1.3}
    content = sessions(0, (
        [case(method, {"time": (level if night >= 20 else 1) * rng.normal(1, 0.01)}, partition=name)
         for (name, method), level in levels.items()]
        for night in range(40)
    ))  # fmt: skip
    store(home / "store.db", content).close()

    def states():
        code, text, _ = command_line("history")
        since = (
            r"(better|accepted|worse)(?: \(accepted\): worse)? since \S+ [^:]*:., session 00000014:"
        )
        return code, sorted(re.findall(since, on_one_line(text))), text.count("--accept ")

    alarms = (4, ["better", "worse", "worse"], 2)
    assert states() == alarms
    assert command_line("history", "--accept", "00000014")[0] == 0
    assert states() == (0, ["accepted", "accepted", "better"], 0)
    assert command_line("history", "--revoke", "00000014")[0] == 0
    assert states() == alarms
    assert command_line("history", "-n", "shm", "--accept", "00000014")[0] == 2  # it is better


def test_report_from_the_store_and_where_it_cannot_be_written(command, tmp_path):
    code, text, errors = command("report", BEFORE, AFTER, "-o", str(tmp_path / "out"))
    assert code == 1, errors
    assert "report.html: " in text
    assert "history --accept" in text  # an alarm
    page = (tmp_path / "out" / "report.html").read_text()
    assert "1 regressed" in page
    assert len(page) < 1_000_000
    code, _, errors = command("report", BEFORE, AFTER, "-o", str(tmp_path / "store.db" / "x"))
    assert code == 2
    assert "Not a directory" in errors


def test_a_session_without_verdict_is_no_pass(home, command_line):
    """As a night leaves it that was killed, and imported."""
    store(home / "store.db", nights({"p2p": [1e-3]})).close()
    (home / "results" / "killed").mkdir(parents=True)
    assert command_line("report")[0] == 3
    assert "No verdict" in (home / "report" / "report.md").read_text()
    code, _, errors = command_line("verdict", str(home / "results" / "killed"))
    assert (code, "has no verdict: the run was stopped" in errors) == (3, True)


def test_smaller_changes_take_more_nights(command):
    needed = []
    for effect in ("5%", "0.06", "20%"):
        code, text, _ = command("compare", "--plan", effect)
        assert code == 0
        (line,) = [line for line in text.splitlines() if line.startswith("transpose")]
        needed.append(
            [int(number) for number in re.findall(r" (?:above )?(\d+)(?= |$)", line)[-3:]]
        )
    compared, alarm, repeated = np.transpose(needed)
    assert compared[0] > compared[1] > compared[2] >= LIMITS.fewest
    assert (alarm > repeated).all()
    assert (np.diff(alarm) <= 0).all()
    for ignored in (["latest", "latest~1"], ["--json"]):
        assert command("compare", *ignored, "--plan", "5%")[0] == 2


def test_launches_are_proposed_within_a_budget(home, rng, command_line):
    """On two or on four nodes; each launch twice a night."""

    def night(number):
        nodes = 2 if number < 12 else 4
        place = {"geometry": f"{nodes}x2x1", "hosts": [f"n{i}" for i in range(nodes)]}
        return [
            case(
                metrics={"time": level * rng.normal(1, 0.01)},
                case=name,
                seconds=[took + run],
                run=run,
                **place,
            )
            for name, level, took in (("small", 1e-3, 180.0), ("large", 1.0, 900.0))
            for run in (0, 1)
        ]

    tags = {"tier": "upgrade", "system": "lab", "environ": "system"}
    tags["arguments"] = "-n ^transpose --reruns=1"
    store(home / "store.db", sessions(0, map(night, range(24)), tags=tags)).close()
    code, text, _ = command_line("compare", "--budget", "1.0")
    assert code == 0
    rows = [line.split() for line in text.splitlines() if re.match(r"[24] ", line)]
    assert [row[0] for row in rows] == ["2", "4"]
    assert "0.20" in rows[0]
    assert "0.40" in rows[1]
    (line,) = [line for line in text.splitlines() if line.startswith("transpose large")]
    assert "1.00" in line  # node-hours on two nodes
    line = shlex.split(text.splitlines()[-1].partition("run it: ")[2])
    asked = ["run", "--tier", "upgrade", "--system", "lab", "--reruns=1"]
    names = ["-n", "^transpose%.*layout=mpi%launch.case=small(%|$)"]
    days = ["--against", "2026-06-01..2026-06-24"]
    assert line[line.index("run") :] == [*asked, *names, *days]
    code, _, errors = command_line("compare", "--budget", "0.1")
    assert (code, errors.count("\n")) == (2, 1)
    assert "transpose small mpi, takes 0.20 node-hours" in errors
