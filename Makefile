# Everything is installed from requirements.lock into .venv; nothing else on the machine is changed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# pip takes the lock as constraints, also for what a build needs
PIP_INSTALL := PIP_CONSTRAINT=requirements.lock PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/python -m pip install --quiet

# The archives of the benchmark sets: FEWBITS_DATA, or the folder beside this one where there is one.
ifeq ($(origin FEWBITS_DATA), undefined)
ifneq ($(wildcard ../shared/data),)
export FEWBITS_DATA := $(abspath ../shared/data)
endif
endif

.PHONY: demo test lint bench results lock clean

demo: $(VENV)/.train
	$(BIN)/fewbits demo

test: lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadgroup  # two workers, a core each

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# LSH and ITQ on the benchmark sets, five seeds, and the table made from them.
bench: $(VENV)/.dev
	$(BIN)/fewbits evaluate --save --method lsh --method itq --dataset reuters --dataset ng20 --dataset tmc \
		--bits 8 --bits 16 --bits 32 --bits 64 --bits 128 --seed 0 --seed 1 --seed 2 --seed 3 --seed 4
	$(MAKE) results

results: $(VENV)/.dev
	$(BIN)/fewbits results > docs/results.md

lock: $(VENV)/.dev
	$(BIN)/pip-compile --quiet --all-extras --strip-extras --no-header --no-annotate --allow-unsafe \
		--no-emit-index-url --no-emit-find-links --no-emit-trusted-host --output-file requirements.lock pyproject.toml
	sed -i 's/+cpu$$//; /^#/d; /^$$/d' requirements.lock  # a build's own mark is no version

$(VENV)/.train: pyproject.toml requirements.lock
	$(PYTHON) -m venv $(VENV)
	$(PIP_INSTALL) --editable '.[train]'
	touch $@

$(VENV)/.dev: $(VENV)/.train
	$(PIP_INSTALL) --editable '.[train,tune,parquet,download,dev]'
	touch $@

clean:
	rm -rf $(VENV)
