#!/usr/bin/env python3
"""Stands in for Slurm's commands: answers as Slurm 22.05 does, or fails as it does, on demand.

Installed as sbatch, squeue, sacct, scancel, scontrol and sinfo. Jobs are files of the folder
FAKE_SLURM. The variable FAKE_SLURM_FAULTS, a JSON object, says what goes wrong where: "mpi/cnt40"
is a launch, by layout and case, and "build" a build, "refused" or with one of WAITS, ENDS or STEPS;
"sacct" is a command, with the number of calls that fail because its daemon does not answer;
"MaxSubmitJobs" is how many jobs may be in the queue; "nodes": "gone" refuses nodes that are named,
"drained" lets jobs wait for them. A job starts at once, with `--dependency=singleton` when it is
looked at and no earlier one of its name is alive.
"""

import contextlib
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

FOLDER = Path(os.environ["FAKE_SLURM"])
WRONG = json.loads(os.environ.get("FAKE_SLURM_FAULTS", "{}"))

# A job with one of these faults stays in the queue, for this reason.
WAITS = {"waits": "Resources", "no-place": "Resources", "too-big": "PartitionNodeLimit"}
# One with one of these ends in its second second: its state, the reason, and what slurmstepd
# writes to its error output. One that "runs" does not end.
ENDS = {
    "timeout": ("TIMEOUT", "TimeLimit", "DUE TO TIME LIMIT "),
    "node-fail": ("NODE_FAIL", "NodeDown", "DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS "),
    "oom": ("OUT_OF_MEMORY", "OutOfMemory", None),
    "scancel": ("CANCELLED", "None", ""),
    "unseen": ("FAILED", "JobLaunchFailure", None),
}
# In one with one of these, mpirun ends with this code, and prints this.
STEPS = {
    "step": (1, "srun: error: Unable to create step for job 47: Memory required by task is not "
             "available"),
    "step-oom": (137, "slurmstepd-n2: error: Detected 1 oom_kill event in StepId=47.0. Some of the "
                 "step tasks have been OOM Killed.\nsrun: error: n2: task 1: Out Of Memory"),
}  # fmt: skip
ALIVE = ("PENDING", "RUNNING")
NO_DATABASE = (
    "sacct: error: Sending PersistInit msg: Connection refused\n"
    "sacct: error: Problem talking to the database: Connection refused"
)
NO_CONTROLLER = "Unable to contact slurm controller (connect failure)"
INVALID = "slurm_load_jobs error: Invalid job id specified"
NO_PLACE = "Requested node configuration is not available"
FAILED = "sbatch: error: Batch job submission failed: "
LIMIT = f"sbatch: error: QOSMaxSubmitJobPerUserLimit\n{FAILED}Job violates accounting/QOS policy"
SINFO = {
    "%N|%n|%t|%P|%f|%E": "n1|n1|idle|all*|(null)|none\nn2|n2|alloc|all*|(null)|none\n"
    "n3|n3|idle|all*|(null)|none",
    "%N|%P|%T|%E": "n1|all*|idle|none\nn2|all*|down*|Not responding",
}


# ---- jobs ----


def load(jobid):
    """A job as it is now, None if there is none."""
    try:
        job = json.loads((FOLDER / f"{jobid}.json").read_text())
    except FileNotFoundError:
        return None
    if job["state"] == "PENDING" and time.time() > job["latest"]:
        job.update(state="DEADLINE", end=time.time())
        store(job)
    if job["reason"] == "Dependency" and job["state"] == "PENDING":
        before = [load(other) for other in range(1, int(jobid))]
        if job["job-name"] not in {each["job-name"] for each in before if each["state"] in ALIVE}:
            begin(job)
    if job["fault"] in ENDS and job["state"] == "RUNNING" and time.time() > job["start"] + 1:
        state, reason, why = ENDS[job["fault"]]
        job.update(state=state, reason=reason, end=time.time())
        if why is not None:
            words = f"*** JOB {jobid} ON n1 CANCELLED AT 2026-11-21T09:09:32 {why}***"
            Path(job["error"]).write_text(f"slurmstepd-n1: error: {words}\n")
        if reason == "JobLaunchFailure":
            job["exit"] = "0:53"
        store(job)
    return job


def begin(job):
    """A job's turn has come."""
    if WRONG.get("nodes") == "drained" and job["nodelist"]:
        job["reason"] = f"ReqNodeNotAvail, UnavailableNodes:{job['nodelist']}"
        store(job)
        return
    if job["fault"] in WAITS:
        job["reason"] = WAITS[job["fault"]]
    else:
        job.update(state="RUNNING", reason="None", start=time.time(), nodes="n[1-2]")
    with contextlib.suppress(FileExistsError):
        (FOLDER / f"{job['id']}.begun").touch(exist_ok=False)
        store(job)
        if job["fault"] is None or job["fault"] in STEPS:
            none = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
            command = [sys.executable, __file__, "--run", job["id"]]
            subprocess.Popen(command, start_new_session=True, **none)


def store(job):
    part = FOLDER / f"{job['id']}.{os.getpid()}"
    part.write_text(json.dumps(job))
    part.replace(FOLDER / f"{job['id']}.json")


def every():
    return [load(number) for number in range(1, 1 + len(list(FOLDER.glob("*.json"))))]


def asked_for():
    """The jobs of -j 1,2, or of -n NAME, or of the last argument."""
    if "-n" in sys.argv:
        return [job for job in every() if job["job-name"] == sys.argv[sys.argv.index("-n") + 1]]
    text = sys.argv[sys.argv.index("-j") + 1] if "-j" in sys.argv else sys.argv[-1]
    return [load(jobid) for jobid in text.split(",")]


# ---- the commands ----


def sbatch():
    script = Path(sys.argv[-1]).resolve()
    text = script.read_text()
    options = dict(re.findall(r"^#SBATCH --([\w-]+)=?(\S*)$", text, re.M))
    launch = re.search(r"--case (\S+)", text), re.search(r"layout=(\S+)", text)
    fault = WRONG.get(f"{launch[1][1]}/{launch[0][1]}" if all(launch) else "build")
    if "--test-only" in sys.argv:
        with open(FOLDER / "asked", "a") as file:
            file.write(f"{options['ntasks']}\n")
        if fault == "no-place" or (WRONG.get("nodes") == "gone" and "nodelist" in options):
            sys.exit(f"allocation failure: {NO_PLACE}")
        return sys.stderr.write("sbatch: Job 1 to start at 2026-11-22T07:48:24 using 4 CPUs\n")
    if fault == "refused":
        sys.exit(FAILED + NO_PLACE)
    if len([job for job in every() if job["state"] in ALIVE]) >= WRONG.get("MaxSubmitJobs", 99):
        sys.exit(LIMIT)
    if "no-requeue" not in options:
        sys.exit("sbatch: error: this fake takes no job that Slurm would requeue")
    hours, minutes, seconds = map(int, options["time"].split(":"))
    limit, end = 3600 * hours + 60 * minutes + seconds, options.get("deadline")
    job = {
        "nodelist": None,
        **options,
        **{name: str(script.with_name(options[name])) for name in ("output", "error")},
        "id": str(len(list(FOLDER.glob("*.json"))) + 1),
        "fault": fault,
        "script": str(script),
        "submit": time.time(),
        "latest": time.mktime(time.strptime(end, "%Y-%m-%dT%H:%M:%S")) - limit if end else 1e12,
        "start": None,
        "end": None,
    }
    job |= {"state": "PENDING", "reason": "Dependency", "exit": "0:0", "nodes": ""}
    store(job)
    if options.get("dependency") != "singleton":
        begin(job)
    return print(f"Submitted batch job {job['id']}")


def run(jobid):
    """The job itself, in the background."""
    job = load(jobid)
    command, folder = ["bash", job["script"]], Path(job["script"]).parent
    if job["fault"] in STEPS:
        code, words = STEPS[job["fault"]]
        tools = FOLDER / job["fault"]
        tools.mkdir(exist_ok=True)
        (tools / "mpirun").write_text(f"#!/bin/sh\ncat >&2 <<'EOF'\n{words}\nEOF\nexit {code}\n")
        (tools / "mpirun").chmod(0o755)
        os.environ["PATH"] = f"{tools}:{os.environ['PATH']}"
    with open(job["output"], "wb") as stdout, open(job["error"], "wb") as stderr:
        code = subprocess.call(command, cwd=folder, stdout=stdout, stderr=stderr)
    job.update(state="FAILED" if code else "COMPLETED", exit=f"{code}:0", end=time.time())
    store(job)


def sacct():
    print("JobID|State|ExitCode|End|NodeList")
    for job in filter(None, asked_for()):
        state = job["state"] + (" by 0" if job["state"] == "CANCELLED" else "")
        rest = f"{job['exit']}|{int(job['end'] or 0) or 'Unknown'}"
        print(f"{job['id']}|{state}|{rest}|{job['nodes'] or 'None assigned'}")
        if job["nodes"]:
            print(f"{job['id']}.batch|{job['state']}|{rest}|n1")


def squeue():
    layout = sys.argv[sys.argv.index("-o") + 1].replace("%%", "%")
    for job in asked_for():
        if job is None:
            sys.exit(INVALID)
        if job["state"] in ALIVE:
            fields = {"%i": job["id"], "%T": job["state"], "%N": job["nodes"], "%r": job["reason"]}
            fields |= {"%P": "all", "%n": job["nodelist"] or "", "%S": "1795345888"}
            print(re.sub("%.", lambda field, of=fields: of[field[0]], layout))


def scontrol():
    if sys.argv[1:3] == ["show", "hostname"]:
        return print("n1\nn2")
    if sys.argv[1] == "update" and sys.argv[3] == "ReqNodeList=":
        job = load(sys.argv[2].removeprefix("JobId="))
        job["nodelist"] = None
        return begin(job)
    (job,) = asked_for()
    if job is None:
        sys.exit(INVALID)
    return print(
        f"JobId={job['id']} JobName=rfm UserId=root(0) JobState={job['state']} BatchHost=n1 "
        f"Reason={job['reason']} Dependency=(null) ExitCode={job['exit']} ReqNodeList=(null) "
        f"WorkDir=/home/lab/bisection NodeList={job['nodes']} NumNodes=2 StdIn=/dev/null Power= "
    )


def scancel():
    for job in [*map(load, sys.argv[1:])]:  # all at once: none starts in between
        if job and job["state"] in ALIVE:
            job.update(state="CANCELLED", end=time.time())
            store(job)


def sinfo():
    if "--all" in sys.argv and "-p" in sys.argv:
        sys.exit("sinfo: error: Conflicting options, -a and -p, specified.")
    print(SINFO.get(sys.argv[-1], "n1|idle|none\nn2|down*|Not responding"))


def main():
    if sys.argv[1:2] == ["--run"]:
        return run(sys.argv[2])
    command = Path(sys.argv[0]).name
    calls = FOLDER / f"{command}.calls"
    with open(calls, "a") as file:
        file.write("x")
    if calls.stat().st_size <= WRONG.get(command, 0):
        before = FAILED if command == "sbatch" else "slurm_load_jobs error: "
        sys.exit(NO_DATABASE if command == "sacct" else before + NO_CONTROLLER)
    return globals()[command]()


if __name__ == "__main__":
    main()
