# make up      set up what is missing, then start a lab (SCENARIO=… ARGS=…)
# make test    set up what is missing, then every test this machine can run
# make setup   the set-up alone;   make bench   the measurements;   make clean
SCENARIO ?= scenarios/my-nginx.yaml
ARGS ?=
PYTEST ?= .venv/bin/python -m pytest

.PHONY: up test check unit netns setup setup-dev bench clean

up: setup
	.venv/bin/labnet up $(SCENARIO) $(ARGS)

test: setup-dev
	scripts/check
	$(PYTEST) $(ARGS)

check: setup-dev
	scripts/check

# The tests that need nothing but Python: no root, no namespaces, no etcd.
unit: setup-dev
	$(PYTEST) tests/unit tests/golden tests/flow $(ARGS)

# The tests that make namespaces, real packets and whole labs.
netns: setup-dev
	$(PYTEST) -m "netns or e2e" $(ARGS)

setup:
	@scripts/setup

setup-dev:
	@scripts/setup --dev

bench: setup-dev
	.venv/bin/python -m benchmarks

clean:
	-.venv/bin/labnet down --all
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
