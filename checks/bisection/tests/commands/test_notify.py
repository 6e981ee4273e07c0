"""Verdicts that are sent to HTTP endpoints, by a server that is slow, refuses, and dies."""

import json
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest
from reframe.core import logging
from reports import case, failure, only, ran
from running import SITES

from bisection import schedulers
from bisection.core.paths import AUTHORIZATION, AUTHORIZATION_FILE
from bisection.core.reasons.launches import OutOfMemory
from bisection.core.thresholds import LIMITS
from bisection.core.verdicts import BisectionError
from bisection.judge.every_node import Survey
from bisection.night import night
from bisection.night.notify import FOLDER, Endpoint, authorization, send
from bisection.night.prepare import Order
from bisection.rfm import internals


class Handler(BaseHTTPRequestHandler):
    """Answers by the last part of the path: a status code, or several for one try each."""

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.met.append((self.path, self.headers.get("Authorization"), body))
        kind = self.path.rpartition("/")[2]
        if kind == "slow":
            time.sleep(3)
        elif kind == "dies":
            return self.connection.close()
        elif kind == "endless":  # a header, of which no end comes
            for _ in range(30):
                self.wfile.write(b"HTTP/1.1 200 OK\r\nX: "[:1])
                time.sleep(0.1)
        tries = sum(path == self.path for path, *_ in self.server.met)
        codes = [int(code) for code in kind.split("-") if code.isdigit()] or [200]
        self.send_response(codes[min(tries, len(codes)) - 1])
        self.send_header("Location", "/elsewhere/200")
        self.send_header("Content-Length", "0")
        return self.end_headers()

    def log_message(self, *words):
        """Prints nothing."""


@pytest.fixture
def server():
    """An HTTP server on loopback; `met` has the path, authorization and body of each request."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.met, server.daemon_threads = [], True
    server.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def sent(server, tmp_path):
    """sent("200", ...): the lines after a failed run for endpoints of these paths."""
    run = ran(case(), failure(reason=OutOfMemory(job="7", nodes="cn1"), hosts=["cn1"]))
    report = only(run=run, of_run=True, folder=tmp_path)

    def after(*endpoints):
        full = [text if "://" in text else f"{server.url}/{text}" for text in endpoints]
        return [*send(report, run, [*map(Endpoint.parsed, full)], tmp_path)]

    return after


def kept(tmp_path):
    return [json.loads(f.read_text())["url"] for f in sorted((tmp_path / FOLDER).glob("*.json"))]


def test_an_endpoint_gets_the_verdict(sent, server, tmp_path):
    (line,) = sent("hooks/200")
    assert line == f"notify: 127.0.0.1:{server.server_port}: 200 OK"
    ((path, authorization, body),) = server.met
    assert (path, authorization) == ("/hooks/200", None)
    assert (body["outcome"], body["exit_code"], body["system"]) == ("FAILED", 1, "localhost")
    assert body["verdict"].startswith("FAIL: 1 of 2 checks passed, 1 failed")
    assert [*body["bad_nodes"]] == ["cn1"]
    assert body["@timestamp"] == "2026-11-21T08:00:00+00:00"
    (bad,) = body["bad"]
    assert bad["partition"] == "localhost:default"
    assert "memory" in bad["cause"]
    assert not {"cases", "launches"} & body.keys()
    assert kept(tmp_path) == []


def test_a_chat_gets_a_text(sent, server):
    assert "200 OK" in sent(f"chat={server.url}/200")[0]
    ((_, _, body),) = server.met
    assert [*body] == ["text"]
    first, advice, report = body["text"].splitlines()
    assert first.startswith("**localhost: FAIL: 1 of 2 checks passed")
    assert advice == "bad nodes: cn1"
    assert report.endswith("/report.html")


def test_authorization_is_of_the_environment_or_a_file(sent, server, tmp_path, monkeypatch):
    monkeypatch.setenv(AUTHORIZATION, "127.0.0.1 ApiKey abc")
    sent("200")
    (tmp_path / "secret").write_text("elastic.example.org ApiKey x\n\n127.0.0.1 Bearer def\n")
    monkeypatch.setenv(AUTHORIZATION_FILE, str(tmp_path / "secret"))
    sent("200")
    assert [word for _, word, _ in server.met] == ["ApiKey abc", "Bearer def"]
    (tmp_path / "secret").unlink()
    with pytest.raises(BisectionError, match=r"200': .*No such file or directory: '.*secret'$"):
        sent("200")
    monkeypatch.delenv(AUTHORIZATION_FILE)
    monkeypatch.setenv("HOOK_PATH", "secret/200")
    lines = sent(f"{server.url}/$HOOK_PATH")  # and the message that waited, at the same time
    assert "secret" not in str(lines)
    assert {path for path, *_ in server.met[-2:]} == {"/200", "/secret/200"}


def test_authorization_goes_to_its_host_alone(sent, server, monkeypatch):
    monkeypatch.setenv(AUTHORIZATION, "127.0.0.1 ApiKey abc")
    sent("200", f"{server.url.replace('127.0.0.1', 'localhost')}/other/200")
    assert {path: word for path, word, _ in server.met} == {
        "/200": "ApiKey abc",
        "/other/200": None,
    }


@pytest.mark.parametrize(
    ("value", "url", "header"),
    [
        ("Elastic.example.org ApiKey abc", "https://ELASTIC.example.org:9200/x", "ApiKey abc"),
        ("elastic.example.org ApiKey abc", "https://elastic.example.org@evil.example.org/", None),
        ("elastic.example.org ApiKey abc", "https://elastic.example.org.evil.org/", None),
        ("::1 Basic a", "http://[::1]:9/x", "Basic a"),
        ("a.example.org Basic a", "http://b.example.org/", None),
        ("", "http://b.example.org/", None),
    ],
)
def test_the_host_of_a_header(monkeypatch, value, url, header):
    monkeypatch.setenv(AUTHORIZATION, value)
    assert authorization(url).get("Authorization") == header


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("ApiKey abc", f"line 1 of ${AUTHORIZATION} is not HOST SCHEME CREDENTIALS, such as "),
        ("elastic.example.org ApiKey x\nabc", f"line 2 of ${AUTHORIZATION} is not HOST SCHEME "),
        ("https://a.example.org Basic abc", f"line 1 of ${AUTHORIZATION} is not HOST SCHEME "),
        ("a.example.org Basic abc", "the authorization for a.example.org is sent by https:// "),
        ("127.0.0.1.example.org Basic abc", "the authorization for 127.0.0.1.example.org is sent "),
    ],
)
def test_a_wrong_authorization_is_told_before_the_run(monkeypatch, value, words):
    monkeypatch.setenv(AUTHORIZATION, value)
    host = value.partition(" ")[0] if "Basic" in value and "//" not in value else "a.example.org"
    with pytest.raises(BisectionError) as raised:
        Endpoint.parsed(f"http://{host}/x")
    assert str(raised.value).startswith(f"notify 'http://{host}/x': {words}")
    assert "abc" not in str(raised.value).partition(", such as ")[0]


def test_what_is_no_message_holds_no_other_up(sent, server, tmp_path):
    folder = tmp_path / FOLDER
    foreign = {
        "0-empty": "",
        "1-list": "[1]",
        "2-half": '{"url": "http://127.0.0.1:1/"}',
        "3-place": '{"url": "x", "body": {}}',
        "4-host": '{"url": "http://[1/", "body": {}}',
    }
    (folder / "5-folder.json").mkdir(parents=True)
    for name, text in foreign.items():
        (folder / f"{name}.json").write_text(text)
    *lines, last = sent("200")
    assert last.endswith(": 200 OK")
    assert [line.split()[1] for line in lines] == [f"{n}.json" for n in [*foreign, "5-folder"]]
    assert all(".json is no message (" in line for line in lines)
    assert len([*folder.glob("*.json.unreadable")]) == 6
    (line,) = sent("200")
    assert line.endswith(": 200 OK")
    assert len(server.met) == 2


def test_a_campaign_sends_its_verdict(server, home, monkeypatch):
    run = ran(case())
    partitions = [{"scheduler": "local", "access": [], "extras": {}}]
    made_up = {
        "measure_alone": lambda: None,
        "prepare": lambda order: (run.request, home / "site.py", partitions),
        "look_at_machine": lambda *_: None,
        "begun": lambda *_: SimpleNamespace(
            survey=lambda: Survey((), (), (1,)), schedulers=[schedulers.of("local")]
        ),
        "measure_all": lambda *_: run,
    }
    for name, does in made_up.items():
        monkeypatch.setattr(night, name, does)
    order = Order(every_node="spring", notify=(f"{server.url}/200",))
    _, lines = night.run_night(order)
    assert lines[-1].endswith(": 200 OK")
    ((_, _, body),) = server.met
    assert body["session"] == run.session


@pytest.mark.parametrize(
    ("answers", "text", "tries"),
    [
        ("503-502-200", "200 OK", 3),
        ("503", "503 Service Unavailable; 1 message kept for the next run", 4),
        ("401", "401 Unauthorized; 1 message kept for the next run", 1),
        ("302", "302 Found; 1 message kept for the next run", 1),
        ("400", "400 Bad Request, the message is dropped", 1),
    ],
)
def test_what_an_endpoint_answers(sent, server, answers, text, tries):
    (line,) = sent(answers)
    assert line.endswith(f": {text}")
    assert len(server.met) == tries


@pytest.mark.parametrize("kind", ["slow", "endless"])
def test_an_endpoint_without_an_answer_holds_nothing_up(sent, tmp_path, monkeypatch, kind):
    monkeypatch.setattr(LIMITS, "notify", 0.5)
    lines = sorted(sent(kind, "http://user:word@127.0.0.1:1/secret"))
    assert len(lines) == 2
    assert all(line.endswith("; 1 message kept for the next run") for line in lines)
    assert "secret" not in str(lines)
    assert "word" not in str(lines)
    assert len(kept(tmp_path)) == 2


def test_messages_wait_for_an_endpoint_that_is_away(sent, server, tmp_path, monkeypatch):
    monkeypatch.setattr(LIMITS, "notify_kept", 3)
    monkeypatch.setenv("PLACE", "127.0.0.1:1")  # nobody listens there
    for count in (1, 2, 3):
        (line,) = sent("http://$PLACE/200")
        assert "Connection refused" in line
        assert line.endswith(f"{count} message{'s' * (count > 1)} kept for the next run")
    assert (tmp_path / FOLDER).stat().st_mode & 0o077 == 0
    dropped, _ = sent("http://$PLACE/200")
    assert dropped.endswith("is dropped: more than 3 messages wait")
    monkeypatch.setenv("PLACE", server.url.removeprefix("http://"))
    assert sent() == [f"notify: 127.0.0.1:{server.server_port}: 200 OK"]
    assert len(server.met) == 3
    assert kept(tmp_path) == []
    assert sent() == []


def test_a_connection_that_dies_is_tried_again(sent, server):
    assert "1 message kept for the next run" in sent("dies")[0]
    assert len(server.met) == 4


@pytest.mark.parametrize("text", ["chat.example.org", "ftp://x", "x=", "none.json=http://x/1"])
def test_what_is_no_endpoint(text):
    with pytest.raises(BisectionError, match=r"^notify"):
        Endpoint.parsed(text)


# ---- ReFrame's own records, by its handler httpjson, as README.md of monitoring has it ----


@pytest.fixture
def logging_run(bisection, tmp_path):
    """logging_run(url): a Run on the site localhost, whose file has the documented lines."""

    def run(url):
        text = (SITES / "monitoring" / "README.md").read_text()
        (lines,) = re.findall("```python\n(.*?)```", text, re.S)
        (documented,) = re.findall(r"https://[^\"]+", lines)
        site = (SITES / "localhost.py").read_text()
        site = site.replace('str(Path(__file__).with_name("common.py"))', f'"{SITES}/common.py"')
        file = tmp_path / "localhost.py"
        file.write_text(f"{site}\n{lines.replace(documented, url)}")
        return bisection("--system", str(file))

    return run


def test_each_test_is_a_record_with_its_metrics(logging_run, server):
    run = logging_run(f"{server.url}/_doc")
    assert run.code == 0, run.text
    (judged,) = [body for _, _, body in server.met if body["check_name"].startswith("transpose ")]
    assert judged["check_system"] == "localhost"
    assert judged["check_result"] == "pass"
    for metric in run.case("p2p")["metrics"]:
        known = {part: judged[f"check_perf_{metric['name']}_{part}"] for part in ("value", "unit")}
        assert known == {part: metric[part] for part in known}
        if metric["reference"] is not None:
            assert judged[f"check_perf_{metric['name']}_ref"] == metric["reference"]
    assert any(metric["reference"] is not None for metric in run.case("p2p")["metrics"])


@pytest.mark.parametrize("ends", ["dies", "500", "refused"])
def test_a_server_that_does_not_take_records_changes_no_verdict(logging_run, server, ends):
    url = "http://127.0.0.1:9" if ends == "refused" else f"{server.url}/{ends}"
    run = logging_run(url)
    assert (run.code, run.case("p2p")["verdict"]) == (0, "pass"), run.text
    log = (run.folder / "reframe.log").read_text()
    assert ("could not connect to server" if ends == "refused" else "could not log") in log


def test_reframe_does_not_wait_for_a_server_that_does_not_answer(server, monkeypatch):
    monkeypatch.setattr(logging, "requests", logging.requests)
    internals.limit_posts(0.2)
    for _ in range(3):
        with pytest.raises(logging.requests.exceptions.Timeout):
            logging.requests.post(f"{server.url}/slow", data="{}", headers={})
    assert len(server.met) == 1
    assert logging.requests.post(f"{server.url}/200", data="{}", headers={}).ok
