#!/bin/sh
# Makes this machine ready: system packages, then a Python environment below .bisection/.
# Prints what it installs before it does. Quick and silent when there is nothing to do; an
# interrupted set-up is done again.
#
#   bootstrap.sh [--dev] [--build system|spack|site] [--site NAME]
#
#   --dev     also the tools that `make test` needs
#   --build   whose libraries the kernels use: the machine's (system, the default), Spack's, or
#             those of a site whose configuration loads them (nothing but Python is looked for)
#   --site    refuses a NAME that site-configs/ does not have
#
# INSTALL=no      installs nothing, and names what is missing
# BUNDLE          the folder of an unpacked archive of `make bundle`, in place of a network
# PYTHON          the Python to use
# BISECTION_HOME  a folder in place of .bisection
#
# Exit codes: 0 ready, 2 usage, 3 something is missing and was not installed.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
home=${BISECTION_HOME:-$root/.bisection}
case $home in /*) ;; *) home=$PWD/$home ;; esac
venv=$home/venv
log=$home/setup.log
packages=$root/spack-env/debian12/packages.txt
if ! command -v apt-get >/dev/null && command -v dnf >/dev/null; then
    packages=$root/spack-env/rhel9/packages.txt
fi
lock=$root/spack-env/python.lock
dev_lock=$root/spack-env/python-dev.lock
spack_alternative="make nightly ARGS='-p spack'"
export PYTHONUTF8=1 # paths with umlauts, in any locale

say() { printf 'set-up: %s\n' "$*"; }
# die CODE WORDS...
die() {
    code=$1
    shift
    say "$*" >&2
    exit "$code"
}

# step TEXT COMMAND...: one line with the seconds it took.
step() {
    text=$1
    shift
    printf 'set-up: %s ... ' "$text"
    began=$(date +%s)
    if "$@" >>"$log" 2>&1; then
        printf '%s s\n' $(($(date +%s) - began))
        return 0
    fi
    printf 'failed\n'
    return 1
}

# offline: whether the last step failed because it reached no other machine.
offline() {
    tail -n 30 "$log" | grep -Eiq \
        'name resolution|resolving|resolve|unreachable|refused|timed out|no route to host'
}

# explain: the log's end, after a step that failed.
explain() {
    tail -n 8 "$log" | sed 's/^/    /' >&2
    say "all of it is in $log" >&2
}

# record KIND LINES: keeps what was installed, for the results of each run.
record() {
    now=$(date -u +%Y-%m-%dT%H:%M:%SZ)
    echo "$2" | sed -n "s/^[^ ]/$now $1 &/p" >>"$home/installed.txt"
}

# ---- what is there -------------------------------------------------------------------------------

# known_site NAME: of site-configs/NAME.py, or of DIR/NAME.py, with or without :PARTITION.
known_site() {
    name=${1%%:*}
    case $name in
        *.py) [ ! -f "$name" ] || return 0 ;;
        common* | */common*) ;;
        *) [ ! -f "$root/site-configs/$name.py" ] || return 0 ;;
    esac
    sites=''
    for file in "$root"/site-configs/*.py "$root"/site-configs/*/*.py; do
        name=${file#"$root"/site-configs/}
        case $name in
            common* | */common*) ;;
            *) sites="$sites${sites:+, }${name%.py}" ;;
        esac
    done
    die 2 "SYSTEM=$1: unknown; site-configs/ has $sites"
}

# at_least HAVE LEAST: of two versions, by their first two numbers.
at_least() {
    echo "${1:-0} $2" | awk '{ split($1, have, "."); split($2, least, ".")
        exit !(have[1] > least[1] || (have[1] == least[1] && have[2] + 0 >= least[2])) }'
}

new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; }

# The first Python that is new enough and can make environments.
find_python() {
    modules=$1
    for python in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11 python3.10}; do
        if new_enough "$python" && "$python" -c "import $modules" 2>/dev/null; then
            return 0
        fi
    done
    return 1
}

# present PROBE: whether what packages.txt asks for with PROBE is there.
present() {
    what=${1#*:}
    case $1 in
        command:*) command -v "$what" ;;
        pkg-config:*) pkg-config --exists "$what" ;;
        python:*) [ -f "$venv/ready" ] || find_python "$what" ;;
        cmake:*) at_least "$(cmake --version | sed -n '1s/.* //p')" "$what" ;;
        header:*)
            compiler=mpicc
            command -v mpicc || compiler=gcc
            echo "#include <$what>" >"$home/probe.c"
            # shellcheck disable=SC2046 # pkg-config prints several words
            $compiler -E $(pkg-config --cflags fftw3 || :) "$home/probe.c" ;;
        *) false ;;
    esac >/dev/null 2>&1
}

# survey BUILD: fills `missing` (packages), `lacking` (in words), `insisted` (packages that must
# be there) and `only_libraries` (whether Spack could bring all of them).
survey() {
    missing='' lacking='' insisted='' only_libraries=yes
    [ "$1" != site ] || return 0
    while read -r package needed_by probe _ words; do
        case $package:$needed_by in
            '#'* | :*) continue ;;
            *:all | *:"$1" | *:extra) ;;
            *:dev)
                [ "$extra" = dev ] || continue
                needed_by=extra
                ;;
            # the machine's own libraries save Spack from building them
            *:system)
                [ "$1" = spack ] || continue
                needed_by=extra
                ;;
            *) continue ;;
        esac
        present "$probe" && continue
        missing="$missing $package"
        [ "$needed_by" = extra ] && continue
        [ "$needed_by" = all ] && only_libraries=no
        insisted="$insisted $package"
        lacking="$lacking${lacking:+; }$words"
    done <"$packages"
}

# refuse_old: what apt has is too old to be used, as on an old Debian; before anything is installed.
refuse_old() {
    old=''
    while read -r package _ probe _; do
        case "$insisted " in *" $package "*) ;; *) continue ;; esac
        case $probe in
            python:*) least=3.10 ;;
            cmake:*) least=${probe#*:} ;;
            *) continue ;;
        esac
        have=$(apt-cache policy "$package" 2>/dev/null | sed -n 's/^ *Candidate: \([0-9.]*\).*/\1/p')
        [ -z "$have" ] || at_least "$have" "$least" ||
            old="$old${old:+; }$package $have, where $least is needed"
    done <"$packages"
    [ -z "$old" ] || die 3 "too old in this system's packages: $old. Nothing was installed." \
        "PYTHON=/path/to/python3 names another Python; another CMake is taken from PATH"
}

# refuse_to_install BUILD: with INSTALL=no; what is missing that a run needs, and how to get it.
refuse_to_install() {
    needs=$lacking python=''
    ! command -v apt-get >/dev/null || needs=${insisted:+Debian packages$insisted}
    python_ready || python="Python packages in $venv"
    [ -n "$needs$python" ] || return 0
    say "INSTALL=no, and missing: $needs${needs:+${python:+; }}$python" >&2
    [ -z "$insisted" ] || how_to_install "$1"
    [ -z "$python" ] || say "\`make setup\` without INSTALL=no installs what is missing" >&2
    exit 3
}

# how_to_install BUILD: the command that installs what must be there, for a person.
how_to_install() {
    if command -v apt-get >/dev/null; then
        say "install them: sudo apt-get install --no-install-recommends$insisted" >&2
    elif command -v dnf >/dev/null; then
        say "install them (these names are untried):" \
            "sudo dnf install$(echo "$insisted" | sed 's: [a-z]*/: :g')" >&2
        say "Open MPI is on PATH after: module load mpi/openmpi-x86_64" >&2
    fi
    if [ "$1" = system ] && [ "$only_libraries" = yes ]; then
        say "or let Spack build the libraries: $spack_alternative" >&2
    fi
}

# nothing_runs: no run measures while this machine or its environment changes.
nothing_runs() {
    command -v flock >/dev/null || return 0
    exec 8>>"$home/run.lock"
    flock -n 8 || die 3 "installs nothing, as $home is in use: $(cat "$home/run.lock")"
    echo "pid $$: set-up" >"$home/run.lock"
}

# ---- system packages -----------------------------------------------------------------------------

# How to run a command as the administrator: nothing for root, sudo if it asks no questions.
may_install() {
    command -v apt-get >/dev/null || return 1
    if [ "$(id -u)" -eq 0 ]; then
        as_root=''
    elif sudo -n true 2>/dev/null; then
        as_root='sudo -n'
    else
        return 1
    fi
}

apt() {
    (
        umask 022 # what is installed is for all users
        # shellcheck disable=SC2086 # two words, or none
        $as_root env LC_ALL=C DEBIAN_FRONTEND=noninteractive apt-get \
            -o DPkg::Lock::Timeout=300 -o APT::Update::Error-Mode=any "$@"
    )
}

# amount: how much apt would install for the packages, by its own account.
amount() {
    apt install --no-install-recommends --yes --print-uris "$@" 2>/dev/null | awk '
        / newly installed/    { count = $1 + $3 }
        / of archives\.$/     { sub(/^Need to get /, ""); sub(/\/[^ ]*/, ""); sub(/ of archives.*/, "")
                                load = $0 }
        / will be used\.$/    { sub(/^After this operation, /, ""); sub(/ of additional.*/, "")
                                use = $0 }
        END { if (count) printf "%d Debian packages, %s to download, %s on disk", count, load, use }'
}

# planned: what apt would install for the packages, a line each: NAME VERSION.
planned() {
    apt install --no-install-recommends --simulate "$@" 2>/dev/null |
        sed -n 's/^Inst \([^ ]*\) \(\[[^]]*\] \)\{0,1\}(\([^ ]*\).*/\1 \3/p'
}

install_packages() {
    nothing_runs
    if ! step "package lists" apt update && offline; then
        say "no network: apt-get does not reach its servers" >&2
        return 1
    fi
    refuse_old # by the lists as they are now
    sizes=$(amount "$@") || sizes=''
    say "installs ${sizes:-Debian packages}, for $*"
    plan=$(planned "$@") || plan=''
    if ! step "system packages" apt install --no-install-recommends --yes "$@"; then
        explain
        return 1
    fi
    record debian "$plan"
}

system_packages() {
    [ -n "$missing" ] || return 0
    if may_install; then
        # shellcheck disable=SC2086 # a list
        install_packages $missing || :
        hash -r # forget where commands were not
        survey "$1"
    fi
    [ -n "$insisted" ] || return 0

    if command -v apt-get >/dev/null; then
        say "missing packages:$insisted" >&2
    elif command -v dnf >/dev/null; then
        say "missing packages, by repository:$insisted" >&2
    else
        say "missing: $lacking" >&2
    fi
    how_to_install "$1"
    exit 3
}

# ---- Python --------------------------------------------------------------------------------------

# Leaves no cache behind, unless PIP_CACHE_DIR names one.
pip() {
    [ -n "${PIP_CACHE_DIR:-}" ] || set -- --no-cache-dir "$@"
    "$venv/bin/python" -m pip --disable-pip-version-check "$@"
}

# python_ready: whether the environment was made from these files, and its Python is still there.
# `ready` is written last. Tools for tests name the folder where they were installed.
python_ready() {
    made_from=$(cat "$lock" "$dev_lock" "$0" | cksum)
    [ -f "$venv/ready" ] && "$venv/bin/python" -c 'import yaml' 2>/dev/null || return 1
    case $extra:$(cat "$venv/ready") in
        "dev:$made_from dev $root") ;;
        ":$made_from"*) ;;
        *) return 1 ;;
    esac
}

python_environment() {
    if ! python_ready; then
        nothing_runs
        size=$(sed -n 's/^# size: //p' "$lock")
        say "installs $size of Python packages${extra:+, and the tools for tests,} in $venv"
        if ! new_python_environment; then
            rm -rf "$venv"
            exit 3
        fi
        echo "$made_from${extra:+ $extra $root}" >"$venv/ready"
        record python "$(pip list --format freeze)"
    fi
    link_clone
}

new_python_environment() {
    if ! find_python venv,ensurepip; then
        found=$("${PYTHON:-python3}" --version 2>&1) || found='no Python'
        say "Python 3.10 or newer with venv is needed, found $found;" \
            "name one with PYTHON=/path/to/python3" >&2
        return 1
    fi
    rm -rf "$venv"
    if ! step "Python environment" "$python" -m venv "$venv"; then
        explain
        return 1
    fi
    set -- --no-deps --no-compile --requirement "$lock" # a whole list
    [ -z "$extra" ] || set -- "$@" --requirement "$dev_lock"
    if [ -n "${BUNDLE:-}" ]; then
        set -- --no-index --find-links "$BUNDLE/wheels" "$@"
    elif ! reachable; then
        say "no network: pip reaches no package index. Set PIP_INDEX_URL to a mirror, or run" \
            "\`make bundle\` on a machine with network and its \`setup\` here" >&2
        return 1
    fi
    if ! step "Python packages" pip install "$@"; then
        explain
        return 1
    fi
}

# reachable: tries to download one small package. pip prints why it tries again, not why it gives up;
# other failures are for the installation to show.
reachable() {
    probe=$home/cache/probe
    pip download --retries 1 --timeout 15 --no-deps --dest "$probe" \
        "$(grep '^tabulate==' "$lock")" >>"$log" 2>&1 || ! offline
    status=$?
    rm -rf "$probe"
    return $status
}

# link_clone: the environment finds the suite's Python; bisection and reframe find the environment.
link_clone() {
    for folder in "$venv"/lib/python3*/site-packages; do
        case $home/ in
            # Relative, so that a clone may move, and thus in ASCII, which Python reads in any locale.
            "$root"/*) checks=$(echo "${folder#"$root"/}" | sed 's:[^/][^/]*:..:g')/checks ;;
            *) checks=$root/checks ;;
        esac
        replace "$folder/bisection.pth" "$checks"
    done
    mkdir -p "$home/bin"
    for program in bisection workshop reframe; do
        replace "$home/bin/$program" "$(cat "$root/spack-env/launch.sh")"
        chmod +x "$home/bin/$program"
    done
}

# replace FILE TEXT: unless the file has it; a run may be reading.
replace() {
    [ "$(cat "$1" 2>/dev/null)" != "$2" ] || return 0
    printf '%s\n' "$2" >"$1.new" && mv "$1.new" "$1"
}

# unpack_spack: Spack, its packages, its solver and sources from BUNDLE, where the suite looks for them.
unpack_spack() {
    [ -d "$BUNDLE/spack" ] || return 0
    mkdir -p "$home/spack"
    for clone in "$BUNDLE"/spack/*.git; do
        folder=$home/spack/$(basename "$clone" .git)
        [ ! -e "$folder" ] || continue
        rm -rf "$folder.part"
        if ! step "${folder##*/}" git clone --quiet "$clone" "$folder.part"; then
            explain
            exit 3
        fi
        mv "$folder.part" "$folder"
    done
    [ ! -d "$BUNDLE/spack/mirror" ] || cp -R "$BUNDLE/spack/mirror" "$home/spack/"
    "$venv/bin/python" -c 'import clingo' 2>/dev/null && return
    nothing_runs
    if ! step "Spack's solver" pip install --no-index --find-links "$BUNDLE/wheels" clingo; then
        explain
        exit 3
    fi
}

# ---- main ----------------------------------------------------------------------------------------

build=system extra='' install=${INSTALL:-yes}
while [ $# -gt 0 ]; do
    case $1 in
        --dev) extra=dev ;;
        --build | --site)
            [ $# -gt 1 ] || die 2 "$1 needs a value"
            if [ "$1" = --site ]; then known_site "$2"; else build=$2; fi
            shift
            ;;
        *) die 2 "unknown option '$1', there are --dev, --build and --site" ;;
    esac
    shift
done
case $build in
    system | spack | site) ;;
    *) die 2 "--build '$build' is none of system, spack, site" ;;
esac
case $install in
    yes | no) ;;
    *) die 2 "INSTALL=$install is none of yes, no" ;;
esac
[ -z "${BUNDLE:-}" ] || [ -d "$BUNDLE/wheels" ] || die 2 "BUNDLE=$BUNDLE: no unpacked bundle, a folder with wheels/"
# Each has a meaning in make, CMake, PYTHONPATH or ReFrame.
case $root$home in
    *[:\;\$\\\"\`%*?\[\#]*) die 2 "cannot work in a folder with one of : ; \$ \\ \" \` % * ? [ # in its path:" \
        "$root${BISECTION_HOME:+, $home}" ;;
esac
if ! { mkdir -p "$home" && : >>"$log"; } 2>/dev/null; then
    die 2 "cannot write to $home; BISECTION_HOME names another folder"
fi

# Two set-ups of one home take turns.
if command -v flock >/dev/null; then
    exec 9>"$home/setup.lock"
    flock 9
fi
survey "$build"
refuse_old
if [ "$install" = no ]; then
    refuse_to_install "$build"
    exit 0
fi
: >"$log"
system_packages "$build"
python_environment
[ -z "${BUNDLE:-}" ] || unpack_spack
