# All a machine needs is Python 3.11 or newer (with venv and pip) and make: the first command makes .venv from the lock files.
# ARGS are handed on:  make serve ARGS="--port 9000"   make test ARGS="-k floors"   make lock ARGS=--upgrade

PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check
RUNTIME := .venv/runtime.stamp
DEV := .venv/dev.stamp
PYTEST := -m pytest -n auto --maxprocesses 8 --dist worksteal $(ARGS)
LOCK := $(BIN)/uv pip compile pyproject.toml --quiet --universal --python-version 3.11 --generate-hashes \
	--no-annotate --no-header --no-emit-index-url --no-emit-find-links $(ARGS)

.PHONY: serve test check bench clients lock

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
	tests/clients/prepare

# Locking alone needs uv; pip installs from the locks. What is pinned stays pinned unless ARGS=--upgrade.
lock: $(DEV)
	$(INSTALL) uv
	$(LOCK) --group build --extra postgres --output-file requirements.lock
	$(LOCK) --group dev --extra postgres --extra dbos --extra rag --extra ingest --constraint requirements.lock --output-file requirements-dev.lock

$(RUNTIME): requirements.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "goalport needs Python 3.11 or newer; install one, or name it: make PYTHON=/path/to/python3.12"; exit 1; }
	$(PYTHON) -m venv .venv
	$(INSTALL) --require-hashes --requirement requirements.lock
	$(INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@

$(DEV): $(RUNTIME) requirements-dev.lock
	$(INSTALL) --require-hashes --requirement requirements-dev.lock
	@touch $@
