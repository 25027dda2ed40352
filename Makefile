PYTHON ?= python3
BIN := .venv/bin
DEMO := .venv/.demo
DEV := .venv/.dev
DOCS := .venv/.docs
MUTATION := .venv/.mutation
INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e

.PHONY: demo test test-all fuzz check docs mutants clean

MINUTES ?= 1
SEED ?= 0

# Trains MLE and SEARNN on the real OCR data and compares them: a few minutes on two cores.
demo: $(DEMO)
	$(BIN)/python examples/demo.py

test: check
	$(BIN)/python -m pytest -m "not slow" -n 2

test-all: check
	$(BIN)/python -m pytest -n 2

# Damages runs, settings and data at random, and reports what is not told in one line: make fuzz MINUTES=10 SEED=3.
fuzz: $(DEV)
	$(BIN)/python tests/fuzz/fuzz.py $(MINUTES) $(SEED)

# The site of the documentation, in build/site; anything amiss in it is an error.
docs: $(DOCS)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo build/site/index.html

check: $(DEV)
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

# Changes of the core's code that no test notices: about an hour of a core the first time, see benchmarks/mutants.md.
mutants: $(MUTATION)
	$(BIN)/python benchmarks/mutants.py

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache build dist
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	$(PYTHON) -m venv .venv

# The demo needs no tools of development, so it installs less; the tools, once there, serve it too.
$(DEMO): pyproject.toml constraints.txt | $(BIN)/python
	test $(DEV) -nt pyproject.toml -a $(DEV) -nt constraints.txt || $(INSTALL) '.[plots,cpu]'
	touch $@

$(DEV): pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) '.[dev]'
	touch $@

$(DOCS): pyproject.toml constraints.txt | $(BIN)/python
	test $(DEV) -nt pyproject.toml -a $(DEV) -nt constraints.txt || $(INSTALL) '.[docs]'
	touch $@

$(MUTATION): pyproject.toml constraints.txt | $(DEV)
	$(INSTALL) '.[mutation]'
	touch $@
