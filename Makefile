# Two commands matter: `make demo` and `make test`. Both build .venv by themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/installed.stamp
# Numerical kernels are small in tests; two BLAS threads in two workers only fight each other. What
# is compiled is kept: else both workers rewrite every assertion, and every command compiles anew.
TEST_ENV := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=
# Tests of one file share the plans they make: apart, each worker would make them anew.
BY_FILE := --dist loadfile --no-loadscope-reorder

.PHONY: demo docs measure quick tools test test-kernel test-processors test-slow format check clean help

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/'

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "noisewright needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $(INSTALLED)

demo: $(INSTALLED) ## synthetic table in, private answers and a report out
	$(BIN)/noisewright demo --output demo-output

check: $(INSTALLED) ## format, lint, types and import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Tests that need a browser, a database or node say so and are skipped where they cannot be had.
TOOLS := $(if $(shell command -v chromium),,chromium fonts-dejavu-core) \
  $(if $(wildcard /usr/lib/postgresql/*/bin/initdb),,postgresql) $(if $(shell command -v node),,nodejs)

tools: ## a browser, a database and node for some tests, where they may be installed
	@if [ -n "$(strip $(TOOLS))" ] && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  apt-get update -qq && apt-get install -y -qq --no-install-recommends $(TOOLS) || true; fi

# Seven tests in ten, a sixteenth of the work; how tests are marked stands in tests/conftest.py.
quick: check ## every check and the tests that need no browser, server or search (under a minute)
	$(TEST_ENV) $(BIN)/pytest -n 2 $(BY_FILE) -q -m 'not (slow or browser or server or long)'

measure: check tools ## find out anew which tests take long (minutes)
	$(TEST_ENV) $(BIN)/pytest --measure

test: check tools ## every check, then the tests (minutes)
	$(TEST_ENV) $(BIN)/pytest -n 2 $(BY_FILE)
	$(MAKE) --no-print-directory test-kernel

# Figures and searches are where the last digits of other kernels of linear algebra would show.
SENSITIVE := tests/docs/test_docs_figures.py tests/local/test_local_bound.py \
  tests/local/test_local_pipeline_estimate.py tests/local/optimise/test_local_optimise_dense.py \
  tests/local/optimise/test_local_optimise_orbits.py tests/local/optimise/test_local_optimise_ordered.py \
  tests/norm/test_norm_factorize.py tests/central/test_central_joint.py
KERNEL ?= Prescott

test-kernel: $(INSTALLED) ## figures and searches under the oldest kernels of OpenBLAS (a minute)
	@if $(BIN)/python tests/kernels.py $(KERNEL); then \
	  OPENBLAS_CORETYPE=$(KERNEL) $(TEST_ENV) $(BIN)/pytest -n 2 $(BY_FILE) $(SENSITIVE); fi

CORES := Haswell Zen SkylakeX Prescott

test-processors: $(INSTALLED) ## all tests under each kernel of OpenBLAS that can be had, with 1 and 2 threads (hours)
	@failed=; for core in $(CORES); do \
	  $(BIN)/python tests/kernels.py $$core || continue; \
	  for threads in 1 2; do \
	    echo "== $$core, threads: $$threads"; \
	    OPENBLAS_CORETYPE=$$core PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=$$threads \
	      OPENBLAS_NUM_THREADS=$$threads $(BIN)/pytest -n 2 $(BY_FILE) || failed="$$failed $$core/$$threads"; \
	  done; \
	done; \
	if [ -n "$$failed" ]; then echo "failed under:$$failed"; exit 1; fi

test-slow: $(INSTALLED) ## the long statistical grids and large sizes (tens of minutes)
	$(TEST_ENV) $(BIN)/pytest -n 2 $(BY_FILE) -m slow

docs: $(INSTALLED) ## the documentation as a site in build/site; warnings are errors
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

format: $(INSTALLED) ## rewrite files in the project's format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean: ## remove the environment and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis demo-output
