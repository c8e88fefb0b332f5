# Everything happens in .venv, which make builds itself: the first target that needs it creates it, and it is
# brought up to date only when pyproject.toml changes.
#
#   make run     set up, then let the bundled model answer two questions
#   make test    set up, then the tests
#   make numbers the tests of rounding once more, with the instructions of other CPUs: AVX2, then AVX-512, on one that has both
#   make studio-test  the tests of the studio in Chromium, which fail without it; with npm also axe's rules of accessibility
#   make clients the tests of the server's clients that want an environment of their own, which it makes in build/clients
#   make ray-test the tests on a Ray cluster of this machine, in an environment of their own, build/ray; they take minutes
#   make lint    style, types, import contracts
#   make bench   ratios beside transformers and others, against the recorded ones: what got worse (ARGS="--only denoise")
#   make docs    write the generated pages and the picture anew
#   make clean   remove .venv and every cache
#
# TORCH is installed first and by exact version. Where pip's configuration names a place with CPU wheels
# (find-links, an extra index), that version's CPU build wins over the build of the same version from the
# default index, which on Linux carries gigabytes of CUDA. On a machine without a GPU and without such a place, name
# PyTorch's own CPU index:   PIP_EXTRA_INDEX_URL=<address of PyTorch's CPU wheels> make run
# With a GPU the default build is the right one. Another version:   make run TORCH=torch==2.12.0

PYTHON ?= python3
TORCH ?= torch==2.13.0
ARGS ?=

BIN := .venv/bin
BASE := .venv/.installed
DEV := .venv/.installed-dev
export PIP_DISABLE_PIP_VERSION_CHECK = 1
# Images of Python often set it. With it every process would compile all of gesso anew, and tests start hundreds.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run test numbers studio-test clients ray-test lint style types contracts bench docs clean

run: $(BASE)
	$(BIN)/gesso generate --seed 7 "What is 481 + 296?"
	$(BIN)/gesso generate --seed 7 "The blue kettle costs 36 euros and is made in Oslo. Give item, price and city as JSON."
	@echo "gesso is installed in .venv. To have it as a command, type: source .venv/bin/activate"

test: $(DEV)
	$(BIN)/python -m pytest $(ARGS)

# Libraries choose their kernels by the processor, and each has a variable that lets it choose as for an older one;
# PyTorch's is gesso's, too. Only a processor with AVX-512 has a choice: `make test` has run as for AVX2 on one without.
# Where only the libraries' kernels differ from those of `make test`, gesso's own are left out.
NUMBERS = $(shell grep -rl --include='test_*.py' 'pytest.mark.numbers' tests)

numbers: $(DEV)
	if $(BIN)/python -c 'import sys, torch; sys.exit("AVX512" not in torch.backends.cpu.get_cpu_capability())'; then \
		ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2 MKL_ENABLE_INSTRUCTIONS=AVX2 \
			$(BIN)/python -m pytest -m numbers $(NUMBERS) $(ARGS) && \
		ATEN_CPU_CAPABILITY=avx512 ONEDNN_MAX_CPU_ISA=AVX512_CORE MKL_ENABLE_INSTRUCTIONS=AVX512 \
			$(BIN)/python -m pytest -m numbers $(filter-out tests/kernels/%,$(NUMBERS)) $(ARGS); \
	else \
		echo "numbers as other CPUs round left out: this processor has no AVX-512, and its own were in make test"; \
	fi

# axe comes from npm and stays in build/: no other test needs node.
studio-test: $(DEV)
	-if command -v npm > /dev/null; then npm install --silent --no-save --prefix build/axe axe-core@4; fi
	GESSO_NEED_CHROMIUM=1 GESSO_AXE=build/axe/node_modules/axe-core/axe.min.js \
		$(BIN)/python -m pytest tests/studio tests/server/test_studio.py $(ARGS)

# One of these wants an older version of another client that the other tests use. LiteLLM above 1.83.0 asks for an openai
# that Pydantic AI no longer takes; without that bound pip tries every version of both, for longer than anybody waits.
clients: $(DEV)
	$(PYTHON) -m venv build/clients
	build/clients/bin/python -m pip install --quiet langchain-openai "litellm<=1.83.0" "pydantic-ai-slim[openai]" \
		"lm-eval[api]" transformers
	-if command -v npm > /dev/null; then npm install --silent --no-save --prefix build/clients \
		openai@6 ai@6 @ai-sdk/openai-compatible@2 zod@4; fi
	GESSO_CLIENTS=build/clients/bin/python GESSO_NODE_CLIENTS=build/clients \
		$(BIN)/python -m pytest -n 0 tests/server/test_more_clients.py $(ARGS)

# Ray is 300 MB and brings its own versions of what others use too. It warns when it is imported, and its processes take
# longer to start than any other test may.
ray-test:
	$(PYTHON) -m venv build/ray
	build/ray/bin/python -m pip install --quiet "$(TORCH)"
	build/ray/bin/python -m pip install --quiet --editable ".[ray,otel,test]"
	GESSO_RAY=1 build/ray/bin/python -m pytest -n 0 -W default::DeprecationWarning -o faulthandler_timeout=3600 \
		tests/cluster $(ARGS)

lint: style types contracts

style: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(DEV)
	$(BIN)/mypy

contracts: $(DEV)
	$(BIN)/lint-imports

bench: $(DEV)
	$(BIN)/python benchmarks/guard.py $(ARGS)

docs: $(BASE)
	$(BIN)/python -m gesso.cli.reference cli > docs/cli.md.new
	mv docs/cli.md.new docs/cli.md
	$(BIN)/python -m gesso.cli.reference api > docs/api.md.new
	mv docs/api.md.new docs/api.md
	$(BIN)/python docs/picture.py

clean:
	rm -rf .venv build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests benchmarks -name __pycache__ -type d -exec rm -rf {} +

$(BIN)/python:
	$(PYTHON) -m venv .venv

$(BASE): pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet "$(TORCH)"
	$(BIN)/python -m pip install --quiet --editable ".[all]"
	touch $@

$(DEV): $(BASE)
	$(BIN)/python -m pip install --quiet --editable ".[all,dev]"
	touch $@
