"""Why a verdict is what it is, as a code with its numbers.

A reason is made where something is found out, stored and compared as data, and put into words in
one place only, bisection.report.clauses. Nothing reads the words back.
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class Code(str, Enum):
    """What may be found out. The comment names the values of a Reason of this code."""

    __str__ = str.__str__
    __format__ = str.__format__

    # What stopped a launch. The machine failed it:
    TIMEOUT = "TIMEOUT"  # job, limit (s), nodes
    NODE_FAIL = "NODE_FAIL"  # job, nodes, down: [[node, reason]]
    OUT_OF_MEMORY = "OUT_OF_MEMORY"  # job, nodes
    MPI_ABORT = "MPI_ABORT"  # rank, host, exit_code, last: the job's last line before
    # limit (s), silent: [[ranks, host]], waiting: [[ranks, hosts, where]], stack: [ranks, routines]
    HANG = "HANG"
    # or it was not given to run:
    BLOCKED = "BLOCKED"  # job, waited (s), reason | refused, down | deadline (s)
    CANCELLED = "CANCELLED"  # job, state, nodes
    # said: the scheduler's words | state | host, unseen: a path; scheduler, jobs
    INFRASTRUCTURE = "INFRASTRUCTURE"

    # A launch
    NO_KERNEL = "NO_KERNEL"  # folder
    NO_SPACE = "NO_SPACE"  # place, free (B), needed (B) | error; build: its words
    KERNELS_KEPT = "KERNELS_KEPT"  # built: Unix time
    KERNELS_STALE = "KERNELS_STALE"  # kernel: path, built, checkout: hashes of sources, accepted
    NO_CORES = "NO_CORES"  # partition
    NODES_NEEDED = "NODES_NEEDED"  # needed, nodes
    CORES_NEEDED = "CORES_NEEDED"  # needed, cores: of a launch
    RANKS_NEEDED = "RANKS_NEEDED"  # needed, ranks: of a node
    NOT_SIMULATED = "NOT_SIMULATED"  # kernel
    LAYOUT_IS_TWIN = "LAYOUT_IS_TWIN"  # layout, other, geometry
    LAYOUT_TOO_LARGE = "LAYOUT_TOO_LARGE"  # layout, ranks_per_node, cores
    NOT_ENDED = "NOT_ENDED"  # last
    KERNEL_EXIT = "KERNEL_EXIT"  # kernel, exit_code, last; of the first rank that died: rank, host;
    # complete: its result was written before
    EXIT_CONTRADICTS = "EXIT_CONTRADICTS"  # kernel, exit_code, verified, wrong: methods
    BASELINE_WRONG = "BASELINE_WRONG"  # method
    NO_WORLD = "NO_WORLD"  # launcher, exit_code, last, limit (s), layout
    WORLDS = "WORLDS"  # launcher, worlds, size: ranks of each, asked: ranks, layout
    MISPLACED = "MISPLACED"  # seats: reasons, fault: reason, of a launch that did not end well
    NETWORK_BYPASSED = "NETWORK_BYPASSED"  # carried: [[device, fraction]], expected: devices
    RAILS_IDLE = "RAILS_IDLE"  # idle: [[device, hosts]], expected: devices
    RANKS_RAN = "RANKS_RAN"  # ranks, asked
    HOSTS_RAN = "HOSTS_RAN"  # hosts, asked
    RANKS_ON_HOST = "RANKS_ON_HOST"  # host, ranks, asked
    THREADS_RAN = "THREADS_RAN"  # rank, host, threads, asked
    CORE_SHARED = "CORE_SHARED"  # rank, host, thread, cpus, other: [rank, thread, cpus]
    CORE_UNBOUND = "CORE_UNBOUND"  # rank, host, thread, cpus

    # A trial job of a site
    OUTPUT_UNSEEN = "OUTPUT_UNSEEN"  # job, path, nodes
    PROBE_NOT_BUILT = "PROBE_NOT_BUILT"  # last
    SRUN_UNBOUND = "SRUN_UNBOUND"  # plugin

    # A check of a site, by its probes
    RESTS_ON = "RESTS_ON"  # probe: that is wrong
    SITE_LOADS = "SITE_LOADS"  # partitions
    SITE_DEFECTS = "SITE_DEFECTS"  # path, line, first: reason, more: of them
    NO_SCHEDULER = "NO_SCHEDULER"
    SCHEDULER_UNASKED = "SCHEDULER_UNASKED"  # scheduler
    SCHEDULER_ANSWERS = "SCHEDULER_ANSWERS"  # version, cluster
    ACCOUNTING = "ACCOUNTING"  # backend
    NO_ACCOUNTING = "NO_ACCOUNTING"
    ACCOUNT_UNKNOWN = "ACCOUNT_UNKNOWN"  # account, accounts
    QUEUE_UNKNOWN = "QUEUE_UNKNOWN"  # queue, known
    QUEUE_OPEN = "QUEUE_OPEN"  # queue, account, needed
    NODES_UP = "NODES_UP"  # up, nodes, asked, down: [[node, reason]]
    PLACED = "PLACED"  # layouts: [[layout, geometry]]
    NOT_PLACED = "NOT_PLACED"  # layout, geometry, refused
    JOB_RAN = "JOB_RAN"  # job, hosts
    MODULES_LOADED = "MODULES_LOADED"  # modules
    MODULES_FAIL = "MODULES_FAIL"  # modules: [[name, why]]
    PROBE_BUILT = "PROBE_BUILT"  # compiler
    KERNELS_BUILT = "KERNELS_BUILT"  # seconds | partition: with the same nodes
    KERNELS_FAIL = "KERNELS_FAIL"  # step, exit_code, last
    KERNELS_LATE = "KERNELS_LATE"  # step, limit
    KERNELS_BY_SPACK = "KERNELS_BY_SPACK"  # environ
    FOLDER_UNSEEN = "FOLDER_UNSEEN"  # path, hosts: [[host, why]]
    PATH_UNSEEN = "PATH_UNSEEN"  # path, hosts
    ALL_SEEN = "ALL_SEEN"  # path, nodes
    CORES_CLAIMED = "CORES_CLAIMED"  # claimed, cores, host
    NODES_DIFFER = "NODES_DIFFER"  # differences: [[name, [[value, hosts]]]]
    NODES_ALIKE = "NODES_ALIKE"  # nodes, cores, model, memory (B)
    NO_FACTS = "NO_FACTS"  # system
    FACTS_CHANGED = "FACTS_CHANGED"  # system, changes: [[name, before, now, hosts]]
    FACTS_HOLD = "FACTS_HOLD"  # system, written
    FACTS_OLD = "FACTS_OLD"  # system, what: boot | configuration, since (Unix time)
    ONE_WORLD = "ONE_WORLD"  # launcher, library, ranks, hosts
    CORES_OWN = "CORES_OWN"  # layouts: [[layout, geometry]]
    RANK_EXIT = "RANK_EXIT"  # seconds, exit_code, left: the rank's own
    RANK_EXIT_HANGS = "RANK_EXIT_HANGS"  # seconds
    RANK_EXIT_LOST = "RANK_EXIT_LOST"  # launcher, left
    CARRIED = "CARRIED"  # carried: [[device, fraction]]
    BYTES_UNCOUNTED = "BYTES_UNCOUNTED"  # carried
    NETWORK_UNUSED_BY = "NETWORK_UNUSED_BY"  # carried, expected: [[device, kind, rate (Gb/s)]]
    SPEED_UNKNOWN = "SPEED_UNKNOWN"  # latency (s), bandwidth (B/s), system
    LINK_SPEED = "LINK_SPEED"  # latency, bandwidth, latency_before, bandwidth_before
    LINK_SLOW = "LINK_SLOW"  # likewise, pair: hosts
    TIME_SHORT = "TIME_SHORT"  # limit (s), asked (s)
    MEMORY_SHORT = "MEMORY_SHORT"  # memory (B), needed (B), host
    LIMITS_SUFFICE = "LIMITS_SUFFICE"  # memory (B), needed (B), limit (s)

    # A result file
    NO_RESULT = "NO_RESULT"  # kernel
    RESULT_UNREADABLE = "RESULT_UNREADABLE"  # path, error
    RESULT_FOREIGN = "RESULT_FOREIGN"  # path, schema
    RESULT_VERSION = "RESULT_VERSION"  # path, version, last
    RESULT_OTHER = "RESULT_OTHER"  # path, key, value, wanted
    RESULT_INCOMPLETE = "RESULT_INCOMPLETE"  # kernel, status, methods
    METHOD_MISSING = "METHOD_MISSING"  # method
    METHOD_REFUSED = "METHOD_REFUSED"  # method, why: the kernel's words
    METHOD_INAPPLICABLE = "METHOD_INAPPLICABLE"  # why: the kernel's words
    WRONG_ANSWER = "WRONG_ANSWER"  # method, point, checks: reasons
    CHECK_FAILED = "CHECK_FAILED"  # name, error, unit, tolerance
    NO_CHECK = "NO_CHECK"
    NOT_VERIFIED = "NOT_VERIFIED"
    METRICS_MISSING = "METRICS_MISSING"  # method, metrics
    METRICS_UNUSABLE = "METRICS_UNUSABLE"  # method, metrics: [[name, reason]]
    NOT_A_NUMBER = "NOT_A_NUMBER"  # value
    NOT_FINITE = "NOT_FINITE"  # value
    NO_FRACTION = "NO_FRACTION"  # value
    BELOW_ZERO = "BELOW_ZERO"  # value
    NOT_ABOVE_ZERO = "NOT_ABOVE_ZERO"  # value
    NO_BEST_NPAR = "NO_BEST_NPAR"
    COUNTS_CONTRADICT = "COUNTS_CONTRADICT"  # counts: [[ranks, sent, ranks, sent, unit, each]]

    # A new site
    SCHEDULER_SILENT = "SCHEDULER_SILENT"  # scheduler, error
    SCHEDULER_UNREAD = "SCHEDULER_UNREAD"  # scheduler
    FLUX_OF_REFRAME = "FLUX_OF_REFRAME"
    ACCOUNT_OPEN = "ACCOUNT_OPEN"  # user, accounts
    NO_COMPILER = "NO_COMPILER"
    LIBRARIES_UNSEEN = "LIBRARIES_UNSEEN"  # names
    NO_QUEUE = "NO_QUEUE"
    QUEUE_STATE = "QUEUE_STATE"  # queue, state
    QUEUE_ROOT_ONLY = "QUEUE_ROOT_ONLY"  # queue
    QUEUE_NOT_ROOT = "QUEUE_NOT_ROOT"  # queue
    QUEUE_GROUPS = "QUEUE_GROUPS"  # queue, groups
    QUEUE_ACCOUNTS = "QUEUE_ACCOUNTS"  # queue, account, others: accounts that can
    QUEUE_RESERVED = "QUEUE_RESERVED"  # queue
    QUEUE_EMPTY = "QUEUE_EMPTY"  # queue
    QUEUE_SHARED = "QUEUE_SHARED"  # partition
    NODES_UNLIKE = "NODES_UNLIKE"  # queue, nodes, cores, gres
    NODES_DOWN = "NODES_DOWN"  # partition, up, wanted: nodes, down: [[node, reason]]
    TRIAL_FAILED = "TRIAL_FAILED"  # partition, fault: reason
    NO_LAUNCHER = "NO_LAUNCHER"  # partition, faults: reasons
    LAUNCHER_WRONG = "LAUNCHER_WRONG"  # launcher, fault: reason
    NETWORK_UNUSED = "NETWORK_UNUSED"  # partition, device, fast
    NOT_TRIED = "NOT_TRIED"

    # References
    STRICT_OFF = "STRICT_OFF"
    REFERENCES_UNREADABLE = "REFERENCES_UNREADABLE"  # file, error
    REFERENCES_UNUSABLE = "REFERENCES_UNUSABLE"  # partition, file, faults: [[metric, reason]]
    NO_REFERENCE_FILE = "NO_REFERENCE_FILE"  # partition, file, kinds
    NO_REFERENCE = "NO_REFERENCE"  # partition, file, metrics
    METHOD_NOT_JUDGED = "METHOD_NOT_JUDGED"  # method, partition, file, metrics
    REFERENCE_OF_NO_METRIC = "REFERENCE_OF_NO_METRIC"
    REFERENCE_SHAPE = "REFERENCE_SHAPE"  # reference
    REFERENCE_OPEN = "REFERENCE_OPEN"  # part
    REFERENCE_TEXT = "REFERENCE_TEXT"  # part, value
    REFERENCE_NOT_FINITE = "REFERENCE_NOT_FINITE"  # part, value
    REFERENCE_NOT_ABOVE_ZERO = "REFERENCE_NOT_ABOVE_ZERO"  # value
    LOWER_BOUND_RANGE = "LOWER_BOUND_RANGE"  # value
    UPPER_BOUND_RANGE = "UPPER_BOUND_RANGE"  # value

    # A test of a run
    OUT_OF_BOUNDS = "OUT_OF_BOUNDS"  # metrics: [[name, value, unit, low, high]]; retest:
    # its verdict | preempted, again: name -> value, nodes: to which it is bound
    UNEXPECTED_PASS = "UNEXPECTED_PASS"
    NOTHING_MEASURED = "NOTHING_MEASURED"
    UNMEASURED = "UNMEASURED"
    FOLLOWS = "FOLLOWS"  # test: that did not pass
    SKIPPED = "SKIPPED"  # why: ReFrame's words
    NOT_RUN = "NOT_RUN"  # result: ReFrame's word
    RUN_ENDED = "RUN_ENDED"
    TEXT = "TEXT"  # text: of a check, of ReFrame, of a build, of another tool
    PREEMPTED = "PREEMPTED"  # fraction: of the samples
    # factor: time of the samples over what their medians add up to; ran: fraction of the launch
    STOPPED = "STOPPED"
    MEASURED_AGAIN = "MEASURED_AGAIN"  # launches: how many, quiet: of them, the second time
    LAUNCH_LATE = "LAUNCH_LATE"  # seconds, claimed (s)
    LAYOUT_FASTER = "LAYOUT_FASTER"  # layout, gain, cores
    BEST_MOVED = "BEST_MOVED"  # best, was, loss
    UNJUDGED_WRONG_ANSWER = "UNJUDGED_WRONG_ANSWER"  # method, place

    # A run as a whole
    NOT_LOADED = "NOT_LOADED"  # kind, text: ReFrame's words
    REFRAME_TEXT = "REFRAME_TEXT"  # text
    REFRAME_EXIT = "REFRAME_EXIT"  # exit_code, log
    NOT_RECORDED = "NOT_RECORDED"
    NO_REPORT = "NO_REPORT"
    NONE_SELECTED = "NONE_SELECTED"
    NO_TEST = "NO_TEST"
    TESTS_ABSENT = "TESTS_ABSENT"  # absent, selected
    JOBS_LEFT = "JOBS_LEFT"  # scheduler, jobs
    TESTS_GONE = "TESTS_GONE"  # tests
    WAS_DAMAGED = "WAS_DAMAGED"  # path, fault, now | error
    NOT_KEPT = "NOT_KEPT"  # error
    NOT_STORED = "NOT_STORED"  # error

    # A run beside earlier sessions. Of one metric: a test's identity, metric, unit, before, after;
    SLOWER = "SLOWER"  # ..., again: in the retest, nodes: to which it is bound
    SUSPECT = "SUSPECT"  # ..., why: failed | off | budget | unmeasured; seconds: of its launch
    # of all:
    DID_NOT_REPEAT = "DID_NOT_REPEAT"  # launches, metrics, factor, seconds
    RETEST_SLOWER = "RETEST_SLOWER"  # control: a launch, factor
    RETEST_FAILED = "RETEST_FAILED"  # test, cause
    # metrics of an event are worse since a session, as its history shows: session, at (Unix time),
    # first and last (when it may have begun), worse: how many, metrics: check -> changed, all;
    # most: the worst tests and metrics, factors: new cost over old (least, median, most), changes,
    # candidates: with odds
    WORSE_SINCE = "WORSE_SINCE"
    FASTER = "FASTER"  # metrics, test, metric, unit, before, after
    BASELINES_MOVED = "BASELINES_MOVED"  # the same, of ratios
    # nodes (of which one is slow), ratio, jobs, where: system:partition, always (together)
    SLOW_NODE = "SLOW_NODE"
    CHANGED = "CHANGED"  # what, before, after, since (Unix time)
    BUSY = "BUSY"  # used, cores, top: [[name, cores]]
    JOB_WAITS = "JOB_WAITS"  # job, queue, reason: Slurm's, start: expected, Unix time
    NODES_TAKEN = "NODES_TAKEN"  # nodes, jobs: that asked for them
    # A host in these launches (launches, of: those that it was in); the values are of the worst.
    SLOW_CLOCK = "SLOW_CLOCK"  # host, rank, cpus, ghz, median (of the launch's ranks)
    SLOW_CORES = "SLOW_CORES"  # host, seconds, median: of the same work
    SLOW_MEMORY = "SLOW_MEMORY"  # host, rate (B/s), median, cores: that copy at once
    BUSY_CORES = "BUSY_CORES"  # host, lost (share of the time to other processes), median
    ADAPTER_ERRORS = "ADAPTER_ERRORS"  # host, adapter, errors: [[counter, count]]
    ADAPTER_DIFFERS = "ADAPTER_DIFFERS"  # host, adapter, fact (state, rate, firmware), value, usual
    TCP_LOSSES = "TCP_LOSSES"  # host, fraction: of the segments
    LAUNCHES_PREEMPTED = "LAUNCHES_PREEMPTED"  # launches

    # Pairs of nodes
    PAIRS_FOREIGN = "PAIRS_FOREIGN"  # path, key
    PAIRS_TRUNCATED = "PAIRS_TRUNCATED"  # path, size (B), record (B) | wanted: records
    PAIRS_CORRUPT = "PAIRS_CORRUPT"  # path, record, of, content, nodes
    PAIRS_CLUSTERED = "PAIRS_CLUSTERED"  # switches, missing
    PAIRS_NO_SWITCHES = "PAIRS_NO_SWITCHES"  # missing: nodes that the topology lacks
    PAIRS_CONCURRENT = "PAIRS_CONCURRENT"
    PAIRS_FEW_NODES = "PAIRS_FEW_NODES"  # nodes, needed
    PAIRS_NOISE = "PAIRS_NOISE"  # noise, limit
    PAIRS_CLEARED = "PAIRS_CLEARED"  # suspects
    PAIRS_PATHS_LEFT = "PAIRS_PATHS_LEFT"  # suspects
    PAIRS_NOT_RETESTED = "PAIRS_NOT_RETESTED"  # suspects
    # part, names, serves, beyond, symptoms: of analysis.blame.BadComponent; drift: by its past
    BAD_COMPONENT = "BAD_COMPONENT"

    # The verdict on a network
    COMPONENT_SUSPECTED = "COMPONENT_SUSPECTED"  # component: reason
    LAUNCH_BAD = "LAUNCH_BAD"  # launch, reason
    LEVEL_WORSE = "LEVEL_WORSE"  # test, metric, unit, better, ratio, low, high: of a row
    BELOW_ADAPTER = "BELOW_ADAPTER"  # bandwidth, rate (B/s), share
    PART_UNMEASURED = "PART_UNMEASURED"  # check, why: reason
    NOTHING_BLAMED = "NOTHING_BLAMED"  # place: no bandwidth of pairs could be judged

    # A metric of a comparison
    ABSENT = "ABSENT"  # sessions
    VANISHED = "VANISHED"  # sessions
    NO_NUMBER = "NO_NUMBER"
    NOT_BEFORE = "NOT_BEFORE"
    UNLIKE = "UNLIKE"  # what: unit | geometry | direction, values
    CONSTANT = "CONSTANT"
    COUNT_VARIES = "COUNT_VARIES"
    COUNT_CHANGED = "COUNT_CHANGED"  # before, after
    ONE_JOB = "ONE_JOB"
    FEW_JOBS = "FEW_JOBS"  # before, after, needed
    FEW_SESSIONS = "FEW_SESSIONS"  # before, after, needed
    NIGHTS_UNKNOWN = "NIGHTS_UNKNOWN"  # margin
    # place, kernel (all, if there is none), change, metrics, of; controls: moved | still
    SHARED = "SHARED"
    TWO_STATES = "TWO_STATES"  # gap: a ratio; before, after: fractions of nights in the slower one
    INTERVAL_WIDE = "INTERVAL_WIDE"
    NOT_SIGNIFICANT = "NOT_SIGNIFICANT"
    UNDER_MARGIN = "UNDER_MARGIN"  # margin
    CORES_MOVED_ONLY = "CORES_MOVED_ONLY"  # control
    CORES_MOVED_TOO = "CORES_MOVED_TOO"  # control
    TAIL_PREEMPTED = "TAIL_PREEMPTED"  # fraction
    TAIL_OF_ONE_SESSION = "TAIL_OF_ONE_SESSION"
    BASELINE_MOVED = "BASELINE_MOVED"  # own: the change of the time itself
    MOVES_BY_ITSELF = "MOVES_BY_ITSELF"  # by
    JOBS_FAILED = "JOBS_FAILED"  # count, of, cause
    JOBS_UNUSABLE = "JOBS_UNUSABLE"  # count, of, cause

    # A comparison as a whole
    CORES_DRIFTED = "CORES_DRIFTED"  # place, control, hosts: with the slowest clocks
    AA_DIFFERS = "AA_DIFFERS"  # by, metrics
    SESSIONS_ONLY = "SESSIONS_ONLY"  # needed
    NO_MACHINE_VERDICT = "NO_MACHINE_VERDICT"  # before, after, needed
    SIDES_SWAPPED = "SIDES_SWAPPED"
    NO_AA = "NO_AA"
    NO_CONTROL = "NO_CONTROL"
    TIERS_DIFFER = "TIERS_DIFFER"  # before, after
    REPEAT_SUSPECTS = "REPEAT_SUSPECTS"  # metrics
    EXCLUDED = "EXCLUDED"  # sessions
    OF_OTHER_KINDS = "OF_OTHER_KINDS"  # sessions
    SAME_NIGHT = "SAME_NIGHT"  # sessions: two
    AHEAD = "AHEAD"  # sessions
    HISTORY_ENDS = "HISTORY_ENDS"  # at (Unix time), metrics, example, change: of unit or geometry
    NIGHTS_ALIKE = "NIGHTS_ALIKE"  # rho, nights: per side, worth: independent ones
    STATES_SEEN = "STATES_SEEN"  # metrics, test, states: a reason
    POWER = "POWER"  # nights: per side, effect, finer, needed: nights for it
    AA_LEFT_OUT = "AA_LEFT_OUT"  # by, metrics
    # Whether a network explains a speed-up
    FRACTION_UNKNOWN = "FRACTION_UNKNOWN"
    NOT_THE_NETWORK = "NOT_THE_NETWORK"  # fraction
    NOT_THE_NETWORK_ALONE = "NOT_THE_NETWORK_ALONE"  # fraction, most
    NETWORK_FASTER = "NETWORK_FASTER"  # fraction, factor
    NETWORK_SLOWER = "NETWORK_SLOWER"  # fraction, factor
    # What of the network explains that a code got slower; points, low, high, of: fractions of time
    NETWORK_EXPLAINS = "NETWORK_EXPLAINS"  # cause, change, method, size, points, low, high, of
    NETWORK_EXPLAINS_NOTHING = "NETWORK_EXPLAINS_NOTHING"  # patterns, fraction, points, of

    # What other traffic costs, by place (apart, beside), victim and aggressor
    CONGESTED = "CONGESTED"  # mean, p99: [loaded over quiet, low, high]
    IMPACT_WITHHELD = "IMPACT_WITHHELD"  # why: reason
    FEW_CYCLES = "FEW_CYCLES"  # cycles, needed
    NOT_QUIET = "NOT_QUIET"  # ratio: of the second quiet window to the first
    NOT_LOADED_ENOUGH = "NOT_LOADED_ENOUGH"  # load: of the aggressor, over that alone

    # A finding of a paper
    FINDING_OFF = "FINDING_OFF"  # parts: [[expression, value, published]]
    FINDING_UNMEASURED = "FINDING_UNMEASURED"  # parts, of; machine, kernel, case, cores, what
    FINDING_LACKS = "FINDING_LACKS"  # mechanism; change that makes it true, "" if none does
    FINDING_MISSING = "FINDING_MISSING"  # what
    FINDING_SHOWN = "FINDING_SHOWN"  # mechanism, listed as lacking; change

    # What the doctor finds; file and line stand beside the reason
    NOT_LOADING = "NOT_LOADING"  # error, test
    LOAD_DIED = "LOAD_DIED"  # exit_code
    REFRAME_REJECTS = "REFRAME_REJECTS"  # where, error
    CORES_UNKNOWN = "CORES_UNKNOWN"  # partition
    PARTITION_IDLE = "PARTITION_IDLE"  # partition, environs
    EXTRA_VALUE = "EXTRA_VALUE"  # partition, name, value
    EXTRA_UNKNOWN = "EXTRA_UNKNOWN"  # partition, name, near
    TOPOLOGY_FILE = "TOPOLOGY_FILE"  # partition, file, error
    BINDING_FORMAT = "BINDING_FORMAT"  # partition, template, error
    BINDING_FIELD = "BINDING_FIELD"  # partition, template, field, fields
    CLAIM_UNKNOWN = "CLAIM_UNKNOWN"  # partition, kinds, allowed
    CHECK_NOWHERE = "CHECK_NOWHERE"  # check, systems, environs
    VALUE_NOWHERE = "VALUE_NOWHERE"  # check, key, value
    NO_TIER = "NO_TIER"  # test, tiers
    NAME_UNKNOWN = "NAME_UNKNOWN"  # check, variable, key, value, known
    FILE_WITHOUT_TEST = "FILE_WITHOUT_TEST"
    NO_SITE_FILE = "NO_SITE_FILE"  # system, known
    FILE_UNREADABLE = "FILE_UNREADABLE"  # error
    NOT_YAML = "NOT_YAML"  # error
    NOT_A_MAPPING = "NOT_A_MAPPING"  # name, of
    KEY_KIND = "KEY_KIND"  # key, kind
    KEY_TWICE = "KEY_TWICE"  # key, first: line
    KEY_NUMBER = "KEY_NUMBER"  # key
    KEY_NO_REGEX = "KEY_NO_REGEX"  # key, error
    KEY_UNKNOWN = "KEY_UNKNOWN"  # key, name, branch, known
    KEY_NO_GEOMETRY = "KEY_NO_GEOMETRY"  # key
    KEY_TAKES_MORE = "KEY_TAKES_MORE"  # key, more
    KEY_UNREACHED = "KEY_UNREACHED"  # key, first, line
    NO_PROVENANCE = "NO_PROVENANCE"  # parts
    PROVENANCE_LACKS = "PROVENANCE_LACKS"  # part
    PROVENANCE_NO_LIST = "PROVENANCE_NO_LIST"  # value
    PROVENANCE_NO_DAY = "PROVENANCE_NO_DAY"  # value
    CHECK_UNKNOWN = "CHECK_UNKNOWN"  # check, known
    NO_INDEX = "NO_INDEX"  # check
    INDEX_NO_PROCESSOR = "INDEX_NO_PROCESSOR"  # check, name, key
    INDEX_NO_SPECIAL = "INDEX_NO_SPECIAL"  # check, name
    INDEX_NO_ATTRIBUTE = "INDEX_NO_ATTRIBUTE"  # check, name, known
    BRANCH_EMPTY = "BRANCH_EMPTY"  # branch
    BRANCH_NO_MAPPING = "BRANCH_NO_MAPPING"  # branch, key, of
    METRIC_UNKNOWN = "METRIC_UNKNOWN"  # check, metric, near
    METRIC_NO_REFERENCE = "METRIC_NO_REFERENCE"  # metric
    METRIC_PART = "METRIC_PART"  # metric, kind, value
    METRIC_UNIT = "METRIC_UNIT"  # metric, unit, measured
    METRIC_REFERENCE = "METRIC_REFERENCE"  # metric, fault: reason
    CHECK_NOT_COVERED = "CHECK_NOT_COVERED"  # partition, file, check
    CASES_NOT_COVERED = "CASES_NOT_COVERED"  # partition, check, metrics, case, others
    REFERENCES_OLD = "REFERENCES_OLD"  # day, age (d), allowed (d)
    REFERENCES_OF_OTHER = "REFERENCES_OF_OTHER"  # name, value, last
    REFERENCE_DRIFTED = "REFERENCE_DRIFTED"  # test, sessions, value, low, high
    SPACK_ENV_UNKNOWN = "SPACK_ENV_UNKNOWN"  # environ, value, known
    SPACK_NOT_BUILT = "SPACK_NOT_BUILT"  # system, environ, value, folder
    SPACK_TARGET_OPEN = "SPACK_TARGET_OPEN"  # partition, environ, files
    LOCK_UNREADABLE = "LOCK_UNREADABLE"  # error
    LOCK_CHANGED = "LOCK_CHANGED"
    LOCK_NOT_COMPARED = "LOCK_NOT_COMPARED"  # file, error
    LOCK_OLD = "LOCK_OLD"  # lock, old, new
    DATABASE_DAMAGED = "DATABASE_DAMAGED"  # error
    STORE_UNUSABLE = "STORE_UNUSABLE"  # error


# Something else had the cores of a launch that ended well, so that its times say nothing.
DISTURBED = frozenset({Code.PREEMPTED, Code.STOPPED})
# Whose fault a stopped launch is: the machine's, which has failed it ...
MACHINE_FAULTS = frozenset(
    {Code.TIMEOUT, Code.NODE_FAIL, Code.OUT_OF_MEMORY, Code.MPI_ABORT, Code.HANG}
)
# ... or that of what is around it, which leaves the launch unmeasured.
OUTER_FAULTS = frozenset({Code.BLOCKED, Code.CANCELLED, Code.INFRASTRUCTURE})
# What a launch shows of a host: it is slow ...
SLOW_HOSTS = frozenset({Code.SLOW_CLOCK, Code.SLOW_CORES, Code.SLOW_MEMORY, Code.BUSY_CORES})
# ... or its adapters are faulty.
FAULTS_OF_HOSTS = SLOW_HOSTS | {Code.ADAPTER_ERRORS, Code.ADAPTER_DIFFERS, Code.TCP_LOSSES}
RENAMED = {"STALLED": Code.HANG}  # names of earlier versions
# What the doctor finds and is no defect.
NOTES = frozenset({Code.METHOD_NOT_JUDGED, Code.SPACK_NOT_BUILT, Code.SPACK_TARGET_OPEN})


def _plain(value: Any) -> Any:
    """`value` as JSON has it, reasons as dictionaries."""
    if isinstance(value, Reason):
        return value.as_dict()
    if isinstance(value, Mapping):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


@dataclass(frozen=True)
class Reason:
    """A code and its values, which are what JSON can hold."""

    code: Code
    values: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, code: Code, **values: Any) -> "Reason":
        """The Reason of this code; values of None are left out."""
        return cls(code, {n: _plain(v) for n, v in values.items() if v is not None})

    @classmethod
    def read(cls, stored: Any) -> "Reason | None":
        """The Reason that was stored as dictionary or as text; None for what says nothing.

        Free text, as other tools and earlier versions store it, becomes a Reason of code TEXT, or
        of the fault that it names.
        """
        if isinstance(stored, Reason) or not stored:
            return stored or None
        if isinstance(stored, str) and stored.startswith("{"):
            try:
                stored = json.loads(stored)
            except (ValueError, RecursionError):
                return cls.of(Code.TEXT, text=stored)
        if not isinstance(stored, Mapping):
            return _of_text(str(stored))
        values = {str(name): value for name, value in stored.items() if name != "code"}
        name = stored.get("code")
        try:
            return cls(RENAMED.get(name) or Code(name), values)
        except ValueError:  # of a newer version
            return cls.of(Code.TEXT, text=json.dumps(_plain(stored)))

    def __getitem__(self, name: str) -> Any:
        """A value; None if there is none of this name."""
        return self.values.get(name)

    __iter__ = None  # else __getitem__ would make an endless sequence of it

    def __hash__(self) -> int:
        return hash(self.dumps())

    def __str__(self) -> str:
        """For logs of ReFrame: CODE name=value ..."""
        values = (f"{name}={json.dumps(value)}" for name, value in self.values.items())
        return " ".join([self.code.value, *values])

    def as_dict(self) -> dict[str, Any]:
        """As JSON has it: {"code": code, name: value, ...}."""
        return {"code": self.code.value, **self.values}

    def dumps(self) -> str:
        """As one line of JSON, the same for equal reasons."""
        return json.dumps(self.as_dict(), sort_keys=True)


def _of_text(text: str) -> Reason:
    """A cause that was stored as text, before there were codes or by another tool."""
    name, _, rest = text.partition(": ")
    if name in {*MACHINE_FAULTS, *OUTER_FAULTS, *RENAMED}:
        return Reason.of(RENAMED.get(name) or Code(name), text=rest)
    if match := re.fullmatch(r"(.*) did not pass", text):
        return Reason.of(Code.FOLLOWS, test=match[1])
    return Reason.of(Code.TEXT, text=text)
