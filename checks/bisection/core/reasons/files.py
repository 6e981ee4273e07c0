"""Defects of files and of stored data, for the doctor; it prints file and line before the words."""

from bisection.core.format import number, plural, some
from bisection.core.reasons.kinds import Topic

# The extras of a partition, and what each may be.
EXTRAS = {
    "nodes": "a whole number above 0 is allowed",
    "max_time": "a whole number of seconds above 0 is allowed",
    "march": "a processor is allowed, as the compilers' option -march names it, but not native, "
    "which is the processor of the host that builds",
    "binding": "a list of launcher options is allowed",
    "granted": "a text is allowed, such as 1 of 2: CPU quota 0.5",
    "references": "a list is allowed, of ratio, time",
    "network": "a list is allowed, of adapters such as mlx5_0",
    "topology": "the path of a file is allowed",
    "scratch": "a folder's absolute path without blanks is allowed, or a list of them",
}
SPACK_AGAIN = "`bisection run -p spack` rebuilds it"


class Files(Topic):
    """Defects of a site file, a check, a reference file, a lock of Spack, a database."""

    # ---- a site file, a check file ----

    REFRAME_REJECTS = "ReFrame rejects {where}: {error}"
    CORES_UNKNOWN = "{partition}: cores unknown: processor needs num_cpus, num_cpus_per_core"
    PARTITION_IDLE = "{partition}: no check can run: {environs} lack the feature kernels"
    EXTRA_UNKNOWN = "{partition}: extras.{name} is not known, and would not be read: is it {near}?"
    TOPOLOGY_FILE = "{partition}: extras.topology, {file}: {error}"
    BINDING_FORMAT = "{partition}: extras.binding has {template}: {error}"
    CLAIM_UNKNOWN = "{partition}: extras.references has {kinds}: allowed are {allowed}"
    VALUE_NOWHERE = "no partition and environment of any site can run {key} {value} of {check}"
    NO_TIER = "no tier ({tiers}) selects {test}"
    NAME_UNKNOWN = "{variable} of {check} names {key} {value}: there are {known}"
    NAME_TWICE = "does not load: {error}"
    LOAD_DIED = "does not load: the process that tried ended with exit code {exit_code}"
    FILE_WITHOUT_TEST = "ReFrame finds no test in it"

    def NOT_LOADING(error: str, test: str = "") -> str:
        return (f"test '{test}' " if test else "") + f"does not load: {error}"

    def CHECK_NOWHERE(check: str, systems: list, environs: list) -> str:
        asks = f"valid_systems of its first test is {systems}, valid_prog_environs {environs}"
        return f"no partition and environment of any site can run {check}: {asks}"

    def EXTRA_VALUE(partition: str, name: str, value: str) -> str:
        return f"{partition}: extras.{name} is {value}: {EXTRAS[name]}"

    def BINDING_FIELD(partition: str, template: str, field: str, fields: list) -> str:
        allowed = ", ".join(f"{{{name}}}" for name in fields)
        where = f"{partition}: extras.binding has {{{field}}} in {template}"
        return f"{where}: allowed are {allowed}"

    # ---- a reference file ----

    NO_SITE_FILE = "there is no site-configs/{system}.py: site-configs/ has {known}"
    FILE_UNREADABLE = "cannot be read: {error}"
    NOT_A_MAPPING = "is not a mapping of checks"
    CHECK_NO_MAPPING = "{check} is not a mapping"
    NOT_YAML = "is not YAML: {error}"
    KEY_TWICE = "key {key} is there twice, first in line {first}: only the last would count"
    KEY_KIND = "key {key!r} is {kind} in YAML: quote it"
    KEY_TAKES_MORE = (
        "{key} also matches {more}, as ReFrame puts ^ and $ around the whole of it: write ({key})"
    )
    KEY_NO_REGEX = "{key} is no regular expression: {error}"
    KEY_UNKNOWN = "{key} is no {name} of {branch}: there are {known}"
    KEY_UNREACHED = "{key} is never reached: {first} in line {line} comes first"
    NO_PROVENANCE = "there is no provenance, a mapping of {parts}"
    PROVENANCE_LACKS = "provenance has no {part}"
    PROVENANCE_NO_DAY = "provenance.date {value} is not a day, YYYY-MM-DD"
    CHECK_UNKNOWN = "there is no check {check}: there are {known}"
    NO_INDEX = "{check} has no $index, a list of attributes: no reference of it is found"
    INDEX_UNKNOWN = "$index of {check} has {name}, which is not known before a run: {known} are"
    BRANCH_NO_MAPPING = "{branch}: under {key} must be a mapping, by {by}"
    BRANCH_EMPTY = "there is no reference of {branch}"
    METRIC_REFERENCE = "{metric}: {fault}"
    METRIC_UNKNOWN = "{metric} is no metric of {check}: such are {near}"
    METRIC_UNIT = "{metric}: the unit is {unit}, but is measured in {measured}"
    REFERENCES_OLD = "from {day}, {age} days old; {allowed} days are allowed"
    REFERENCES_OF_OTHER = "made with {name} {value}; the last session has {last}"

    def CASES_NOT_COVERED(partition: str, check: str, metrics: list, case: str, others: int) -> str:
        others = f", nor for {plural(others, 'other test case')}" if others else ""
        lacks = f"there is none of {check} for {some(metrics, 3)} of {case}{others}"
        return f"{partition} claims references, and {lacks}"

    def REFERENCE_DRIFTED(test: str, sessions: int, value: float, low: float, high: float) -> str:
        value, low, high = (number(float(part)) for part in (value, low, high))
        return f"{test}: the last {sessions} sessions have {value}, allowed is {low}..{high}"

    # ---- Spack ----

    SPACK_ENV_UNKNOWN = "environment {environ}: spack_env is {value}: allowed are {known}"
    SPACK_NOT_BUILT = "environment {environ}: nothing built yet for spack_env {value} in {folder}"
    LOCK_UNREADABLE = "is no lock of Spack ({error}); " + SPACK_AGAIN
    LOCK_CHANGED = "was changed since the kernels were built from it; " + SPACK_AGAIN
    LOCK_NOT_COMPARED = "cannot be compared with {file}: {error}"
    LOCK_OLD = "{lock} was made from {old!r}, which is now {new!r}; " + SPACK_AGAIN

    # ---- what is stored ----

    STORE_UNUSABLE = "{error}"
    SAMPLES_FAULTY = "{error}: restore this file, or move it away; the rest is used"
    SESSIONS_AHEAD = "`latest` leaves out sessions that begin in the future: {sessions}"
