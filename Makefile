# Everything starts from Python and make: each target makes the virtual environment it needs.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
# Two processes, whole files each.
TWO = -n 2 --dist loadfile

# The four real data sets, where a copy lies beside the repository.
ifneq ($(wildcard ../shared/data),)
export FISHERLEAK_DATA ?= $(abspath ../shared/data)
endif

.PHONY: demo test test-long test-oldest bench lint docs format clean

demo: $(VENV)/.demo
	$(BIN)/fisherleak audit --l2 0.1 --out demo --overwrite

test: $(VENV)/.test
	$(BIN)/python -m pytest $(TWO)

test-long: $(VENV)/.test
	$(BIN)/python -m pytest -m long $(TWO)

test-oldest: $(VENV)-oldest/.ready
	$(VENV)-oldest/bin/python -m pytest $(TWO)

bench: $(VENV)/.test
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/engine.py
	$(BIN)/python benchmarks/reproduce.py
	$(BIN)/python benchmarks/dask.py --rows 2000000 --growth 2

lint: $(VENV)/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
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

# The lower bounds of pyproject.toml, exactly.
$(VENV)-oldest/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)-oldest
	$(VENV)-oldest/bin/python -m pip install --quiet --disable-pip-version-check -e '.[test]' \
		array-api-compat==1.12.* jinja2==3.1.* narwhals==1.20.0 numpy==2.0.* pooch==1.8.0 rich==13.0.* scikit-learn==1.6.* scipy==1.13.* skops==0.11.* typer==0.15.* \
		numba==0.60.* pandas==2.2.2 pyarrow==17.0.0 matplotlib==3.9.0 array-api-strict==2.4 "dask[array,dataframe,distributed]==2025.1.0" "pyparsing<3.2" hypothesis==6.100.* playwright==1.50.0 polars==1.0.0 pytest==8.2.* pytest-xdist==3.6.*
	touch $@

clean:
	rm -rf $(VENV) $(VENV)-oldest demo docs/_build docs/api/generated
