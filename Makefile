# Two commands on a fresh machine: `make demo` and `make test`. Both set up what is missing.
.DEFAULT_GOAL := help
SHELL := /bin/bash

# The newest of the interpreters that TensorFlow has wheels for.
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3; do \
	$$p -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready
# A session that takes so many seconds is ended, and says what it was doing. The soak may take hours.
PYTEST := $(BIN)/python -m pytest -n 4 --dist loadfile --session-timeout=3300
SOAK := $(BIN)/python -m pytest -n 2 --dist loadfile

.PHONY: help
help: ## List the targets.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: $(READY) ## Make .venv, or bring it up to date with pyproject.toml.

$(READY): pyproject.toml
	@test -n "$(PYTHON)" || { echo "No Python 3.11, 3.12 or 3.13 with venv was found. On Debian: apt-get install python3-venv"; exit 1; }
	@echo "Setting up $(VENV) with $(PYTHON); TensorFlow is 600 MB, so the first time takes a minute or more."
	@test -x $(BIN)/python || $(PYTHON) -m venv --clear $(VENV)
	@$(BIN)/python -m pip install --quiet --upgrade --upgrade-strategy only-if-needed --editable '.[dev]'
	@touch $@

.PHONY: demo
demo: $(READY) ## Train on a cluster: a chief, two workers and a parameter server, on real digits.
	$(BIN)/clusterkit up --workers 2 --ps 1 workloads/ps_train.py

.PHONY: test
test: $(READY) ## Run every test but the long ones and Slurm's (14 minutes on 2 cores).
	@.ci/browser
	@.ci/ssh
	$(PYTEST) -m "not soak and not long and not slurm"

.PHONY: test-fast
test-fast: $(READY) ## Run the quick tests that need no TensorFlow (under a minute on 2 cores).
	$(PYTEST) -m "not soak and not long and not tensorflow and not slow and not slurm"

.PHONY: test-long
test-long: $(READY) ## Run the tests of TensorFlow and JAX that `make test` has no time for, and some rows of long tables (20 minutes on 2 cores).
	@.ci/browser
	@.ci/ssh
	$(PYTEST) -m "long and not soak"

ROOM ?= network

.PHONY: test-room
test-room: $(READY) ## Run the tests of one room: make test-room ROOM=network.
	$(PYTEST) -m "not soak" tests/$(ROOM)

.PHONY: test-slurm
test-slurm: $(READY) ## Run the tests that need a Slurm of three virtual hosts; as root, what is missing is installed.
	@.ci/slurm
	$(PYTEST) -m "slurm and not soak" tests/engines

.PHONY: soak
soak: $(READY) ## Run the long random tests, and all rows of the tables of which test-long draws some.
	TABLES_SHARE=0 $(SOAK) -m soak

# torchrun's torch has a place of its own, away from TensorFlow's; without it that peer has no figures.
TORCH ?= torch==2.13.0+cpu
TORCH_BIN := build/torch/bin
BENCH ?= # such as --runs 1 --only output

.PHONY: bench
bench: $(READY) ## Measure clusterkit beside its peers: a table and build/bench.json (under 45 minutes on 2 cores).
	@$(BIN)/python -c 'import dill, honcho' 2>/dev/null || $(BIN)/python -m pip install --quiet --editable '.[bench]'
	@test -x $(TORCH_BIN)/torchrun || { $(BIN)/python -m venv --clear build/torch && timeout 600 $(TORCH_BIN)/python -m pip install \
		--quiet --retries 0 '$(TORCH)'; } \
		|| echo "$(TORCH) can't be installed: torchrun is left out."
	$(BIN)/python -m benchmarks --torch $(TORCH_BIN)/python $(BENCH)

MATRIX ?= # such as --only 2.16-py3.11 --slice facts --keep

.PHONY: matrix
matrix: $(READY) ## Try every TensorFlow and Python that is claimed: a table, build/matrix.json (10 minutes for each).
	$(BIN)/python -m benchmarks.matrix $(MATRIX)

.PHONY: docs
docs: $(READY) ## Run the examples in README.md and docs/, and write what they print into the pages.
	$(BIN)/python docs/run.py
	$(BIN)/python docs/notebooks.py

PICTURES ?= # such as states, or stalled-16

.PHONY: pictures
pictures: $(READY) ## Draw the pictures of the pages, and the dashboard's page in every state into build/pictures (8 minutes).
	@.ci/browser
	$(BIN)/python docs/pictures.py $(PICTURES)

.PHONY: lint
lint: $(READY) ## Check style and types.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

.PHONY: format
format: $(READY) ## Format the code.
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.PHONY: dist
dist: $(READY) ## Build the wheel and the source distribution into dist/, check their metadata, and try them on every Python.
	rm -rf dist
	$(BIN)/python -m hatchling build
	$(BIN)/python -m twine check --strict dist/*
	$(BIN)/python -m benchmarks.release

.PHONY: clean
clean: ## Remove what the other targets made here.
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
