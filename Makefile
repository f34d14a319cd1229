.DEFAULT_GOAL := help
.PHONY: help demo test unit_tests integration_tests lint format benchmark clean

# Every target makes the virtual environment it needs with the Python at hand.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
ARGS ?=

help:  ## Show this help.
	@awk -F ':.*## ' '/^[a-z_]+:.*## / {printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(BIN)/python:
	@$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 10), "langchain-rse needs Python 3.10 or newer, not " + sys.version'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(VENV)/.demo: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[async,cli]'
	@touch $@

$(VENV)/.test: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[all]' --group test --group lint
	@touch $@ $(VENV)/.demo

# dsRAG is measured against, and needs nothing but numpy for that; what it declares is left out.
$(VENV)/.benchmark: $(VENV)/.test
	$(BIN)/python -m pip install --quiet --group benchmark
	$(BIN)/python -m pip install --quiet --no-deps 'dsrag==0.5.6'
	@touch $@

demo: $(VENV)/.demo  ## Ask three questions of the Python reference: chunks beside segments.
	$(BIN)/langchain-rse demo $(ARGS)

test: unit_tests integration_tests  ## Run all tests.

unit_tests: $(VENV)/.test  ## Run the tests that open no socket.
	$(BIN)/python -m pytest --disable-socket --allow-unix-socket tests/unit_tests $(ARGS)

integration_tests: $(VENV)/.test  ## Run the tests with real stores, and the notebooks.
	$(BIN)/python -m pytest tests/integration_tests $(ARGS)

lint: $(VENV)/.test  ## Check style and types.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.test  ## Format the code.
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

benchmark: $(VENV)/.benchmark  ## Measure speed; with DATA=folder, retrieval quality instead.
ifdef DATA
	$(BIN)/python benchmarks/quality.py --data '$(DATA)' $(ARGS)
	$(BIN)/python benchmarks/reranked.py --data '$(DATA)'
else
	$(BIN)/python benchmarks/segmentation.py
	$(BIN)/python benchmarks/overhead.py
	$(BIN)/python benchmarks/indexing.py
endif

clean:  ## Remove the virtual environment and what the tools left.
	rm -rf $(VENV) demo-kb .mypy_cache .ruff_cache .pytest_cache .hypothesis
