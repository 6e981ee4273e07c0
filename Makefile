# Bisection. `make` lists the targets; each sets up what it needs.

SYSTEM ?= localhost
ARGS ?=
SHELL := /bin/bash
HOME_DIR := $(or $(BISECTION_HOME),$(CURDIR)/.bisection)
BIN := $(HOME_DIR)/venv/bin
BISECTION := "$(HOME_DIR)/bin/bisection"
WORKSHOP := "$(HOME_DIR)/bin/workshop"
SETUP = spack-env/bootstrap.sh --build $(BUILD)
# A site's configuration loads its own compilers and libraries; Spack builds its own.
BUILD := $(if $(filter %spack,$(ARGS)),spack,$(if $(filter localhost localhost:%,$(SYSTEM)),system,site))
# Four tests side by side keep two cores busy: launches wait while they start. Other MPI libraries' ranks spin.
JOBS = 4
test-long test-portable: JOBS = 3
CTEST = --parallel $(JOBS) --output-on-failure --no-tests=error
SHORT := --label-exclude long
PYTEST := -m pytest -q --numprocesses 3 --dist worksteal
BEGAN := $(shell date +%s)
# Quiet; warnings are errors.
CMAKE_QUIET := -DCMAKE_RULE_MESSAGES=OFF -DCMAKE_COMPILE_WARNING_AS_ERROR=ON
MAKEFLAGS += --no-print-directory

# Python: paths with umlauts in any locale, and nothing written beside the sources.
export PYTHONUTF8 := 1
export PYTHONPYCACHEPREFIX := $(HOME_DIR)/cache/python
unexport PYTHONDONTWRITEBYTECODE # of many containers: each process would compile 50 MB of sources again

# Tests write many small files: in memory, where that has room and lets programs run. Pytest's own folders
# stay on disk, as virtual nodes have a /dev/shm of their own.
DISK := $(or $(TMPDIR),/tmp)
SCRATCH := $(shell [ -w /dev/shm ] && ! grep -q ' /dev/shm [^ ]* [^ ]*noexec' /proc/mounts \
    && [ "$$(df --output=avail -BM /dev/shm | tail -1 | tr -dc 0-9)" -ge 3000 ] && echo /dev/shm)
test-kernels test-long test-portable test-sanitized test-python: export TMPDIR := $(or $(SCRATCH),$(DISK))
test-long test-python: export PYTEST_DEBUG_TEMPROOT := $(DISK)

# Open MPI refuses to run as root, the user of most containers, without both of these.
ifeq ($(shell id -u),0)
export OMPI_ALLOW_RUN_AS_ROOT := 1
export OMPI_ALLOW_RUN_AS_ROOT_CONFIRM := 1
endif

.NOTPARALLEL:
.PHONY: help setup setup-dev bundle docs nightly test test-all kernels test-kernels test-long test-portable test-sanitized \
    test-python test-quick test-mutants mutants simulated testbed lint format bench clean
export TIMEFORMAT = -- $@: %0R s

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' Makefile
	@echo "  SYSTEM=NAME    the machine to judge, a file of site-configs/ (default: localhost, this machine)"
	@echo "  ARGS='...'     further arguments for \`bisection run\`, or for ReFrame"
	@echo "  INSTALL=no     install nothing; print missing packages"
	@echo "  BUNDLE=FOLDER  an unpacked archive of \`make bundle\`, in place of a network"
	@echo "  PYTHON=FILE    the Python to use, 3.10 or newer"
	@echo "  BISECTION_HOME=DIR   the folder for everything that is written (default: .bisection)"

setup: ## install missing system packages, and a Python environment in .bisection/
	@$(SETUP)

setup-dev:
	@$(SETUP) --dev

bundle: SETUP = spack-env/bootstrap.sh --build site
bundle: setup ## pack everything for a set-up without network: ARGS=--no-spack, ARGS=--sources
	@$(WORKSHOP) bundle $(ARGS)

# A run needs the site's file before anything is installed.
nightly test-quick: SETUP += --site "$(SYSTEM)"
nightly: setup ## judge this machine: build, run the nightly checks, end with a verdict
	@$(BISECTION) run --tier nightly --system $(SYSTEM) $(ARGS)

test: setup-dev lint test-kernels test-python ## test the suite itself: style, kernels, Python
	@echo "-- make test: $$(( $$(date +%s) - $(BEGAN) )) s"

test-all: test test-long test-sanitized test-portable test-quick testbed docs test-mutants ## the same, and longer tests
	@echo "-- make test-all: $$(( $$(date +%s) - $(BEGAN) )) s"

kernels: setup-dev
	@echo "== kernels: build"
	@time ( cmake -S src -B "$(HOME_DIR)/build" -DCMAKE_BUILD_TYPE=Release $(CMAKE_QUIET) >/dev/null \
	    && cmake --build "$(HOME_DIR)/build" --parallel $$(nproc) )

test-kernels: kernels
	@echo "== kernels: unit tests, every kernel and method"
	@time ctest --test-dir "$(HOME_DIR)/build" $(SHORT) $(CTEST) --output-junit tests.xml

test-long: kernels
	@echo "== tests of minutes: many steps, every layout, long simulations"
	@time ( status=0; ctest --test-dir "$(HOME_DIR)/build" --label-regex long $(CTEST) || status=1; \
	    "$(BIN)/python" $(PYTEST) -m "long or spack" || status=1; exit $$status )

# MPICH's ranks spin while they wait: tests with more ranks than cores are disabled, and counted.
test-portable: setup-dev ## build and test by other compilers, for ARM64, ...: ARGS=--all, ARGS=NAME...
	@"$(BIN)/python" src/tests/combinations.py "$(HOME_DIR)" $(JOBS) \
	    $(if $(filter test-portable,$(MAKECMDGOALS)),$(ARGS))

# MPI keeps memory until it ends, so leaks are not looked for.
test-sanitized: export ASAN_OPTIONS = detect_leaks=0
test-sanitized: export UBSAN_OPTIONS = halt_on_error=1:print_stacktrace=1
test-sanitized: setup-dev
	@echo "== kernels: unit tests, launches of every method, under the address and undefined-behaviour sanitizers"
	@time ( cmake -S src -B "$(HOME_DIR)/build-sanitize" -DCMAKE_BUILD_TYPE=Debug -DBX_SANITIZE=ON \
	      $(CMAKE_QUIET) >/dev/null \
	    && cmake --build "$(HOME_DIR)/build-sanitize" --parallel $$(nproc) --target launched without-nan \
	    && ctest --test-dir "$(HOME_DIR)/build-sanitize" --label-regex "unit|sanitized" $(CTEST) )

test-python: setup-dev
	@echo "== the suite's Python: pytest"
	@time "$(BIN)/python" $(PYTEST)

test-quick: setup-dev
	@echo "== the quick checks, on this machine"
	@time $(BISECTION) run --tier quick --system $(SYSTEM) $(ARGS)

simulated: setup-dev ## a transpose on each machine of site-configs/published
	@command -v smpirun >/dev/null || { echo "skipped: SimGrid is not installed"; exit; }; \
	for machine in $(SIMULATED); do $(BISECTION) run --system $$machine -n $(PUBLISHED) $(ARGS) || exit; done

SIMULATED := $(filter-out %/common_simulated,$(patsubst site-configs/%.py,%,$(wildcard site-configs/published/*.py)))
PUBLISHED := '^transpose%method=shm%.*layout=mpi%launch.case=cnt40$$'
# Clusters stand two at a time, as runs wait there; faults of this host are told by its times.
TESTBED := checks/workshop/tests/testbed
ON_TESTBED := -m pytest -q -m testbed $(if $(filter testbed,$(MAKECMDGOALS)),$(ARGS))
testbed: setup-dev ## launches and faults on virtual Slurm clusters, faults of this host; ARGS=--full: all of them
	@echo "== launches and faults, on virtual Slurm clusters; faults of this host"
	@time ( clusters=0; host=0; \
	    "$(BIN)/python" $(ON_TESTBED) --numprocesses 2 --dist loadfile --junitxml="$(HOME_DIR)/testbed.xml" \
	        $(TESTBED) --ignore=$(TESTBED)/test_ladder.py || clusters=$$?; \
	    "$(BIN)/python" $(ON_TESTBED) --junitxml="$(HOME_DIR)/testbed-host.xml" $(TESTBED)/test_ladder.py || host=$$?; \
	    case $$clusters,$$host in 0,0 | 0,5 | 5,0) ;; *) exit 1 ;; esac ) # 5: ARGS choose no test of these

mutants: setup-dev ## change lines of the sources, and see whether tests notice: hours; ARGS=FILE...
	@$(WORKSHOP) mutants $(ARGS)

test-mutants: setup-dev
	@echo "== mutants: one in thirty of the list"
	@time $(WORKSHOP) mutants --sample 30

docs: setup-dev ## build the documentation as a site, with a search: .bisection/docs/site/index.html
	@echo "== docs"
	@"$(BIN)/python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	    || { echo "skipped: make docs needs Python 3.11"; exit; }; \
	"$(BIN)/pip" install --quiet --no-deps --requirement spack-env/python-docs.lock && time $(WORKSHOP) docs

lint: setup-dev ## check the style of C, Fortran, Python, shell and prose
	@echo "== lint"
	@time ( status=0; \
	    "$(BIN)/ruff" check --quiet . || status=1; \
	    "$(BIN)/ruff" format --quiet --diff . || status=1; \
	    [ ! -x "$(BIN)/mypy" ] || "$(BIN)/mypy" --no-error-summary || status=1; \
	    "$(BIN)/lint-imports" --no-logo --cache-dir "$(HOME_DIR)/cache/imports" >"$(HOME_DIR)/cache/imports.log" \
	        || { status=1; cat "$(HOME_DIR)/cache/imports.log"; }; \
	    find src checks '(' -name '*.[ch]' -o -name '*.cpp' ')' -exec "$(BIN)/clang-format" --dry-run -Werror {} + || status=1; \
	    "$(BIN)/fortitude" check --quiet src checks/workshop || status=1; \
	    "$(BIN)/shellcheck" spack-env/*.sh .ci/run || status=1; \
	    "$(BIN)/codespell" . || status=1; \
	    exit $$status )

format: setup-dev ## fix what tools can fix of the style
	@"$(BIN)/ruff" check --quiet --fix --exit-zero . && "$(BIN)/ruff" format --quiet .
	@find src checks '(' -name '*.[ch]' -o -name '*.cpp' ')' -exec "$(BIN)/clang-format" -i {} +
	@"$(BIN)/fortitude" check --quiet --fix --exit-zero src checks/workshop

WHAT ?= transpose
bench: setup ## compare a kernel with other codes: WHAT=transpose|npar|eigen|md|halo|restart|harness; time the store, the suite: WHAT=store|suite
	@$(WORKSHOP) bench $(WHAT) $(ARGS)

clean: ## remove builds and environments; keep results
	@cd "$(HOME_DIR)" 2>/dev/null && [ -e setup.lock ] && rm -rf venv bin build build-* \
	    packages kernels spack cache reframe/stage reframe/output probe.c setup.lock setup.log \
	    bisection-bundle*.tar || true
