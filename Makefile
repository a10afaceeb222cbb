# qoop: `make demo` shows it, `make test` checks it. Each makes what it needs first.

PYTHON  ?= $(shell command -v python3.11 || command -v python3)
VENV    ?= .venv
DATA    ?= $(HOME)/.cache/qoop/data
SCALE   ?= 1
PROCESSES ?= 2
BIN     := $(VENV)/bin
READY   := $(VENV)/.installed
DUCKDB2 := $(abspath $(VENV)-duckdb2)
READY2  := $(DUCKDB2)/.installed
DBT     := $(abspath $(VENV)-dbt)
AIRFLOW := $(abspath $(VENV)-airflow)
IBIS    := $(abspath $(VENV)-ibis)
CODE    := catalog planner engine qoop tpcds tests docs .ci
PIP     := $(BIN)/python -m pip --disable-pip-version-check --quiet --quiet
# What uv installs in 10 seconds takes pip 100; pip does where uv cannot be had.
UV      := VIRTUAL_ENV=$(abspath $(VENV)) $(BIN)/uv pip install --quiet
INSTALL := sh -c '$(UV) "$$@" || $(PIP) install "$$@"' install
# What a server needs and no more. uv, or pip with --no-compile: most modules are never imported, and the first start
# compiles the others.
SERVER  := $(abspath $(VENV)-server)
PIP_FOR_SERVER := $(PYTHON) -m pip --disable-pip-version-check --quiet --quiet --python $(SERVER)/bin/python install --no-compile

# What users meet first. It runs on DuckDB 2 too, which is what they install, but for what no version of DuckDB changes:
# queries that go from server to server, the page, logins, configuration, and typing at the prompt.
FACES   := $(foreach name,server adapters,tests/interfaces/$(name)) \
           $(foreach name,cli dbapi notebook repl,tests/interfaces/test_$(name).py) \
           $(foreach name,duckdb_habits locked session,tests/session/test_$(name).py) \
           $(foreach name,statement statement_kinds statements,tests/query/test_$(name).py) \
           tests/tpcds/test_queries.py tests/catalog/test_arrow_output.py
NOT_ON_DUCKDB2 := $(foreach name,rolling kept_restart oidc scram operation,\
                  --ignore tests/interfaces/server/test_$(name).py)

# Generated data is shared by the demo, the tests and the benchmark.
export QOOP_TEST_DATA = $(DATA)

.PHONY: help demo serve test test-all test-ray test-cgroups test-dbt test-airflow test-ibis test-package test-pythons soak soak-clients soak-serve soak-restart soak-bombs soak-sim soak-packs soak-growing soak-views soak-reuse soak-sweeps attack fuzz test-duckdb2 test-faces-duckdb2 check lint types docs golden bench picture format clean

help:
	@echo "make demo          a query on TPC-DS data while slots and memory come and go, and a picture of it"
	@echo "make serve DIR=d   qoop serve of the files in d, by HTTP at 8080 and PostgreSQL's protocol at 5432; OPTIONS"
	@echo "make test          lint, types and tests (what CI runs), in PROCESSES=2 at a time; 15 minutes on 2 cores"
	@echo "make test-all      the slow tests too, and all tests on DuckDB 2 (make test-duckdb2: only those)"
	@echo "make test-ray      the same answers on Ray clusters, whose nodes come and go"
	@echo "make test-dbt      a project of dbt through our adapter, against DuckDB's rows"
	@echo "make test-airflow  a task of Airflow that is killed, and goes on in its next try"
	@echo "make test-ibis     the tests that ibis ships for its backends, on ours and on DuckDB's: which share passes"
	@echo "make test-package  the wheel and the sdist: built, installed and tested away from the tree"
	@echo "make test-pythons  the same under each Python from 3.11 to 3.14 that is at hand"
	@echo "make soak          RUNS=2000 runs in which everything goes wrong; SEED=n FIRST=n RUNS=1 repeats one"
	@echo "make soak-clients  CLIENTS=50 for MINUTES=10 in one session: nothing lost, memory flat, shares fair; SEED, SHARE=0.01"
	@echo "make soak-serve    CLIENTS=50 for MINUTES=10 of qoop serve, which are killed like their connections and the server; SEED"
	@echo "make soak-restart  JOBS=20 of three protocols go on after kill -9 of qoop serve, on SHARE=10; in four minutes"
	@echo "make soak-bombs    50 tenants with short queries next to BOMBERS=10 for MINUTES=10, with kills; MEMORY=1GB, SEED"
	@echo "make soak-sim      RUNS=20000 schedules of mishaps for the core alone, without data; SEED, FIRST as above"
	@echo "make soak-packs    RUNS=1000 schedules of faults for packed outputs in a store; SEED, FIRST as above"
	@echo "make soak-growing  RUNS=500 schedules of kills, switches and resizes while answers grow; SEED, FIRST as above"
	@echo "make soak-views    KILLS=1000 of processes that refresh views while files come, change and go; SEED, RESULTS=FILE to go on"
	@echo "make soak-sweeps   KILLS=200 of processes that run a named sweep: no step is done again, the same best; SEED"
	@echo "make soak-reuse    STATEMENTS=100000 that repeat while tables, files and settings change: no stale answer; SEED"
	@echo "make test-cgroups  sessions in control groups of version 2, in a small machine (Debian; needs QEMU's packages)"
	@echo "make attack        odd texts, damaged files, little memory, kills; takes SERIES=a,b SEED=n RUNS=n SHARE=0.1"
	@echo "make fuzz          RUNS=100000 random queries against DuckDB, half of them on DuckDB 2; SEED, PROCESSES"
	@echo "make check         lint and types only"
	@echo "make docs          the documentation as a site in build/site"
	@echo "make golden        write the golden plans again; look at the diff before you commit it"
	@echo "make bench         the 99 TPC-DS queries against DuckDB, at SCALE=1"
	@echo "make picture       draw docs/shell.svg, docs/decision.svg, and growing.svg and views.svg of docs/figures again"
	@echo "make format        let ruff format the code"
	@echo "make clean         remove what was built; data stays in $(DATA)"

$(READY): pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "qoop needs Python 3.11")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Packages are fetched into $(VENV), which may take some minutes."
	@$(PIP) install uv || echo "uv cannot be had: pip installs"
	@$(INSTALL) --editable '.[dev,docs,tpcds]'
	@touch $@

$(SERVER)/.installed: pyproject.toml
	@$(PYTHON) -m venv --without-pip $(SERVER)
	@echo "Packages are fetched into $(SERVER), which takes some seconds."
	@export PATH="$$PATH:$(SERVER)/bin" VIRTUAL_ENV=$(SERVER); \
	  command -v uv > /dev/null || $(PIP_FOR_SERVER) uv || echo "uv cannot be had: pip installs"; \
	  uv pip install --quiet --editable '.[server]' || $(PIP_FOR_SERVER) --editable '.[server]'
	@touch $@

# DuckDB 2 alone, in a folder that comes first on the path: all else is in $(VENV).
$(READY2): pyproject.toml $(READY)
	@rm -rf $(DUCKDB2)
	@$(INSTALL) --no-deps --target $(DUCKDB2) 'duckdb>=2,<2.1'
	@touch $@

# dbt, Airflow, and what the tests of ibis need, each in a folder that comes first on the path: they pin what others need newer.
$(DBT)/.installed: $(READY)
	@$(INSTALL) --target $(DBT) 'dbt-core>=1.10,<1.12' 'dbt-adapters>=1.16,<2'
	@touch $@

$(AIRFLOW)/.installed: $(READY)
	@$(INSTALL) --target $(AIRFLOW) 'apache-airflow-core>=3.1,<4'
	@touch $@

$(IBIS)/.installed: $(READY)
	@$(INSTALL) --target $(IBIS) filelock pytest pytest-benchmark pytest-httpserver pytest-mock pytest-randomly pytest-snapshot pytest-timeout
	@touch $@

demo: $(READY)
	$(BIN)/python docs/demo.py --data $(DATA)

serve: $(SERVER)/.installed
	$(SERVER)/bin/qoop serve $(DIR) --pg-port 5432 $(OPTIONS)

# mypy needs one core, and the terminals and servers of the faces wait at times: both at once.
test: $(READY) $(READY2) lint
	$(MAKE) --jobs 2 types test-faces-duckdb2
	$(BIN)/pytest --need-benchmarks -n $(PROCESSES) --dist loadfile

test-faces-duckdb2: $(READY) $(READY2)
	$(BIN)/qoop tpcds generate --scale 0.01 $(DATA)/tpcds-sf0.01
	$(BIN)/qoop tpcds generate --scale 0.01 --suite tpch $(DATA)/tpch-sf0.01
	PYTHONPATH=$(DUCKDB2) $(BIN)/pytest $(FACES) $(NOT_ON_DUCKDB2) --scale 0.01 --need-benchmarks -n $(PROCESSES) --dist loadfile

test-all: check test-duckdb2
	$(INSTALL) --editable '.[dev,tpcds,ray]'
	QOOP_SEED=random $(BIN)/pytest --need-benchmarks -m 'slow or ray or not slow'

test-ray: $(READY)
	$(INSTALL) --editable '.[dev,tpcds,ray]'
	$(BIN)/pytest tests/ray -m ray --need-benchmarks

test-dbt: $(DBT)/.installed
	PYTHONPATH=$(DBT) $(BIN)/pytest tests/interfaces/adapters/test_dbt.py -m slow

test-airflow: $(AIRFLOW)/.installed
	PYTHONPATH=$(AIRFLOW) $(BIN)/pytest tests/interfaces/adapters/test_airflow.py -m slow

test-ibis: $(IBIS)/.installed
	PYTHONPATH=$(IBIS) $(BIN)/python tests/interfaces/adapters/ibis_suite.py build/ibis

test-package: $(READY)
	$(BIN)/python tests/package

test-cgroups: $(READY)
	tests/cgvm/build.sh build/cgvm
	tests/cgvm/cgvm --cache build/cgvm --engine uml --timeout 600 -- sh -c "cd $(CURDIR) && $(BIN)/python -m pytest -q -p no:cacheprovider tests/adaptive/monitor/test_groups.py"

test-pythons: $(READY)
	$(BIN)/python tests/package 3.11 3.12 3.13 3.14

soak: $(READY)
	$(BIN)/python tests/soak --runs $(or $(RUNS),2000) $(if $(SEED),--seed $(SEED)) $(if $(FIRST),--first $(FIRST))

soak-clients: $(READY)
	$(BIN)/python tests/soak/clients.py --minutes $(or $(MINUTES),10) --clients $(or $(CLIENTS),50) $(if $(SEED),--seed $(SEED)) $(if $(SHARE),--scale $(SHARE)) $(if $(SCHEDULER),--scheduler $(SCHEDULER))

soak-serve: $(READY)
	$(BIN)/python tests/soak/serve.py --minutes $(or $(MINUTES),10) --clients $(or $(CLIENTS),50) $(if $(SEED),--seed $(SEED)) $(if $(SHARE),--scale $(SHARE))

soak-restart: $(READY)
	$(BIN)/python tests/soak/restart.py --jobs $(or $(JOBS),20) $(if $(SHARE),--scale $(SHARE))

soak-bombs: $(READY)
	$(BIN)/python tests/soak/bombs.py --minutes $(or $(MINUTES),10) --bombers $(or $(BOMBERS),10) --memory $(or $(MEMORY),1GB) $(if $(SEED),--seed $(SEED))

soak-sim: $(READY)
	$(BIN)/python tests/adaptive/simulation --runs $(or $(RUNS),20000) $(if $(SEED),--seed $(SEED)) $(if $(FIRST),--first $(FIRST))

soak-packs: $(READY)
	$(BIN)/python tests/stores/pack_faults.py --runs $(or $(RUNS),1000) $(if $(SEED),--seed $(SEED)) $(if $(FIRST),--first $(FIRST))

soak-growing: $(READY)
	$(BIN)/python tests/programs/approximate --runs $(or $(RUNS),500) $(if $(SEED),--seed $(SEED)) $(if $(FIRST),--first $(FIRST))

soak-views: $(READY)
	$(BIN)/python tests/soak/views.py --kills $(or $(KILLS),1000) $(if $(SEED),--seed $(SEED)) $(if $(RESULTS),--results $(RESULTS))

soak-sweeps: $(READY)
	$(BIN)/python tests/soak/sweeps.py --kills $(or $(KILLS),200) $(if $(SEED),--seed $(SEED))

soak-reuse: $(READY)
	$(BIN)/python tests/soak/reuse.py --statements $(or $(STATEMENTS),100000) $(if $(SEED),--seed $(SEED))

attack: $(READY)
	$(BIN)/python tests/attack $(if $(SERIES),--series $(SERIES)) $(if $(SEED),--seed $(SEED)) $(if $(RUNS),--runs $(RUNS)) $(if $(SHARE),--share $(SHARE))

fuzz: $(READY) $(READY2)
	$(BIN)/python tests/fuzz --processes $(PROCESSES) $(if $(SEED),--seed $(SEED)) --runs $$(( $(or $(RUNS),100000) / 2 ))
	PYTHONPATH=$(DUCKDB2) $(BIN)/python tests/fuzz --processes $(PROCESSES) $(if $(SEED),--seed $(SEED)) --runs $$(( $(or $(RUNS),100000) / 2 ))

test-duckdb2: $(READY2)
	PYTHONPATH=$(DUCKDB2) $(BIN)/pytest -n $(PROCESSES) --dist loadfile

check: lint types

lint: $(READY)
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)

types: $(READY)
	@rm -rf build/check build/lib build/bdist.*
	$(INSTALL) --no-deps --target build/check .
	MYPYPATH=build/check $(BIN)/mypy --python-executable $(BIN)/python -p qoop

docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "open build/site/index.html, or, with its search: $(BIN)/python -m http.server --directory build/site"

golden: $(READY)
	$(BIN)/pytest tests/planner/test_explain.py tests/tpcds/test_plans.py --need-benchmarks --golden-update
	@git status --short -- tests/golden

bench: $(READY)
	$(BIN)/qoop tpcds generate --scale $(SCALE) $(DATA)/tpcds-sf$(SCALE)
	$(BIN)/qoop tpcds run $(DATA)/tpcds-sf$(SCALE) --check --json $(DATA)/tpcds-sf$(SCALE)-report.json

picture: $(READY)
	$(BIN)/python docs/growing_picture.py
	$(BIN)/python docs/views_picture.py
	$(BIN)/python docs/screen.py $(DATA)
	$(BIN)/qoop tpcds generate --scale 1 $(DATA)/tpcds-sf1
	$(BIN)/python docs/decision.py $(DATA)/tpcds-sf1

format: $(READY)
	$(BIN)/ruff format $(CODE)
	$(BIN)/ruff check --fix $(CODE)

clean:
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
