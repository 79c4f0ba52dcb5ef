# All a machine needs is Python 3.11 or newer (with venv and pip) and make: the first command makes .venv from the lock files.
# ARGS are handed on:  make serve ARGS="--port 9000"   make test ARGS="-k floors"   make lock ARGS=--upgrade

# The newest that the machine has; a pyenv shim of a version that is not chosen refuses, and is passed over.
PYTHON ?= $(shell for p in python3.14 python3.13 python3.12 python3.11 python3 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV ?= .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check
RUNTIME := $(VENV)/runtime.stamp
DEV := $(VENV)/dev.stamp
PYTEST := -m pytest -n auto --maxprocesses 8 --dist worksteal $(ARGS)
LOCK := $(BIN)/uv pip compile pyproject.toml --quiet --universal --python-version 3.11 --generate-hashes \
	--no-annotate --no-header --no-emit-index-url --no-emit-find-links $(ARGS)

.PHONY: serve test test-oldest check bench clients lock

serve: $(RUNTIME)
	$(BIN)/goalport serve --workspace . $(ARGS)

# Tests start hundreds of programs: each would compile goalport again where the environment forbids to keep bytecode.
test: export PYTHONDONTWRITEBYTECODE =
test: $(DEV)
ifdef COVERAGE
	$(BIN)/coverage erase
	$(BIN)/coverage run $(PYTEST)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report
else
	$(BIN)/python $(PYTEST)
endif

# What reads classes, plans, runs, stores and serves, on the oldest Python that goalport supports.
OLDEST := tests/rooms/domain tests/rooms/plan tests/rooms/process tests/rooms/workflow tests/stories/test_every_way.py
test-oldest:
	@if python3.11 -c '' 2>/dev/null; then \
		$(MAKE) test VENV=.venv-3.11 PYTHON=python3.11 COVERAGE= ARGS="$(OLDEST) $(ARGS)"; \
	else echo "test-oldest: skipped, since there is no python3.11 here"; fi

check: $(DEV)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/pyright
	$(BIN)/python -m tests.house.rooms

bench: $(DEV)
	benchmarks/peers/prepare
	$(BIN)/python -m benchmarks $(ARGS)

# Beside the developers' packages, which bring npm to the machines that lack it and have nothing else that clients need.
clients: $(if $(shell command -v npm),$(RUNTIME),$(DEV))
	PYTHON= tests/clients/prepare

# Locking alone needs uv; pip installs from the locks. What is pinned stays pinned unless ARGS=--upgrade.
lock: $(DEV)
	$(INSTALL) uv
	$(LOCK) --group build --extra postgres --output-file requirements.lock
	$(LOCK) --group dev --extra postgres --extra dbos --extra rag --extra ingest --extra a2a --constraint requirements.lock --output-file requirements-dev.lock

$(RUNTIME): requirements.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "goalport needs Python 3.11 or newer; install one, or name it: make PYTHON=/path/to/python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --require-hashes --requirement requirements.lock
	$(INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@

$(DEV): $(RUNTIME) requirements-dev.lock
	$(INSTALL) --require-hashes --requirement requirements-dev.lock
	@touch $@
