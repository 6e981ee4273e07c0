"""Sends the verdict of a run to HTTP endpoints: Elasticsearch, Mattermost, Slack, a site's own.

A message is a file of a folder until its endpoint has taken it, so that it survives a network that
is away and a run that dies. Nothing here changes a verdict.
"""

import contextlib
import json
import os
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from string import Template
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

from bisection.core import paths
from bisection.core.format import plural
from bisection.core.reasons.base import as_data
from bisection.core.thresholds import LIMITS
from bisection.core.verdicts import BisectionError
from bisection.judge.every_node import Judged
from bisection.report import exports
from bisection.report.documents import VerdictDocument
from bisection.report.report_data import Report
from bisection.report.verdict_text import next_step
from bisection.runs.run_verdict import RunVerdict

FOLDER = "notify"
TEMPLATES = paths.ROOT / "site-configs/monitoring"
TRIES = 3
AGAIN = (408, 425, 429, *range(500, 512))  # status codes that ask for another try
REFUSED = (400, 413, 415, 422)  # codes of a message that will never be taken
OF_CASE = ("test", "partition", "environ", "verdict", "cause")


@dataclass(frozen=True)
class Endpoint:
    """Where messages go, and in which form."""

    url: str  # with $VARIABLES of the environment
    template: Path | None = None  # JSON with $names; None: the verdict itself

    @classmethod
    def parsed(cls, text: str) -> "Endpoint":
        """Of [TEMPLATE=]URL. TEMPLATE is a file, or the name of one of site-configs/monitoring."""
        form = re.fullmatch(r"(?:(?!https?:)([^=]+)=)?(https?://\S+)", text)
        if not form:
            example = "chat=https://chat.example.org/hooks/1"
            raise BisectionError(f"notify {text!r} is not [TEMPLATE=]URL, such as {example}")
        shipped = TEMPLATES / f"{form[1]}.json"
        template = (shipped if shipped.exists() else Path(form[1])) if form[1] else None
        if template:
            filled(template, {})  # what is wrong with it is said before the run
        try:
            authorization(form[2])
        except (BisectionError, OSError, ValueError) as error:
            raise BisectionError(f"notify {text!r}: {error}") from error
        return cls(form[2], template)


def filled(template: Path, values: Mapping[str, str]) -> Any:
    """The JSON of a template, with values for the $names in its texts."""

    def fill(part: Any) -> Any:
        if isinstance(part, dict):
            return {name: fill(value) for name, value in part.items()}
        if isinstance(part, list):
            return [*map(fill, part)]
        return Template(part).safe_substitute(values) if isinstance(part, str) else part

    try:
        return fill(json.loads(template.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise BisectionError(f"notify: template {template}: {error}") from error


def message(report: Report, run: RunVerdict) -> dict[str, Any]:
    """The verdict as verdict.json has it, without launches, and with bad tests alone. Of a campaign
    over every node it has the nodes that are accused, and how many have each verdict: endpoints
    refuse what grows with thousands of nodes."""
    accused = [row for row in run.every_node if row.verdict not in (Judged.OPEN, Judged.OK)]
    verdict = as_data(VerdictDocument.of(replace(run, every_node=tuple(accused))))
    bad = {id(case) for case in run.bad}
    of_cases = zip(verdict.pop("cases"), run.cases, strict=True)
    cases = [known for known, case in of_cases if id(case) in bad]
    del verdict["launches"], verdict["spots"]
    return {
        "@timestamp": datetime.fromtimestamp(
            run.started or report.written, timezone.utc
        ).isoformat(),
        "outcome": report.exit_code.name,
        "report": str(report.folder / "report.html") if report.folder else "",
        **verdict,
        "node_verdicts": Counter(row.verdict for row in run.every_node),
        "bad_nodes": exports.bad_nodes(report),
        "bad": [{name: case[name] for name in OF_CASE} for case in cases],
    }


def send(
    report: Report, run: RunVerdict, endpoints: Sequence[Endpoint], home: Path
) -> Iterator[str]:
    """Sends the verdict of a run, after messages that wait since earlier runs; yields a line per
    endpoint on what came of it.

    Args:
        report: of the run; may hold nothing else.
        home: of the folder of messages.
    """
    folder, verdict = home / FOLDER, message(report, run)
    words = {name: str(value) for name, value in verdict.items()}
    nodes = [f"bad nodes: {', '.join(verdict['bad_nodes'])}"] if verdict["bad_nodes"] else []
    words["advice"] = "".join(f"\n{line}" for line in [*nodes, *next_step(run)])
    folder.mkdir(mode=0o700, exist_ok=True)  # a URL may be a secret
    for number, endpoint in enumerate(endpoints):
        body = filled(endpoint.template, words) if endpoint.template else verdict
        name = f"{time.time_ns()}-{number}.json"
        paths.write_whole(folder / name, json.dumps({"url": endpoint.url, "body": body}))
    urls: dict[Path, str] = {}  # of messages that wait, the oldest first
    for file in sorted(folder.glob("*.json")):
        try:
            urls[file] = url_of(file)
        except FileNotFoundError:  # another run has sent it
            continue
        except (OSError, ValueError) as error:
            aside = file.with_name(f"{file.name}.unreadable")
            with contextlib.suppress(OSError):
                file.rename(aside)
            yield f"notify: {file.name} is no message ({error}); it is renamed to {aside.name}"
    most = int(LIMITS.notify_kept)
    for file in [*urls][:-most]:
        file.unlink()
        del urls[file]
        yield f"notify: {file.name} is dropped: more than {most} messages wait"
    by_url: dict[str, list[Path]] = {}
    for file, url in urls.items():
        by_url.setdefault(url, []).append(file)
    # Each endpoint has a thread, which is left alone if its server answers without an end.
    ends: dict[str, Future[str]] = {url: Future() for url in by_url}
    for url, end in ends.items():
        Thread(target=deliver, args=(url, by_url[url], end), daemon=True).start()
    until = time.monotonic() + LIMITS.notify
    for url, end in ends.items():
        try:
            text = end.result(max(until - time.monotonic(), 0.0))
        except NotYet:
            text = f"no answer in {LIMITS.notify:g} s"
        left = sum(file.exists() for file in by_url[url])
        kept = f"; {plural(left, 'message')} kept for the next run" if left else ""
        host = urlsplit(os.path.expandvars(url)).netloc.rpartition("@")[2]
        yield f"notify: {host}: {text}{kept}"


def url_of(file: Path) -> str:
    """Where a message goes; ValueError: the file is none."""
    stored = json.loads(file.read_text(encoding="utf-8"))
    if not isinstance(stored, dict) or "body" not in stored:
        raise ValueError("no body")
    url = str(stored.get("url"))
    if not urlsplit(os.path.expandvars(url)).netloc:
        raise ValueError("no URL")
    return url


def deliver(url: str, messages: Sequence[Path], end: "Future[str]") -> None:
    """Posts messages in turn, and deletes those that are taken, or refused for good."""
    import requests  # takes 0.1 s
    from requests.adapters import HTTPAdapter
    from urllib3.util import Retry

    text = ""
    try:
        headers = authorization(url)
        session = requests.Session()
        retry = Retry(
            TRIES,
            backoff_factor=0.5,
            status_forcelist=AGAIN,
            allowed_methods=None,
            raise_on_status=False,
            respect_retry_after_header=False,
        )
        for scheme in ("http://", "https://"):
            session.mount(scheme, HTTPAdapter(max_retries=retry))
        for file in messages:
            body = json.loads(file.read_text(encoding="utf-8"))["body"]
            answer = session.post(
                os.path.expandvars(url),
                json=body,
                headers=headers,
                timeout=LIMITS.notify,
                allow_redirects=False,  # it would become a GET
                stream=True,
            )
            text = f"{answer.status_code} {answer.reason}"
            taken = 200 <= answer.status_code < 300
            if not taken and answer.status_code not in REFUSED:
                break
            file.unlink()
            text += "" if taken else ", the message is dropped"
    except BisectionError as error:
        text = str(error)
    except Exception as error:  # its words may hold the whole URL
        cause = re.search(r"\[Errno -?\d+\] ([^'\")>]+)", str(error))
        text = cause[1].rstrip(": ") if cause else type(error).__name__
    end.set_result(text)


def authorization(url: str) -> dict[str, str]:
    """The header for a URL's host, of the environment; none for hosts that no line of it names.

    Raises:
        BisectionError: a line names no host, or the URL would send the header unencrypted.
        OSError: the file that the environment names cannot be read.
    """
    file = os.environ.get(paths.AUTHORIZATION_FILE)
    secret = os.environ.get(paths.AUTHORIZATION, "")
    lines = (Path(file).read_text(encoding="utf-8") if file else secret).splitlines()
    values: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        form = re.fullmatch(r"([\w.:-]+)\s+(\S+\s+\S.*)", line.strip())
        if form:
            values[form[1].lower()] = form[2]
        elif line.strip():
            where = f"line {number} of {file or '$' + paths.AUTHORIZATION}"
            example = "elastic.example.org ApiKey abc"
            raise BisectionError(f"{where} is not HOST SCHEME CREDENTIALS, such as {example}")
    parts = urlsplit(os.path.expandvars(url))
    host = parts.hostname or ""
    if host not in values:
        return {}
    if parts.scheme != "https" and not re.fullmatch(r"localhost|127(\.\d+){3}|::1", host):
        raise BisectionError(f"the authorization for {host} is sent by https:// alone")
    return {"Authorization": values[host]}
