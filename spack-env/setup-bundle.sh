#!/bin/sh
# Sets Bisection up from this unpacked bundle, without a network.
#
#   setup [FOLDER]   the folder of the new clone; default: ./bisection
#
# Exit codes: 0 ready, 2 usage, 3 something is missing.
set -eu

bundle=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
target=${1:-bisection}
read -r version machine <"$bundle/platform"

# die CODE WORDS...
die() {
    code=$1
    shift
    echo "setup: $*" >&2
    exit "$code"
}

[ $# -le 1 ] || die 2 "one folder, not $#"
[ ! -e "$target" ] || die 2 "$target is there; name another folder"
[ "$machine" = "$(uname -m)" ] || die 3 "this bundle is for $machine, not for $(uname -m)"
command -v git >/dev/null || die 3 "git is missing"
PYTHON=${PYTHON:-python$version}
here=$("$PYTHON" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || here='missing'
[ "$here" = "$version" ] ||
    die 3 "this bundle is for Python $version, and $PYTHON is $here; name one with PYTHON=/path/to/python"

git clone --quiet --origin bundle "$bundle/bisection.git" "$target"
export PYTHON BUNDLE="$bundle"
"$target/spack-env/bootstrap.sh" --build site
echo "set-up: ready in $target; there: make nightly SYSTEM=NAME"
