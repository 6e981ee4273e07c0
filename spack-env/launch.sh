#!/bin/sh
# Starts the program that it is named after (bisection, workshop, reframe), from any folder. Set-up
# copies it to bin/ below the home: links to it work, and a moved clone works. All caches stay below it.
set -eu

self=$0
while [ -h "$self" ]; do
    target=$(readlink -- "$self")
    case $target in
        /*) self=$target ;;
        *) self=$(dirname -- "$self")/$target ;;
    esac
done
home=$(CDPATH='' cd -- "$(dirname -- "$self")/.." && pwd)
name=$(basename -- "$self")

if ! [ -x "$home/venv/bin/python" ]; then
    echo "$name: $home/venv has no Python; run make setup in the clone" >&2
    exit 2
fi
own=$home
# A package's prefix is its administrator's, and is not written to.
if [ -f "$home/share/bisection/installation.json" ]; then
    own=${BISECTION_HOME:-${HOME:?is not set, nor is BISECTION_HOME}/.bisection}
fi
BISECTION_HOME=${BISECTION_HOME:-$own}
case $BISECTION_HOME in /*) ;; *) BISECTION_HOME=$PWD/$BISECTION_HOME ;; esac
export BISECTION_HOME
[ "$own" = "$home" ] && [ -w "$home" ] || own=$BISECTION_HOME
export XDG_CACHE_HOME="$own/cache"
export MPLCONFIGDIR="$XDG_CACHE_HOME/matplotlib"
export PYTHONPYCACHEPREFIX="$XDG_CACHE_HOME/python"
unset PYTHONDONTWRITEBYTECODE # of many containers: each start would compile all sources again
export PYTHONUTF8=1 # paths with umlauts, in any locale
case $name in
    reframe) exec "$home/venv/bin/python" "$home/venv/bin/reframe" "$@" ;;
    *) # -m would import modules of the folder where it is called, a yaml.py for example
        exec "$home/venv/bin/python" -c \
            "import sys; del sys.path[0]; from bisection.start import start; start('$name')" "$@" ;;
esac
