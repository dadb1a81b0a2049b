# Two commands for a newcomer: `make demo` and `make test`. Both make the virtual environment first.
SHELL := /bin/sh
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
BENCH := $(VENV)/benchmark
# More than there are cores: many tests wait for processes that they stop, cut off or outlive.
WORKERS ?= 3
QUIET := --quiet --disable-pip-version-check
LOCK := pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
	--no-annotate --no-strip-extras

.DEFAULT_GOAL := help
.PHONY: help demo test test-crash test-campaign benchmark-checkpoint benchmark-nightly benchmark-scale benchmark-publish \
	benchmark-published-reads benchmark-webhook benchmark-year check format lock clean

help: ## Show the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(READY): requirements-build.txt requirements-dev.txt pyproject.toml
	@echo "Making a virtual environment in $(VENV) and installing the locked packages"
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if (3, 11) <= v < (3, 14) else f"Sluice needs Python 3.11 to 3.13, this is {v[0]}.{v[1]}; run: make PYTHON=python3.12 demo")'
	@test -x "$(BIN)/python" || $(PYTHON) -m venv "$(VENV)"
	@"$(BIN)/python" -m pip install $(QUIET) --no-deps --require-hashes -r requirements-build.txt
	@"$(BIN)/uv" pip install --quiet --python "$(BIN)/python" --compile-bytecode --require-hashes -r requirements-dev.txt \
		|| "$(BIN)/python" -m pip install $(QUIET) --require-hashes -r requirements-dev.txt
	@"$(BIN)/python" -m pip install $(QUIET) --no-deps --no-build-isolation -e .
	@touch $(READY)

demo: $(READY) ## Load two months of flights and publish them
	@"$(BIN)/sluice" demo

test: $(READY) ## Run the whole test suite
	@"$(BIN)/python" -m pytest -n $(WORKERS) --dist worksteal -m "not campaign"

test-crash: $(READY) ## Every fault point times every kind of failure, and a hundred runs killed at random
	@SLUICE_TEST_MATRIX=100000 SLUICE_TEST_RUNS=100 "$(BIN)/python" -m pytest -n $(WORKERS) --dist worksteal -o timeout=14400 tests/crash

test-campaign: $(READY) ## The long tests, and many more examples of the others (hours)
	@SLUICE_TEST_EFFORT=20 SLUICE_TEST_VERSIONS=20 SLUICE_TEST_DAMAGE=all \
		"$(BIN)/python" -m pytest -n $(WORKERS) --dist worksteal -o timeout=14400 --ignore tests/crash tests

$(BENCH)/.ready: $(READY) requirements-benchmark.txt
	@test -x "$(BENCH)/bin/python" || "$(BIN)/python" -m venv "$(BENCH)"
	@"$(BIN)/uv" pip install --quiet --python "$(BENCH)/bin/python" --require-hashes -r requirements-benchmark.txt
	@touch "$(BENCH)/.ready"

benchmark-checkpoint: $(BENCH)/.ready ## Measure a stage beside a durable step of DBOS
	@PYTHONPATH=. "$(BENCH)/bin/python" benchmarks/checkpoint.py

benchmark-nightly: $(READY) ## Measure one more night beside a plain script (about 15 minutes)
	@PYTHONPATH=. "$(BIN)/python" benchmarks/nightly.py

benchmark-scale: $(BENCH)/.ready ## Measure one more day on 2,400 days of TPC-H
	@PYTHONPATH=. "$(BENCH)/bin/python" benchmarks/scale.py

benchmark-publish: $(READY) ## Measure publishing under eight readers (about 5 minutes)
	@PYTHONPATH=. "$(BIN)/python" benchmarks/publish.py

benchmark-published-reads: $(READY) ## Measure reading a published view beside its segments
	@PYTHONPATH=. "$(BIN)/python" benchmarks/published_reads.py

benchmark-webhook: $(READY) ## Measure keeping a message beside inserting one row
	@PYTHONPATH=. "$(BIN)/python" benchmarks/webhook.py

benchmark-year: $(READY) ## Simulate a year of nights and a month of micro-batches (an hour or more)
	@PYTHONPATH=. "$(BIN)/python" benchmarks/year.py --plot docs/year.svg

check: $(READY) ## Format, lint, types, import rules, SQL lint, declarations
	@"$(BIN)/ruff" format --check .
	@"$(BIN)/ruff" check .
	@"$(BIN)/mypy"
	@"$(BIN)/lint-imports"
	@"$(BIN)/sqlfluff" lint --disable-progress-bar dbt_project/models dbt_project/tests
	@"$(BIN)/sluice" check

format: $(READY) ## Format Python and SQL
	@"$(BIN)/ruff" format .
	@"$(BIN)/ruff" check --fix .
	@"$(BIN)/sqlfluff" fix --disable-progress-bar dbt_project/models dbt_project/tests

lock: $(READY) ## Pin all dependencies again, with hashes
	@"$(BIN)/uv" $(LOCK) pyproject.toml -o requirements.txt
	@"$(BIN)/uv" $(LOCK) --group build -o requirements-build.txt
	@"$(BIN)/uv" $(LOCK) pyproject.toml --extra dev -c requirements.txt -o requirements-dev.txt
	@printf 'dbos>=3.4,<4\ntpchgen-cli>=4,<5\n' | "$(BIN)/uv" $(LOCK) pyproject.toml - -c requirements.txt -o requirements-benchmark.txt

clean: ## Stop the background services, delete the virtual environment and caches (data stays)
	@if [ -x "$(BIN)/sluice" ]; then "$(BIN)/sluice" down; fi
	@rm -rf "$(VENV)" .mypy_cache .ruff_cache .pytest_cache .hypothesis
