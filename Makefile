# Everything starts from Python and make: each target makes the virtual environment it needs.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
# Two processes, of which the one that is done takes tests of the other. Each computes on one core.
TWO = -n 2 --dist worksteal
test test-oldest test-long coverage: export OMP_NUM_THREADS = 1
test test-oldest test-long coverage: export OPENBLAS_NUM_THREADS = 1
# What Python compiles is kept, whatever is set outside: tests start many processes.
test test-oldest test-long coverage: export PYTHONDONTWRITEBYTECODE =
# The interpreter's own monitoring measures coverage at almost no cost, where there is one.
ifeq ($(shell $(PYTHON) -c 'import sys; print(sys.version_info >= (3, 12))'),True)
export COVERAGE_CORE ?= sysmon
endif

# The four real data sets, where a copy lies beside the repository.
ifneq ($(wildcard ../shared/data),)
export FISHERLEAK_DATA ?= $(abspath ../shared/data)
endif

.PHONY: demo test test-long test-corpus test-oldest coverage bench lint docs format clean

demo: $(VENV)/.demo
	$(BIN)/fisherleak audit --l2 0.1 --out demo --overwrite

test: $(VENV)/.test
	$(BIN)/python -m pytest $(TWO)

test-long: $(VENV)/.test
	$(BIN)/python -m pytest -m long $(TWO)

test-corpus: $(VENV)-corpus/.ready
	$(VENV)-corpus/bin/python -m pytest tests/tables/read/test_foreign.py
	$(VENV)-corpus/bin/python -m pytest -m long tests/test_corpus.py

# What no version of a dependency changes is not run again: tests/versionless.txt says why.
VERSIONLESS = $(shell sed '/^\#/d' tests/versionless.txt)
test-oldest: $(VENV)-oldest/.ready
	$(VENV)-oldest/bin/python -m pytest $(TWO) $(addprefix --ignore=tests/,$(VERSIONLESS))

# Lines that no test runs; takes twice the time of the tests, so it is asked for.
coverage: $(VENV)/.test
	$(BIN)/python -m pytest $(TWO) --cov

bench: $(VENV)/.test $(VENV)-corpus/.ready
	$(BIN)/python benchmarks/startup.py
	$(VENV)-corpus/bin/python benchmarks/tables.py
	$(BIN)/python benchmarks/cost.py
	$(VENV)-corpus/bin/python benchmarks/releases.py
	$(BIN)/python benchmarks/engine.py
	$(BIN)/python benchmarks/least_loss.py
	$(BIN)/python benchmarks/queries.py
	$(BIN)/python benchmarks/attacks.py
	$(BIN)/python benchmarks/protect.py
	$(BIN)/python benchmarks/other_tools.py --environment $(VENV)-other-tools
	$(BIN)/python benchmarks/reproduce.py
	$(BIN)/python benchmarks/dask.py --rows 2000000 --growth 2

lint: $(VENV)/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy

format: $(VENV)/.lint
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.docs
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[frames]'
	touch $@

$(VENV)/.test: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test]'
	touch $@

$(VENV)/.lint: pyproject.toml | $(VENV)/.test
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test,lint]'
	touch $@

$(VENV)/.docs: pyproject.toml | $(VENV)/.test
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[test,docs]'
	touch $@

$(VENV)-oldest/.ready: pyproject.toml requirements-oldest.txt
	$(PYTHON) -m venv $(VENV)-oldest
	$(VENV)-oldest/bin/python -m pip install --quiet --disable-pip-version-check -e '.[test]' -c requirements-oldest.txt
	touch $@

# packages that bring tables want versions of their own
$(VENV)-corpus/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)-corpus
	$(VENV)-corpus/bin/python -m pip install --quiet --disable-pip-version-check -e '.[corpus,excel,frames,r,spss]' hypothesis pytest
	touch $@

clean:
	rm -rf $(VENV) $(VENV)-corpus $(VENV)-oldest $(VENV)-other-tools .coverage demo docs/_build docs/api/generated
