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

.PHONY: demo test lint chromium golden durability load bench results commands openapi lock clean

demo: $(VENV)/.train
	$(BIN)/fewbits demo

test: lint chromium
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadgroup  # two workers, a core each

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# What an earlier state answered, learnt and measured: every method on two benchmark sets, an hour or more.
golden: $(VENV)/.dev
	FEWBITS_GOLDEN=all OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/golden -q -n 2 --dist loadgroup

# 200 processes killed at random moments, a minute of reading beside a writer, and the quick suite's runner killed.
durability: $(VENV)/.dev
	$(BIN)/python tests/search/durability.py --kills 200
	FEWBITS_SECONDS=60 $(BIN)/python -m pytest -q -rP tests/search/test_durability.py -k another_process_writes
	FEWBITS_SUITE=quick $(BIN)/python -m pytest -q tests/benchmark/test_runner.py -k killed_at_random

# Every suite, what has no result file yet; what is not about retrieval; then the pages made from all. The whole takes
# hours: it can be stopped and goes on where it was.
bench: $(VENV)/.dev
	$(BIN)/fewbits bench run paper --jobs 2
	$(BIN)/fewbits bench run ablation --jobs 2
	$(BIN)/fewbits bench run estimators --jobs 2
	$(BIN)/fewbits bench run scale --jobs 2
	$(BIN)/fewbits bench figures
	$(BIN)/fewbits bench estimators --dataset ng20 --bits 32 --bits 128 --save
	$(BIN)/fewbits bench supervision --save
	$(BIN)/fewbits bench speed --save
	$(BIN)/fewbits bench known-items --save
	$(MAKE) results

results: $(VENV)/.dev
	$(BIN)/fewbits bench report

commands: $(VENV)/.dev
	$(BIN)/python tools/render_commands.py > docs/commands.md

lock: $(VENV)/.dev
	$(BIN)/pip-compile --quiet --all-extras --strip-extras --no-header --no-annotate --allow-unsafe \
		--no-emit-index-url --no-emit-find-links --no-emit-trusted-host --output-file requirements.lock pyproject.toml
	sed -i 's/+cpu$$//; /^#/d; /^$$/d' requirements.lock  # a build's own mark is no version

# A browser for the tests of page and report; where it cannot be had, those tests say so and are skipped.
chromium:
	test -x /usr/bin/chromium || (apt-get update -qq && apt-get install -y -qq chromium) \
		|| echo "chromium could not be installed: page and report are not tested in it"

# 32 clients for 30 seconds against a million codes.
load: $(VENV)/.dev
	$(BIN)/fewbits bench service --save
	$(MAKE) results

openapi: $(VENV)/.dev
	$(BIN)/python -m fewbits.server.app > docs/openapi.json

$(VENV)/.train: pyproject.toml requirements.lock
	$(PYTHON) -m venv $(VENV)
	$(PIP_INSTALL) --editable '.[train,serve]'
	touch $@

$(VENV)/.dev: $(VENV)/.train
	$(PIP_INSTALL) --editable '.[train,tune,parquet,onnx,report,download,serve,map,dev]'
	touch $@

clean:
	rm -rf $(VENV)
