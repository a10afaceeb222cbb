# qoop: `make demo` shows it, `make test` checks it. Each makes what it needs first.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV   ?= .venv
CACHE  ?= $(HOME)/.cache/qoop
SCALE  ?= 1
BIN    := $(VENV)/bin
READY  := $(VENV)/.installed
CODE   := catalog planner engine qoop tpcds tests docs

.PHONY: help demo test test-all test-duckdb2 check golden bench format clean

help:
	@echo "make demo          a query under 1, 2 and 4 slots on generated TPC-DS data"
	@echo "make test          lint, types and tests (what CI runs)"
	@echo "make test-all      the slow tests too, and the tests that need no TPC-DS text with DuckDB 2"
	@echo "make check         lint and types only"
	@echo "make golden        write the golden plans anew; look at the diff before you commit it"
	@echo "make bench         the 99 TPC-DS queries against DuckDB, at SCALE=1"
	@echo "make format        let ruff format the code"

$(READY): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,tpcds]'
	@touch $@

demo: $(READY)
	$(BIN)/python docs/demo.py --cache $(CACHE)

test: check
	$(BIN)/pytest

test-all: check test-duckdb2
	$(BIN)/pytest -m 'slow or not slow'

test-duckdb2: $(VENV)-duckdb2/.installed
	$(VENV)-duckdb2/bin/pytest

$(VENV)-duckdb2/.installed: pyproject.toml
	test -x $(VENV)-duckdb2/bin/python || $(PYTHON) -m venv $(VENV)-duckdb2
	$(VENV)-duckdb2/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]' 'duckdb>=2,<2.1'
	@touch $@

check: $(READY)
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	rm -rf build
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --target build/check .
	MYPYPATH=build/check $(BIN)/mypy --python-executable $(BIN)/python -p qoop

golden: $(READY)
	$(BIN)/pytest tests/planner --golden-update

bench: $(READY)
	$(BIN)/qoop tpcds generate --scale $(SCALE) $(CACHE)/bench/sf$(SCALE)
	$(BIN)/qoop tpcds run $(CACHE)/bench/sf$(SCALE) --check --json $(CACHE)/bench/sf$(SCALE).json

format: $(READY)
	$(BIN)/ruff format $(CODE)
	$(BIN)/ruff check --fix $(CODE)

clean:
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
