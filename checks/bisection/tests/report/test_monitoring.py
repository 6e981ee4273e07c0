"""The alert rules and the dashboard, by promtool on nights as bisection.prom has them."""

import json
import re
import shutil
import subprocess
from dataclasses import replace

import pytest
import yaml
from reports import PLACE, case, change_point, event, failure, families, only, ran

from bisection.core import paths
from bisection.core.reasons.launches import NodeFail, OutOfMemory
from bisection.core.verdicts import Verdict
from bisection.judge.alarms import alarms_of
from bisection.report import exports

FILES = paths.ROOT / "site-configs/monitoring"
PANELS = json.loads((FILES / "grafana.json").read_text())["panels"]
HOUR, DAY = 3600.0, 24  # s, h: a sample an hour

pytestmark = pytest.mark.skipif(not shutil.which("promtool"), reason="needs promtool")


def metrics(used):
    """Of a test: its time, with that part of its allowance used, and one that has no limits."""
    judged = case(seconds=1.0 + used, metrics={"pack_share": (0.2, "share")})
    time = replace(judged.metrics[0], low=1.0, high=2.0, reference=1.2)
    return replace(judged, metrics=[time, *judged.metrics[1:]])


def nights():
    """Two good ones, one that fails and accuses a node, two that measure nothing, an alarm."""
    killed = failure(reason=OutOfMemory(job="7", nodes="cn1"), check="md", hosts=["cn1"])
    unmeasured = failure(Verdict.NOT_MEASURED, NodeFail(job="8", nodes="cn[1-2]"))
    slower = metrics(0.75)
    cases = [[metrics(0.25)], [metrics(0.5)], [slower, killed], [unmeasured], [unmeasured]]
    for night, tests in enumerate([*cases, [slower]]):
        events = [event(change_point(1.3))] if tests == [slower] else []
        run = ran(*tests, started=HOUR * DAY * night + 60, alarms=tuple(alarms_of(events)))
        yield only(run=run, events=events, of_run=True)


@pytest.fixture(scope="module")
def series():
    """Name and labels -> a value an hour, None where the file had none."""
    values, texts = {}, [exports.prometheus(report) for report in nights()]
    texts.append(texts[-1])  # a night that does not run
    for night, text in enumerate(texts):
        for name, samples in families(text).items():
            for labels, value in samples:
                pairs = ",".join(f'{label}="{value}"' for label, value in sorted(labels.items()))
                hours = values.setdefault(f"{name}{{{pairs}}}", [None] * DAY * len(texts))
                hours[night * DAY : (night + 1) * DAY] = [value] * DAY
    return values


@pytest.fixture
def ask(series, tmp_path):
    """Asks Prometheus for an expression at an hour; returns the labels and value of each sample."""

    def asked(hour, expression):
        known = [
            {"series": name, "values": " ".join("_" if v is None else repr(v) for v in values)}
            for name, values in series.items()
        ]
        expected = [{"expr": expression, "eval_time": f"{hour}h", "exp_samples": []}]
        test = {"interval": "1h", "input_series": known, "promql_expr_test": expected}
        rules = {"rule_files": [str(FILES / "alerts.yml")], "evaluation_interval": "1h"}
        file = tmp_path / "tests.yml"
        file.write_text(yaml.safe_dump({**rules, "tests": [test]}))
        run = subprocess.run(["promtool", "test", "rules", file], capture_output=True, text=True)
        got = re.search(r"\n *got: (.*)", run.stdout + run.stderr)
        assert got or run.returncode == 0, run.stdout + run.stderr
        samples = re.findall(r"{(.*?)} ([-+.\w]+)", got[1]) if got else []
        return [(dict(re.findall(r'(\w+)="([^"]*)"', labels)), float(v)) for labels, v in samples]

    return asked


def test_the_gauges_follow_the_conventions_of_prometheus():
    """Of names, units, help and labels, as promtool checks them."""
    texts = map(exports.prometheus, nights())
    assert [check(["check", "metrics"], text) for text in texts] == [""] * 6


def check(command, text=""):
    run = subprocess.run(["promtool", *command], input=text, capture_output=True, text=True)
    return run.stdout + run.stderr


@pytest.mark.parametrize(
    ("hour", "firing"),
    [
        (12, []),
        (36, []),
        (60, ["BadNode cn1", "Failed"]),
        (84, ["BadNode cn1", "BadNode cn2"]),  # one night that measured nothing
        (108, ["BadNode cn1", "BadNode cn2", "NotMeasured"]),
        (132, ["Alarm", "Slower"]),
        (162, ["Alarm", "NightMissing", "Slower"]),  # the file stays as it was
    ],
)
def test_alerts(ask, hour, firing):
    alerts = [labels for labels, _ in ask(hour, 'ALERTS{alertstate="firing"}')]
    names = [f"{a['alertname']} {a.get('node', '')}".strip() for a in alerts]
    assert sorted(names) == [f"Bisection{name}" for name in firing]
    assert {alert["system"] for alert in alerts} <= {"localhost"}


TEST = {n: PLACE[n] for n in ("system", "partition")} | {"check": "transpose"}


@pytest.mark.parametrize(
    ("title", "hour", "samples"),
    [
        ("Verdict of the last run", 60, [({}, 1)]),
        ("Time since the last run", 130, [({}, 10 * HOUR - 60)]),
        ("Bad nodes", 84, [({"node": "cn1"}, 1), ({"node": "cn2"}, 1)]),
        ("Bad nodes", 132, []),
        ("Tests by verdict", 60, [({"verdict": "FAIL"}, 1), ({"verdict": "pass"}, 1)]),
        ("Slower metrics, and alarms", 132, [({}, 1)]),
        ("Alarms of the history", 132, [({"check": "transpose", "session": "feedbeef"}, 1)]),
        ("Metrics nearest to their limit", 36, [({**TEST, "metric": "time"}, 0.5)]),
        ("Time of a step", 132, [({**TEST, "metric": "time"}, 1.75)]),
    ],
)
def test_panels(ask, title, hour, samples):
    """Each query of a panel gives what it should; zeros are left out."""
    (panel,) = (panel for panel in PANELS if panel["title"] == title)
    answers = [
        (labels, value)
        for query in panel["targets"]
        for labels, value in ask(hour, re.sub(r"\$\w+", ".*", query["expr"]))
        if value
    ]
    assert len(answers) == len(samples)
    for (labels, value), (named, expected) in zip(answers, samples, strict=True):
        assert labels == labels | named
        assert value == pytest.approx(expected)


def test_each_panel_is_asked_for_and_no_gauge_is_idle(series):
    (cases,) = (mark.args[1] for mark in test_panels.pytestmark)
    assert {panel["title"] for panel in PANELS} == {title for title, *_ in cases}
    texts = [query["expr"] for panel in PANELS for query in panel["targets"]]
    texts.append((FILES / "alerts.yml").read_text())
    asked = set(re.findall(r"bisection_\w+", str(texts)))
    assert {name.partition("{")[0] for name in series} <= asked
