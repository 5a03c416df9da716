# The commands of this project. Everything is installed into .venv; the system is not touched but by `make test`
# as root, which installs the programs that the tests run (.ci/tools names them).

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

BIN := .venv/bin
SOURCES := resource_api types providers lib
# Options of pytest for each batch of files, such as PYTEST_ARGS='-x --durations=5'.
PYTEST_ARGS ?=

# Where `make run` builds the example; a fresh directory unless given.
DIR ?=

# Seconds that `make fuzz` takes, and the one target that it fuzzes; all of them unless given.
SECONDS ?= 60
TARGET ?=

# The tests that rehearse, whose machine must be as before.
REHEARSALS := $(wildcard tests/scenarios/test_rehearse*.py) tests/hostile/test_rehearsals.py

.PHONY: help run man docs dist deb bench bench-peers fuzz quick test test-peers test-all test-release coverage tools lint format clean
# The tools come before the environment that may need them.
.NOTPARALLEL:

help:
	@echo 'make run [DIR=path]   apply examples/first.yaml: noop, for real, and once more to see that nothing changes'
	@echo 'make quick            the pure and in-process tests: under a minute (PYTEST_ARGS=...)'
	@echo 'make test             all checks: layout, lint, types, layers, tests (PYTEST_ARGS=...)'
	@echo 'make test-peers       the tests that need large peers (tests/peers), such as official Terraform providers'
	@echo 'make test-all         all of each: every law of every type, every point of the fault sweeps'
	@echo 'make coverage         the lines and branches that the tests run, with all cases of each law'
	@echo 'make test-release     the releases: reproducible, installed alone; states and plans of older ones'
	@echo 'make fuzz [SECONDS=60] [TARGET=name] fuzz whatever reads bytes; what breaks a law is kept as an entry of the corpus'
	@echo 'make lint             the checks that run nothing: layout, lint, types, layers'
	@echo 'make format           put the source into its canonical form'
	@echo 'make bench            measure processor time beside what must be done anyway, and write docs/performance.md'
	@echo 'make bench-peers      install other tools into .peers (as root, Debian: puppet too) and measure them as well'
	@echo '                      BENCH_ARGS="--only W2 10000" measures a part: see python -m benchmarks --help'
	@echo 'make man              write the manual page to build/man'
	@echo 'make docs             make a site of the documentation in build/docs; warnings and broken links are errors'
	@echo 'make dist             build a wheel and a source archive of the commit in dist/, the same bytes each time'
	@echo 'make deb              build a package for the Debian of this machine in dist/, with the libraries inside'
	@echo 'make clean            remove what these commands made'

.venv/bin/python:
	@python=; for name in $${PYTHON:-python3 python3.13 python3.12 python3.11}; do \
	  if "$$name" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; \
	  then python=$$name; break; fi; done; \
	if [ -z "$$python" ]; then \
	  echo 'make: no Python 3.11 or later with the venv module was found; install it' \
	    '(Debian: apt-get install python3 python3-venv) or name it: make PYTHON=/path/to/python3' >&2; exit 1; fi; \
	"$$python" -m venv .venv

# A stamp is newer than setup.cfg once its requirements are installed; the second run then costs nothing.
.venv/.run: setup.cfg pyproject.toml | .venv/bin/python
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --editable .
	@touch $@

# Most modules of what the tests need are never imported, so none is compiled before it is.
.venv/.quick: setup.cfg pyproject.toml | .venv/bin/python
	@$(BIN)/python -m pip install -qq --no-compile --disable-pip-version-check --editable '.[tests]'
	@touch $@ .venv/.run

.venv/.test: setup.cfg pyproject.toml | .venv/bin/python
	@$(BIN)/python -m pip install -qq --no-compile --disable-pip-version-check --editable '.[dev]'
	@touch $@ .venv/.quick .venv/.run

run: .venv/.run
	@if [ -n '$(DIR)' ]; then directory='$(DIR)'; mkdir -p "$$directory"; directory=$$(cd "$$directory" && pwd); \
	elif [ -n "$${TMPDIR:-}" ]; then directory=$$(mktemp -d "$$TMPDIR/resource-api.XXXXXX"); \
	else mkdir -p run; directory=$$(mktemp -d "$$PWD/run/XXXXXX"); fi; \
	export RESOURCE_API_STATE="$${RESOURCE_API_STATE:-sqlite:$$directory/.state/state.db}"; \
	apply() { $(BIN)/resource-api apply examples/first.yaml -i "directory=$$directory" "$$@"; }; \
	echo "== apply --noop: what would change in $$directory"; apply --noop; \
	echo '== apply'; apply; \
	echo '== apply again: nothing changes'; apply --detailed-exitcodes

man: .venv/.docs
	@$(BIN)/python -m sphinx --builder man --conf-dir docs --jobs auto --quiet . build/man
	@rm -rf build/man/.doctrees

.venv/.docs: setup.cfg | .venv/bin/python
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --editable '.[docs]'
	@touch $@ .venv/.run

docs: .venv/.docs
	@rm -rf build/docs
	@$(BIN)/python -m sphinx --builder html --conf-dir docs --jobs auto --fail-on-warning --keep-going --quiet --fresh-env . build/docs
	@rm -rf build/docs/.doctrees
	@echo 'The documentation is in build/docs/index.html.'

.venv/.release: setup.cfg | .venv/.docs
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --editable '.[docs,release]'
	@touch $@

dist: .venv/.release
	@$(BIN)/python -m release dist

deb: .venv/.release
	@$(BIN)/python -m release deb

bench: .venv/.run
	@$(BIN)/python -m benchmarks $(BENCH_ARGS)

bench-peers: .venv/.run
	@benchmarks/install-peers
	@$(BIN)/python -m benchmarks --peers $(BENCH_ARGS)
	@$(BIN)/python -m benchmarks.webserver

.venv/.fuzz: setup.cfg | .venv/.test
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --editable '.[fuzz]'
	@touch $@

fuzz: .venv/.fuzz
	@$(BIN)/python -m tests.fuzz --seconds '$(SECONDS)' $(if $(TARGET),--target '$(TARGET)')

quick: .venv/.quick
	@HYPOTHESIS_PROFILE=quick $(BIN)/python -m tests.batches --quick tests/unit tests/lifecycle -- -m 'not process' $(PYTEST_ARGS)

# Its tests are run by `make lint`.
LINTED := --ignore tests/test_layout.py

# What hosts run is tested with the newest Python that is promised, too.
.venv/python-trixie/python: .ci/newer-python | .venv/bin/python
	@.ci/newer-python trixie .venv/python-trixie

# Lint is one process most of the time, so it shares the processors with the tests.
test: tools .venv/.test .venv/python-trixie/python
	@$(BIN)/python -m compileall -q -j 0 $(SOURCES)
	@$(MAKE) lint & lint=$$!; \
	$(BIN)/python -m tests.batches --sampled $(LINTED) -- $(PYTEST_ARGS) || { wait $$lint || true; exit 1; }; \
	wait $$lint

# The tests that need large peers, which no other target runs.
PEERS := $(wildcard tests/peers)

test-peers: tools .venv/.test
	@$(if $(PEERS),$(BIN)/python -m tests.batches $(PEERS) -- $(PYTEST_ARGS),echo 'No test needs a large peer.')

test-all: tools lint .venv/.release .venv/python-trixie/python
	@mkdir -p .venv/faults
	@$(BIN)/python -m compileall -q -j 0 $(SOURCES)
	@HYPOTHESIS_PROFILE=whole FAULTS_ALL_POINTS=.venv/faults $(BIN)/python -m tests.batches $(LINTED) -- $(PYTEST_ARGS)
	@$(BIN)/python -m tests.faults.report .venv/faults
	@$(BIN)/python -m tests.watched_machine --but /tmp/rehearsals --but /var/cache/apt --but /opt $(BIN)/python -m pytest -q -p no:cacheprovider \
	  --basetemp /tmp/rehearsals -k 'not seen_on_the_machine' $(REHEARSALS)

COVERAGE := COVERAGE_FILE=$(CURDIR)/.venv/coverage/data $(BIN)/python -m coverage

coverage: tools .venv/.test .venv/python-trixie/python
	@mkdir -p .venv/coverage
	@$(COVERAGE) run -m tests.batches $(LINTED) -- $(PYTEST_ARGS)
	@$(COVERAGE) combine --quiet && $(COVERAGE) report

test-release: tools .venv/.test .venv/.release
	@$(BIN)/python -m pytest -q -p no:cacheprovider tests/release

tools:
	@.ci/tools

# mypy takes as long as all the others together.
lint: .venv/.test
	@$(BIN)/mypy --no-error-summary & types=$$!; \
	$(BIN)/ruff check --quiet . && $(BIN)/ruff format --quiet --check . && \
	{ $(BIN)/lint-imports --cache-dir .venv/importlinter > .venv/importlinter.log || { cat .venv/importlinter.log; false; }; } && \
	$(BIN)/python -m pytest -q -p no:cacheprovider tests/test_layout.py || { wait $$types || true; exit 1; }; \
	wait $$types

format: .venv/.test
	@$(BIN)/ruff check --quiet --fix .
	@$(BIN)/ruff format --quiet .

clean:
	@rm -rf .venv .peers run build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage .coverage.*
	@find $(wildcard $(SOURCES) tests examples) -name __pycache__ -type d -prune -exec rm -rf {} +
