# Every target makes its own virtual environment in .venv first; nothing outside this directory is touched.

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
WORKERS ?= auto
SCALE ?= 0.005

.PHONY: help demo postgres test all-tests test-fast bytecode bench dbt-test docs lint format clean
.DEFAULT_GOAL := help

help:
	@echo "make demo       watch views stay fresh over changing orders, on Spark (SCALE=$(SCALE))"
	@echo "make test       linters, type checker and every test"
	@echo "make test-fast  the tests without the slow ones"
	@echo "make bench      the benchmarks in bench/"
	@echo "make dbt-test   the tests of the dbt adapter, in an environment of its own"
	@echo "make postgres   Debian's PostgreSQL server, for the tests of streams on it (as root)"
	@echo "make docs       the API reference, as HTML in build/docs"
	@echo "make lint       ruff and mypy"
	@echo "make format     let ruff fix and format the code"
	@echo "make clean      remove .venv and everything generated"

demo: $(STAMP)
	@$(BIN)/viewlet demo --scale $(SCALE)

postgres:
	apt-get install -y postgresql postgresql-client

# The type checker has a core for itself for most of its time; the tests begin meanwhile.
test: bytecode
	@$(MAKE) --no-print-directory --jobs 2 lint all-tests

# Bytecode is written once for all processes that the tests start, also where PYTHONDONTWRITEBYTECODE keeps Python from it.
all-tests: $(STAMP)
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -q -n $(WORKERS)

test-fast: bytecode
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -q -n $(WORKERS) -m "not slow"

bytecode: $(STAMP)
	@$(BIN)/python -m compileall -q -j 0 src bench workloads

# A small run of everything; BENCH="--scale 0.1 ..." asks for another one, see bench/README.md.
BENCH ?= --scale 0.01 --workload all --modes batch,check --timeout 15 --repeats 2
bench: $(STAMP)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r bench/requirements.txt
	@$(BIN)/python -m bench.run $(BENCH)

# dbt has its own environment, because its dependencies are many.
DBT := dbt-viewlet/.venv
dbt-test: $(DBT)/.installed
	@cd dbt-viewlet && .venv/bin/python -m pytest -q -n $(WORKERS)

$(DBT)/.installed: dbt-viewlet/pyproject.toml pyproject.toml $(STAMP)
	@$(BIN)/python -m venv $(DBT)
	@$(DBT)/bin/python -m pip install --quiet --disable-pip-version-check -e . -e './dbt-viewlet[test]'
	@touch $@

docs: $(STAMP)
	@$(BIN)/python docs/reference.py build/docs
	@echo "written to build/docs/index.html"

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict src

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) $(DBT) dbt-viewlet/logs build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis src/*.egg-info
	find src tests bench workloads -name __pycache__ -type d -prune -exec rm -rf {} +

# The first interpreter that is new enough wins; PYTHON=... overrides the search. Python compiles what pip has installed, because it
# uses all cores for it and leaves out the tests of other projects.
$(STAMP): pyproject.toml
	@set -e; \
	python=; \
	for candidate in $(PYTHON) python3 python3.13 python3.12 python3.11 python; do \
	    if "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
	        python="$$candidate"; break; \
	    fi; \
	done; \
	if [ -z "$$python" ]; then \
	    echo "Viewlet needs Python 3.11 or newer, and none was found on PATH. Install one, or run: make PYTHON=/path/to/python" >&2; \
	    exit 1; \
	fi; \
	echo "setting up $(VENV) with $$("$$python" --version) ..."; \
	"$$python" -m venv $(VENV); \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -e '.[dev]'; \
	$(BIN)/python -m compileall -qq -j 0 -x '/tests?/' $(VENV)/lib || true; \
	touch $@
