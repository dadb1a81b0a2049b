# Two commands for a newcomer: `make demo` and `make test`. Both make the virtual environment first.
SHELL := /bin/sh
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help demo test test-quick check format lock browser clean

help: ## Show the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(READY): requirements.txt requirements-dev.txt pyproject.toml
	@echo "Making a virtual environment in $(VENV) and installing the locked packages"
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if (3, 11) <= v < (3, 14) else f"Sluice needs Python 3.11 to 3.13, this is {v[0]}.{v[1]}; run: make PYTHON=python3.12 demo")'
	@test -x "$(BIN)/python" || $(PYTHON) -m venv "$(VENV)"
	@"$(BIN)/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.txt
	@"$(BIN)/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@"$(BIN)/python" -m compileall -q -j 0 "$(VENV)/lib" >/dev/null 2>&1 || true
	@touch $(READY)

demo: $(READY) ## Load two months of flights and publish them
	@"$(BIN)/sluice" demo

test: $(READY) ## Run the whole test suite
	@"$(BIN)/python" -m pytest

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
	@"$(BIN)/python" -m pip install --quiet uv
	@"$(BIN)/uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
		--no-annotate --no-emit-index-url pyproject.toml -o requirements.txt
	@"$(BIN)/uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
		--no-annotate --no-emit-index-url -c requirements.txt --extra dev pyproject.toml -o requirements-dev.txt

clean: ## Stop the background services, delete the virtual environment and caches (data stays)
	@if [ -x "$(BIN)/sluice" ]; then "$(BIN)/sluice" down; fi
	@rm -rf "$(VENV)" .mypy_cache .ruff_cache .pytest_cache .hypothesis
