# Everything is installed from requirements.lock into .venv; nothing else on the machine changes.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# the lock constrains build dependencies too
PIP_INSTALL := PIP_CONSTRAINT=requirements.lock PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/python -m pip install --quiet

# Folder with the archives of the benchmark sets: FEWBITS_DATA, or ../shared/data if it exists.
ifeq ($(origin FEWBITS_DATA), undefined)
ifneq ($(wildcard ../shared/data),)
export FEWBITS_DATA := $(abspath ../shared/data)
endif
endif

.PHONY: demo test test-slow test-browser test-all bench-machine lint chromium golden durability attack load bench results commands openapi lock audit release clean

demo: $(VENV)/.train
	$(BIN)/fewbits demo

# Two workers with one thread each. `test` excludes tests marked slow or browser.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadgroup

test: lint
	$(PYTEST)

test-slow: $(VENV)/.dev
	$(PYTEST) -m "slow and not browser"

test-browser: $(VENV)/.dev chromium
	$(PYTEST) -m browser

test-all: test test-slow test-browser

# Strict bounds on ratios of time and memory, which hold on an idle machine only.
bench-machine: $(VENV)/.dev
	FEWBITS_STRICT=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -rP -m "" tests/index tests/features \
		-k "bare_faiss or keeps_pace"

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Compare with the answers, codes and figures of an earlier version: every method on two benchmark sets, over an hour.
golden: $(VENV)/.dev
	FEWBITS_GOLDEN=all OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/golden -q -m "" -n 2 --dist loadgroup

# Kill 200 processes at random moments, read for a minute during writes, and kill the runner of the quick suite.
durability: $(VENV)/.dev
	$(BIN)/python tests/search/durability.py --kills 200
	FEWBITS_SECONDS=60 $(BIN)/python -m pytest -q -rP -m "" tests/search/test_durability.py -k another_process_writes
	FEWBITS_SUITE=quick $(BIN)/python -m pytest -q -m "" tests/benchmark/test_runner.py -k killed_at_random

# Attack the service, saved folders and input; print what was tried, held and lost, and render docs/reliability.md. This
# takes hours, and needs root to mount a small disk.
attack: $(VENV)/.dev
	PYTHONPATH=tests OMP_NUM_THREADS=1 $(BIN)/python -m attack.run

# Run all suites and experiments, then render the pages. This takes hours; an interrupted run resumes.
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
	for name in cacm cranfield; do $(BIN)/fewbits bench search $(FEWBITS_DATA)/judged/$$name --bits 64 --bits 128 --seed 0 --seed 1 --seed 2 --save; done
	$(MAKE) results

results: $(VENV)/.dev
	$(BIN)/fewbits bench report

commands: $(VENV)/.dev
	$(BIN)/python tools/render_commands.py > docs/commands.md

lock: $(VENV)/.dev
	$(BIN)/pip-compile --quiet --all-extras --strip-extras --no-header --no-annotate --allow-unsafe \
		--no-emit-index-url --no-emit-find-links --no-emit-trusted-host --output-file requirements.lock pyproject.toml
	sed -i 's/+cpu$$//; /^#/d; /^$$/d' requirements.lock  # pip rejects local version labels

# Tools that are only needed for a release are installed beside .venv, whose packages they list.
build/tools: Makefile
	rm -rf $@ && $(PYTHON) -m venv $@
	$@/bin/python -m pip install --quiet cyclonedx-bom==7.5.0 pip-audit==2.10.1

# Compare the locked versions with the known vulnerabilities; fails if one has any, or if the database cannot be reached.
audit: build/tools
	build/tools/bin/pip-audit --strict --no-deps --disable-pip --requirement requirements.lock

# Source and wheel, a bill of materials, and the checksums of the archives of all packages.
release: $(VENV)/.dev build/tools
	rm -rf dist
	PIP_CONSTRAINT=requirements.lock $(BIN)/python -m build --outdir dist .
	build/tools/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible --output-format JSON \
		--output-file dist/fewbits.cdx.json $(BIN)/python
	$(PIP_INSTALL) --dry-run --ignore-installed --report dist/packages.json \
		'.[train,tune,parquet,onnx,report,retrieval,download,serve,map]'

# Install the browser for test-browser; without it those tests are skipped.
chromium:
	test -x /usr/bin/chromium || (apt-get update -qq && apt-get install -y -qq chromium) \
		|| echo "chromium could not be installed: browser tests are skipped"

# Load the service with 32 clients for 30 seconds, on a million codes.
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
	$(PIP_INSTALL) --editable '.[train,tune,parquet,onnx,report,retrieval,download,serve,map,dev]'
	touch $@

clean:
	rm -rf $(VENV) build dist
