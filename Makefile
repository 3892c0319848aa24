# make test   set up, check style and types, run the tests
# make coverage  the same tests, and which lines they leave out
# make demo   set up, run the main job on an embedded default and write a report
# make docs   set up, build the documentation into site/
# make results  set up, every table and figure of the study from the journals in results/study

PYTHON ?= python3
VENV ?= .venv
EXTRAS ?= dev
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: test coverage demo docs results check setup clean

test: $(READY) check
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2

coverage: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --cov --cov-report=term-missing:skip-covered

demo: $(READY)
	$(BIN)/ncalr run digits --strategy ncal_coverage --against random,margin,coreset,badge --seeds 3 --out runs/demo

docs: $(READY)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --site-dir site

results: $(READY)
	$(BIN)/python benchmarks/results.py

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "ncalr needs Python 3.10 or newer, this is " + sys.version.split()[0])'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[$(EXTRAS)]'
	touch $@

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage*
