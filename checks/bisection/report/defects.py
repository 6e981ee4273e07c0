"""What the doctor finds, in English: of each code its clause, behind `path:line: `."""

from collections.abc import Callable, Mapping
from typing import Any

from bisection.core.format import number, plural, some
from bisection.core.reasons import Code

Values = Mapping[str, Any]

# What an extra of a partition may be.
EXTRAS = {
    "nodes": "a whole number above 0 is allowed",
    "max_time": "a whole number of seconds above 0 is allowed",
    "march": "a processor is allowed, as the compilers' option -march names it, but not native, "
    "which is the processor of the host that builds",
    "binding": "a list of launcher options is allowed",
    "references": "a list is allowed, of ratio, time",
    "network": "a list is allowed, of adapters such as mlx5_0",
    "topology": "the path of a file is allowed",
}
QUOTE_IT = "quote it"
SPACK_AGAIN = "`bisection run -p spack` makes it again"


def _not_loading(v: Values) -> str:
    return (f"test '{v['test']}' " if v["test"] else "") + f"does not load: {v['error']}"


def _extra_value(v: Values) -> str:
    return f"{v['partition']}: extras.{v['name']} is {v['value']}: {EXTRAS[v['name']]}"


def _binding_field(v: Values) -> str:
    allowed = ", ".join(f"{{{name}}}" for name in v["fields"])
    where = f"{v['partition']}: extras.binding has {{{v['field']}}} in {v['template']}"
    return f"{where}: allowed are {allowed}"


def _mapping(v: Values) -> str:
    name = f"{v['name']} " if v["name"] else ""
    return f"{name}is not a mapping" + (f" of {v['of']}" if v["of"] else "")


def _key_kind(v: Values) -> str:
    return f"key {v['key'] or 'without a name'} is {v['kind']} in YAML: {QUOTE_IT}"


def _metric_part(v: Values) -> str:
    part = f"{v['value']} is {v['kind']} in YAML" if v["value"] else f"a YAML {v['kind']}"
    return f"{v['metric']}: {part}, in place of a number"


def _cases_not_covered(v: Values) -> str:
    others = f", nor for {plural(v['others'], 'other test case')}" if v["others"] else ""
    return (
        f"{v['partition']} claims references, and there is none of {v['check']} for "
        f"{some(v['metrics'], 3)} of {v['case']}{others}"
    )


def _drifted(v: Values) -> str:
    value, low, high = (number(float(v[name])) for name in ("value", "low", "high"))
    last = f"the last {v['sessions']} sessions have {value}"
    return f"{v['test']}: {last}, allowed is {low}..{high}"


DEFECTS: dict[Code, str | Callable[[Values], str]] = {
    # a site file, a check file
    Code.NOT_LOADING: _not_loading,
    Code.LOAD_DIED: lambda v: (
        f"does not load: the process that tried ended with {v['exit_code'] or 'no exit code'}"
    ),
    Code.REFRAME_REJECTS: "ReFrame rejects {where}: {error}",
    Code.CORES_UNKNOWN: "{partition}: its cores are unknown: processor needs num_cpus and "
    "num_cpus_per_core",
    Code.PARTITION_IDLE: lambda v: (
        f"{v['partition']}: no check can run in any of its environments ({some(v['environs'])}): "
        "kernels ask for the feature kernels"
    ),
    Code.EXTRA_VALUE: _extra_value,
    Code.EXTRA_UNKNOWN: "{partition}: extras.{name} is not known, and would not be read: is it "
    "{near}?",
    Code.TOPOLOGY_FILE: "{partition}: extras.topology, {file}: {error}",
    Code.BINDING_FORMAT: "{partition}: extras.binding has {template}: {error}",
    Code.BINDING_FIELD: _binding_field,
    Code.CLAIM_UNKNOWN: lambda v: (
        f"{v['partition']}: extras.references has {some(v['kinds'])}: allowed are "
        f"{some(v['allowed'])}"
    ),
    Code.CHECK_NOWHERE: "no partition and environment of any site can run {check}: valid_systems "
    "of its first test is {systems}, valid_prog_environs {environs}",
    Code.VALUE_NOWHERE: "no partition and environment of any site can run {key} {value} of {check}",
    Code.NO_TIER: lambda v: f"no tier ({', '.join(v['tiers'])}) selects {v['test']}",
    Code.NAME_UNKNOWN: lambda v: (
        f"{v['variable']} of {v['check']} names {v['key']} {v['value']}: there are "
        f"{some(v['known'])}"
    ),
    Code.FILE_WITHOUT_TEST: "ReFrame finds no test in it",
    # a reference file
    Code.NO_SITE_FILE: lambda v: (
        f"there is no site-configs/{v['system']}.py: site-configs/ has {', '.join(v['known'])}"
    ),
    Code.FILE_UNREADABLE: "cannot be read: {error}",
    Code.NOT_YAML: "is not YAML: {error}",
    Code.NOT_A_MAPPING: _mapping,
    Code.KEY_KIND: _key_kind,
    Code.KEY_TWICE: "key {key} is there twice, first in line {first}: only the last would count",
    Code.KEY_NUMBER: f"key {{key}} is no text in YAML, and what it stands for is: {QUOTE_IT}",
    Code.KEY_NO_REGEX: "{key} is no regular expression: {error}",
    Code.KEY_UNKNOWN: lambda v: (
        f"{v['key']} is no {v['name']} of {v['branch']}: there are {some(v['known'])}"
    ),
    Code.KEY_NO_GEOMETRY: "{key} is no geometry: those are [nodes x]ranks x threads, as in 2x1",
    Code.KEY_TAKES_MORE: lambda v: (
        f"{v['key']} also matches {some(v['more'], 2)}, as ReFrame puts ^ and $ around the whole "
        f"of it: write ({v['key']})"
    ),
    Code.KEY_UNREACHED: "{key} is never reached: {first} in line {line} comes first",
    Code.NO_PROVENANCE: lambda v: f"there is no provenance, a mapping of {', '.join(v['parts'])}",
    Code.PROVENANCE_LACKS: "provenance has no {part}",
    Code.PROVENANCE_NO_LIST: "provenance: sessions is {value}, not a list",
    Code.PROVENANCE_NO_DAY: "provenance.date {value} is not a day, YYYY-MM-DD",
    Code.CHECK_UNKNOWN: lambda v: f"there is no check {v['check']}: there are {some(v['known'])}",
    Code.NO_INDEX: "{check} has no $index, a list of attributes: without it none of its "
    "references is found",
    Code.INDEX_NO_PROCESSOR: "$index of {check} has {name}: a processor has no {key}",
    Code.INDEX_NO_SPECIAL: "$index of {check} has {name}: ReFrame knows $system, $partition, "
    "$environ, $processor.NAME",
    Code.INDEX_NO_ATTRIBUTE: lambda v: (
        f"$index of {v['check']} has {v['name']}: the check has no such attribute; it has "
        f"{some(v['known'])}"
    ),
    Code.BRANCH_EMPTY: "there is no reference of {branch}",
    Code.BRANCH_NO_MAPPING: lambda v: (
        f"{v['branch']}: under {v['key']} must be a mapping of {' of '.join(v['of'])}"
    ),
    Code.METRIC_UNKNOWN: lambda v: (
        f"{v['metric']} is no metric of {v['check']}: such are {some(v['near'], 6)}"
    ),
    Code.METRIC_NO_REFERENCE: "{metric}: this is not [reference, lower bound, upper bound]",
    Code.METRIC_PART: _metric_part,
    Code.METRIC_UNIT: "{metric}: the unit is {unit}, but is measured in {measured}, and ReFrame "
    "does not convert",
    Code.CHECK_NOT_COVERED: "{partition}: it claims references, and {file} has none of {check}",
    Code.CASES_NOT_COVERED: _cases_not_covered,
    Code.REFERENCES_OLD: "from {day}, {age} days old; {allowed} days are allowed",
    Code.REFERENCES_OF_OTHER: "made with {name} {value}; the last session has {last}",
    Code.REFERENCE_DRIFTED: _drifted,
    # Spack
    Code.SPACK_ENV_UNKNOWN: lambda v: (
        f"environment {v['environ']}: spack_env is {v['value']}: allowed are {some(v['known'])}"
    ),
    Code.SPACK_NOT_BUILT: "environment {environ}: nothing is built yet for spack_env {value}: "
    "there is no {folder}/*/spack.lock",
    Code.SPACK_TARGET_OPEN: lambda v: (
        f"{v['partition']}, environment {v['environ']}: Spack builds for the processor of this "
        f"host, as {some(v['files'])} requires no target"
    ),
    Code.LOCK_UNREADABLE: f"is no lock of Spack ({{error}}); {SPACK_AGAIN}",
    Code.LOCK_CHANGED: f"was changed since the kernels were built from it; {SPACK_AGAIN}",
    Code.LOCK_NOT_COMPARED: "cannot be compared with {file}: {error}",
    Code.LOCK_OLD: lambda v: (
        f"{v['lock']} was made from {v['old']!r}, which is now {v['new']!r}; {SPACK_AGAIN}"
    ),
    # what is stored
    Code.DATABASE_DAMAGED: "is damaged: {error}",
    Code.STORE_UNUSABLE: "{error}; `bisection import` makes it again",
}
