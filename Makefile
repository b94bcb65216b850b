# The targets use the virtual environment .venv, and create it if it does not exist.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: help demo test check format soak bench docs clean

help: ## print this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check torch -c constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

demo: $(READY) ## train on built-in digits for a minute and print where the results are
	$(BIN)/remuda train class-parallel-digits

test: $(READY) check ## check lint, format and types, then run the whole test suite
	$(BIN)/python -m pytest --ignore tests/mpi --ignore tests/hosts --ignore tests/slurm --numprocesses auto --maxprocesses 4 --dist loadfile
	$(BIN)/python -m pytest tests/mpi tests/hosts tests/slurm

check: $(READY) ## check lint, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python

format: $(READY) ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

soak: $(READY) ## run the long tests, which kill runs at random times
	$(BIN)/python -m pytest -m soak --override-ini addopts="-q --strict-markers"

bench: $(READY) ## run two benchmarks and print their results
	$(BIN)/python benchmarks/overhead.py
	$(BIN)/python benchmarks/herd_step.py --networks mlp --shape 1 28 28 --members 4

docs: $(READY) ## build the documentation site in build/docs and check its links; a warning is an error
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going --nitpicky --builder html --doctree-dir build/doctrees docs build/docs
	@echo "site: build/docs/index.html"

clean: ## remove the virtual environment and caches
	rm -rf $(VENV) .pytest_cache .ruff_cache build dist
