#!/bin/sh
# Makes this machine ready: system packages, then a Python environment below .bisection/.
# Quick and silent when there is nothing to do; an interrupted set-up is done again.
#
#   bootstrap.sh [--dev] [--build system|spack|site]
#
#   --dev     also the tools that `make test` needs
#   --build   whose libraries the kernels use: the machine's (system, the default), Spack's, or
#             those of a site whose configuration loads them (nothing but Python is looked for)
#
# PYTHON names the Python to use, BISECTION_HOME a folder instead of .bisection.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
home=${BISECTION_HOME:-$root/.bisection}
venv=$home/venv
log=$home/setup.log
packages=$root/spack-env/debian12/packages.txt
constraints=$root/spack-env/python.lock
spack_alternative="make nightly ARGS='-p spack'"

say() { printf 'set-up: %s\n' "$*"; }
die() {
    say "$*" >&2
    exit 1
}

# step TEXT COMMAND...: one line with the seconds it took; the log's end if it failed.
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
    tail -n 8 "$log" | sed 's/^/    /' >&2
    return 1
}

# ---- what is there -------------------------------------------------------------------------------

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
        cmake:*) cmake --version | awk -v want="$what" '
            NR == 1 { split($3, have, "."); split(want, least, ".")
                      enough = have[1] > least[1] || (have[1] == least[1] && have[2] + 0 >= least[2]) }
            END { exit !enough }' ;;
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

install_packages() {
    apt="$as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300"
    # shellcheck disable=SC2086 # several words each
    $apt update && $apt install --yes --no-install-recommends $missing
}

system_packages() {
    survey "$1"
    [ -n "$missing" ] || return 0
    if may_install; then
        step "system packages:$missing" install_packages || :
        hash -r # forget where commands were not
        survey "$1"
    fi
    [ -n "$insisted" ] || return 0

    if command -v apt-get >/dev/null; then
        say "missing packages:$insisted" >&2
        say "install them: sudo apt-get install --no-install-recommends$insisted" >&2
    else
        say "missing: $lacking" >&2
    fi
    if [ "$1" = system ] && [ "$only_libraries" = yes ]; then
        say "or let Spack build the libraries: $spack_alternative" >&2
    fi
    exit 1
}

# ---- Python --------------------------------------------------------------------------------------

python_environment() {
    # `ready` is written last; it says what the environment was made from and, with "dev", that the
    # tools for tests are in it too.
    made_from=$(echo "$root" | cat - "$root/pyproject.toml" "$constraints" "$0" | cksum)
    have=$(cat "$venv/ready" 2>/dev/null) || have=''
    "$venv/bin/python" -c '' 2>/dev/null || have='' # the Python it was made with is gone
    case $have in
        "$made_from dev") return 0 ;;
        "$made_from") [ -n "$1" ] || return 0 ;;
        *) new_python_environment ;;
    esac

    rm -f "$venv/ready"
    if ! step "Python packages${1:+ and the tools for tests}" "$venv/bin/python" -m pip install \
        --disable-pip-version-check --constraint "$constraints" --editable "$root${1:+[$1]}"; then
        die "pip failed (all of it in $log); behind a wall, set PIP_INDEX_URL to a mirror"
    fi
    echo "$made_from${1:+ $1}" >"$venv/ready"
}

new_python_environment() {
    if ! find_python venv,ensurepip; then
        found=$("${PYTHON:-python3}" --version 2>&1) || found='no Python'
        die "Python 3.10 or newer with venv is needed, found $found;" \
            "name one with PYTHON=/path/to/python3"
    fi
    rm -rf "$venv"
    step "Python environment" "$python" -m venv "$venv" || exit 1
}

# ---- main ----------------------------------------------------------------------------------------

build=system extra=''
while [ $# -gt 0 ]; do
    case $1 in
        --dev) extra=dev ;;
        --build)
            build=${2:-}
            [ $# -lt 2 ] || shift
            ;;
        *) die "unknown option '$1', there are --dev and --build" ;;
    esac
    shift
done
case $build in
    system | spack | site) ;;
    *) die "--build '$build' is none of system, spack, site" ;;
esac

if ! { mkdir -p "$home" && : >>"$log"; } 2>/dev/null; then
    die "cannot write to $home"
fi
# Two set-ups of one clone take turns.
if command -v flock >/dev/null; then
    exec 9>"$home/setup.lock"
    flock 9
fi
: >"$log"
[ "$build" = site ] || system_packages "$build"
python_environment "$extra"
