# Everything a fresh machine needs is python3 with venv, and pip's package index.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: demo test test-faults lint bench clean

$(VENV)/.installed: pyproject.toml client/pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ./client -e '.[dev]'
	touch $@

demo: $(VENV)/.installed
	$(BIN)/forgectl demo

test: $(VENV)/.installed
	$(BIN)/python -m pytest tests

# Kills and broken disks by the hundred; takes some minutes.
test-faults: $(VENV)/.installed
	$(BIN)/python -m pytest tests/faults

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.installed
	$(BIN)/python tests/bench/run.py

clean:
	rm -rf $(VENV) build dist
