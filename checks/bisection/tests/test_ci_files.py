"""The files for the CI of a site: their schemas, and what the shell of their jobs does."""

import json
import os
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

import pytest
import yaml
from jsonschema.validators import validator_for

from bisection.core import paths

FILES = paths.ROOT / "site-configs/ci"
# A run leaves results, but with 2 and 130.
BISECTION = """#!/bin/sh
echo "$@" >>"$HOME/arguments"
case $CODE in 2 | 130) exit $CODE ;; esac
mkdir -p "$RESULTS/now" && ln -sfn now "$RESULTS/latest"
for name in verdict.txt report.md junit.xml; do echo "exit $CODE" >"$RESULTS/latest/$name"; done
exit $CODE
"""


def loaded(name):
    known = yaml.safe_load((FILES / name).read_text())
    return {"on": known.pop(True), **known} if True in known else known  # YAML 1.1's `on`


@pytest.mark.skipif(sys.version_info < (3, 11), reason="check-jsonschema needs Python 3.11")
@pytest.mark.parametrize(
    ("name", "schema"),
    [
        ("gitlab.yml", "gitlab-ci"),
        ("gitlab-partition.yml", "gitlab-ci"),
        ("github.yml", "github-workflows"),
    ],
)
def test_the_schemas_of_the_services(name, schema):
    file = f"check_jsonschema/builtin_schemas/vendor/{schema}.json"
    known = json.loads(Path(distribution("check-jsonschema").locate_file(file)).read_text())
    errors = validator_for(known)(known).iter_errors(loaded(name))
    assert [error.message for error in errors] == []


def of_gitlab(name, job):
    known = loaded(name)[job]
    assert known["allow_failure"] == {"exit_codes": [3, 4]}
    return "\n".join(known["script"]), "\n".join(known["after_script"])


def of_github(job):
    steps = loaded("github.yml")["jobs"][job]["steps"]
    texts = [
        step["run"].replace("${{ matrix.partition }}", "$PARTITION")
        for step in steps
        if "run" in step
    ]
    home = [text for text in texts if "GITHUB_ENV" in text]
    return "\n".join(text for text in texts if text not in home), ""


JOBS = {
    "GitLab's quick": (lambda: of_gitlab("gitlab.yml", "quick"), False),
    "GitLab's night": (lambda: of_gitlab("gitlab-partition.yml", "night"), True),
    "GitHub's quick": (lambda: of_github("quick"), False),
    "GitHub's night": (lambda: of_github("night"), True),
}


@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize("code", [0, 1, 2, 3, 4, 130])
def test_a_job_ends_as_the_run_does_and_never_has_results_of_another(job, code, tmp_path):
    read, is_night = JOBS[job]
    home = tmp_path / ("home" if is_night else ".bisection")
    for folder in (home / "bin", home / "results/old", tmp_path / "bin"):
        folder.mkdir(parents=True)
    (home / "results/old/verdict.txt").write_text("of an earlier night\n")
    os.utime(home / "results/old/verdict.txt", (1e9, 1e9))
    (home / "results/latest").symlink_to("old")
    for file, text in ((home / "bin/bisection", BISECTION), (tmp_path / "bin/make", "#!/bin/sh\n")):
        file.write_text(text)
        file.chmod(0o755)
    words = {"CODE": str(code), "RESULTS": str(home / "results"), "HOME": str(tmp_path)}
    words |= {"BISECTION_HOME": str(home), "PARTITION": "lab:cpu"}
    words |= {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}
    words |= {"GITHUB_STEP_SUMMARY": str(tmp_path / "summary")}

    def shell(text):
        command = ["bash", "-e", "-c", text]
        return subprocess.run(command, cwd=tmp_path, env=words, capture_output=True, text=True)

    script, after = read()
    run = shell(script)
    assert shell(after).returncode == 0
    warned = job.startswith("GitHub") and code in (3, 4)
    assert run.returncode == (0 if warned else code)
    assert (f"::warning::exit {code}" in run.stdout) == warned
    left = tmp_path / "results/verdict.txt"
    assert left.exists() == (code not in (2, 130))
    assert not left.exists() or left.read_text() == f"exit {code}\n"
    given = (tmp_path / "arguments").read_text().split()
    assert given == [
        "run",
        *("--system lab:cpu --deadline 6h" if is_night else "--tier quick").split(),
    ]
