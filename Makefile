# `make demo` shows the thing at work, `make test` tests it; both install what they need into .venv first.

VENV := .venv
BIN := $(VENV)/bin

# The first Python 3.11 to 3.13 that starts and can make environments; shims on the PATH may be empty.
probe := import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))
find_python := for p in python3.11 python3.12 python3.13 python3 python; do \
	$$p -c "$(probe)" >/dev/null 2>&1 && command -v $$p && break; done
no_python := No usable Python found: install Python 3.11, 3.12 or 3.13 with its venv module and put it on the PATH.

.DEFAULT_GOAL := help
.PHONY: help setup demo test check lint types cover bench deep deep-schedules deep-rest mutants record pictures clean

help: ## what can be made
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

# -- environments -----------------------------------------------------------------------------------------------------
# The stamps are as new as the pyproject.toml they were installed from.  The demo needs the package and its command
# only; the rest needs the real host, peers and tools too, which takes longer.

make_venv = test -x $(BIN)/pip || { \
	python=$$($(find_python)); test -n "$$python" || { echo "$(no_python)" >&2; exit 1; }; \
	echo "Making $(VENV) with $$python"; "$$python" -m venv $(VENV); }

$(VENV)/.demo: pyproject.toml
	@$(make_venv)
	@echo "Installing hermes-dataspace with its command into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[cli]'
	@touch $@

$(VENV)/.dev: pyproject.toml
	@$(make_venv)
	@echo "Installing hermes-dataspace and all that its development needs into $(VENV) (a minute or two, once)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $(VENV)/.demo $@

setup: $(VENV)/.dev ## make .venv with everything

# -- what to run ------------------------------------------------------------------------------------------------------

demo: $(VENV)/.demo ## a recorded session, its compactions and a live swap
	@$(BIN)/hermes-dataspace demo --home .demo

test: setup ## the tests, without the slow ones
	$(BIN)/python -m pytest -q -m "not slow"

check: lint types cover ## all that must hold before a change lands

lint: setup ## style, format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup ## mypy and pyright
	$(BIN)/mypy
	$(BIN)/pyright

cover: setup ## all tests, import layers among them, with branch coverage by those that are not slow
	$(BIN)/python -m pytest -q -m "not slow" --cov --cov-report=term
	$(BIN)/python -m pytest -q -m slow

bench: setup ## cost against its floor and peers
	$(BIN)/python -m benchmarks

deep: setup ## many more examples and schedules, slow tests included; most of an hour
	@$(MAKE) --no-print-directory --keep-going --jobs=2 deep-schedules deep-rest

# The two take about as long as each other, and each fills one core.
schedules := tests/bisim/test_explore_protocol.py
deeply := HYPOTHESIS_PROFILE=deep $(BIN)/python -m pytest -q -o faulthandler_timeout=0

deep-schedules:
	$(deeply) -p no:cacheprovider $(schedules)

deep-rest:
	$(deeply) --ignore=$(schedules)

mutants: setup ## faults that some test must notice; SEED=7 draws the same again
	$(BIN)/python -m tests.mutants $(if $(SEED),--seed $(SEED))

record: setup ## record the demo's session anew with the real host
	$(BIN)/python -m tests.hermes.record

pictures: setup ## draw the pictures of the documentation anew; needs Chromium
	$(BIN)/python -m tests.pictures

clean: ## remove caches and build results, keep .venv
	rm -rf .demo build dist .coverage .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +
