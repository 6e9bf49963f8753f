# The only door: `make help` says what there is.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STATE  ?=
CATALOGUE ?=
KEEP   ?=
FREE_PORTS ?=
SERVICE := --extra server --extra aws --extra kubernetes --extra mysql
EXTRAS := $(SERVICE) --extra embedded --extra examples --extra build
LOCK   := $(BIN)/uv pip compile --universal --python-version 3.11 --no-header --no-annotate --generate-hashes --quiet
SEED    ?=
# every change meets other faults, and the same ones again when it is tried again
CHANGE   = $(shell git log -1 --format=%ct 2>/dev/null)
MINUTES ?= 2
DATABASE ?= mariadb
IMAGE  := deploy/image
# Tests wait more than they compute, so more of them than there are cores.
WORKERS ?= 4
SPREAD := --dist loadfile --no-loadscope-reorder -n
# The tests without servers compute more than they wait, so fewer workers share the cores.
UNIT_WORKERS ?= 3
# so many control planes at once
BEDS   ?= 1
SYSTEM := 'system and not cluster'
LONG   := 'long and not mariadb and not sequences and not system and not crash and not outage and not cluster'
DATABASES := 'mariadb and not system and not crash and not outage and not cluster and not sequences'
SEQUENCES := '(sequences or hypothesis and not mariadb) and not system and not crash and not outage and not cluster'
UNIT   := 'not system and not mariadb and not sequences and not long'
CLUSTER := 'cluster and not large'
STATEMENTS := build/statements
# files of the tests on a control plane
FILES  ?= tests/kubernetes tests/*/contracts
# one shard of the suites that take long (tests/ci/shards.py); none: all of them
SHARD  ?=
PART    = $(if $(SHARD),--shard $(SHARD)) --durations 20 --durations-min 10

# The tests start hundreds of processes: each would compile the code anew in a shell that forbids to keep bytecode.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help run up test test-long test-databases test-mysql test-sequences test-unit test-system test-all test-cluster test-cluster-large test-crashes test-outages test-restore test-large chaos test-triggers verdict-soak lint docs known-holes format bench ci ci-all lock clean mariadb chromium firefox unzips promtool

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: $(VENV)/.installed ## one real crawl from start to finish, on a stack that is gone afterwards (KEEP=1: at Ctrl-C)
	@exec $(BIN)/crawlctl demo $(if $(KEEP),--keep)

up: $(VENV)/.installed ## the whole service on this machine until Ctrl-C; its state survives (STATE=folder, CATALOGUE=file, FREE_PORTS=1)
	@exec $(BIN)/crawlctl up $(if $(FREE_PORTS),--free-ports) $(if $(STATE),--state '$(STATE)') $(if $(CATALOGUE),--catalogue '$(CATALOGUE)')

test: $(VENV)/.installed-dev mariadb unzips promtool ## the tests, with a few on real processes (5 to 8 minutes on two cores)
	@$(BIN)/pytest $(SPREAD) $(WORKERS) -q
	@echo "Left to other targets: test-long (what takes seconds and rarely breaks), test-databases (the same on MariaDB)," \
	  "test-sequences (more generated sequences, whole matrices), test-system, test-crashes, test-outages, test-cluster"

test-long: $(VENV)/.installed-dev mariadb unzips promtool ## what `make test` leaves out because it takes seconds and rarely breaks (6 to 9 minutes on two cores)
	@$(BIN)/pytest $(SPREAD) $(WORKERS) -q -m $(LONG) $(PART)

test-databases: $(VENV)/.installed-dev mariadb ## on MariaDB, what `make test` runs on SQLite alone (8 minutes on two cores)
	@$(BIN)/pytest $(SPREAD) $(WORKERS) -q -m $(DATABASES) $(PART)

test-mysql: $(VENV)/.installed-dev mariadb ## the contracts with SQLAlchemy compiling for MySQL 8.4, and MySQL's grammar of all statements (needs Node.js)
	@rm -rf $(STATEMENTS) && mkdir -p $(STATEMENTS)
	@TEST_DATABASE_AS=8.4.3 TEST_STATEMENTS=$(STATEMENTS) $(BIN)/pytest tests/*/contracts $(SPREAD) $(WORKERS) -q -m $(DATABASES) $(PART)
	@$(BIN)/python -m tests.mysql_grammar $(STATEMENTS)

test-sequences: $(VENV)/.installed-dev mariadb ## generated sequences and whole matrices, of which `make test` runs a few
	@EXAMPLES=5 $(BIN)/pytest $(SPREAD) $(WORKERS) -q -m $(SEQUENCES) $(PART)

test-unit: $(VENV)/.installed-dev ## rules and workflows, without servers (two minutes)
	@$(BIN)/pytest tests/*/unit -m $(UNIT) $(SPREAD) $(UNIT_WORKERS) -q

test-system: $(VENV)/.installed-dev mariadb chromium firefox unzips ## whole stacks and their outages, the page in a browser, the image (8 to 15 minutes)
	@$(BIN)/pytest $(SPREAD) $(WORKERS) -q -m $(SYSTEM) $(PART)

test-crashes: $(VENV)/.installed-dev mariadb ## every part dies at every step, and what it speaks to fails (SHARD=1 to 8: 3 to 12 minutes and 5 GB each)
	@CI=true $(BIN)/pytest tests/crash -m crash -q $(PART)

test-outages: $(VENV)/.installed-dev mariadb ## fifty runs in every stage live through every outage, and two at a time; which alerts fire (twenty minutes)
	@CI=true $(BIN)/pytest tests/chaos -m outage -q $(PART)

test-restore: $(VENV)/.installed-dev mariadb ## a stack loses database, Temporal, both or its volume, and gets them back from a backup (10 minutes)
	@$(BIN)/pytest tests/restore -m $(SYSTEM) -q $(PART)

chaos: $(VENV)/.installed-dev mariadb ## runs, people and faults by chance, then the comparison (SEED=n MINUTES=m DATABASE=sqlite)
	@$(BIN)/python -m tests.chaos.soak --minutes $(MINUTES) --database $(DATABASE) $(if $(SEED),--seed $(SEED))

test-large: $(VENV)/.installed-dev mariadb ## lists, searches and counts of 500,000 runs read few rows (RUNS=n; 5 to 10 minutes and 3 GB)
	@CI=true $(BIN)/pytest tests/large -m large -q

test-all: ## these six; nothing may be skipped
	@CI=true $(MAKE) --no-print-directory test
	@CI=true $(MAKE) --no-print-directory test-long
	@CI=true $(MAKE) --no-print-directory test-databases
	@CI=true $(MAKE) --no-print-directory test-sequences
	@CI=true $(MAKE) --no-print-directory test-system
	@set -e; for shard in 1 2 3 4 5 6 7 8; do $(MAKE) --no-print-directory test-crashes SHARD=$$shard; done

test-cluster: $(VENV)/.installed-dev mariadb ## the tests on a real Kubernetes control plane (needs Go; its programs are built once)
	@nice $(BIN)/python -m tests.kubernetes.programs >/dev/null
	@CI=true $(BIN)/pytest $(FILES) -m $(CLUSTER) $(SPREAD) $(BEDS) -q $(PART)

test-cluster-large: $(VENV)/.installed-dev mariadb ## runs of 10,000 tasks there (a quarter of an hour on two quiet cores)
	@nice $(BIN)/python -m tests.kubernetes.programs >/dev/null
	@CI=true $(BIN)/pytest tests/kubernetes -m 'cluster and large' -q

test-triggers: $(VENV)/.installed-dev ## the examples in Python, Go and TypeScript; downloads their packages
	@$(BIN)/pytest -q tests/triggers/check_examples.py

verdict-soak: $(VENV)/.installed-dev ## a million generated lives of jobs, thousands of generated sequences: no row may ever be wrong (computed: half an hour)
	@$(BIN)/python -m tests.worlds.verdict_soak
	@EXAMPLES=170 $(BIN)/pytest -q --timeout 3600 tests/clusters/contracts/test_kubernetes_sequences.py

lint: $(VENV)/.installed-dev ## ruff (format, rules), mypy strict, import-linter, hadolint, plain words
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/mypy examples/flows
	@$(BIN)/lint-imports
	@$(BIN)/hadolint Dockerfile
	@$(BIN)/python -m tests.ci.prose

docs: $(VENV)/.installed-dev ## the documents as a site in build/docs; every link, command and block of code is tried (a minute)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@$(BIN)/pytest tests/docs/unit/test_docs.py -m '' -n $(UNIT_WORKERS) -q

known-holes: $(VENV)/.installed-dev ## asks the package index for known holes in what we depend on
	@$(BIN)/python -m tests.ci.known_holes requirements-dev.lock $(IMAGE)/requirements.lock $(IMAGE)/build.lock

format: $(VENV)/.installed-dev ## formats the code
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix --quiet .

bench: $(VENV)/.installed-dev mariadb ## the figures of docs/internals/benchmarks.md, measured here
	@$(BIN)/python -m bench

ci: $(VENV)/.installed-dev ## what has to pass, with one shard of what takes long (SHARD=n: which; 40 minutes on two cores)
	@$(BIN)/python -m tests.ci --seed "$(CHANGE)"

ci-all: $(VENV)/.installed-dev ## all that has to pass, with every shard
	@$(BIN)/python -m tests.ci --all --seed "$(CHANGE)"

lock: $(VENV)/.installed-dev ## pins every package anew, without addresses
	@$(LOCK) pyproject.toml $(EXTRAS) --upgrade --output-file requirements.lock
	@$(LOCK) pyproject.toml $(EXTRAS) --extra dev --constraint requirements.lock --upgrade --output-file requirements-dev.lock
	@$(LOCK) pyproject.toml $(SERVICE) --constraint requirements.lock --upgrade --output-file $(IMAGE)/requirements.lock
	@echo hatchling | $(LOCK) - --constraint requirements.lock --upgrade --output-file $(IMAGE)/build.lock

clean: ## removes the virtual environment and every cache
	@rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	  { echo "Python 3.11 or later is needed; '$(PYTHON)' is not one. Name another: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 1; }
	@echo "Making $(VENV) ..."
	@$(PYTHON) -m venv $(VENV) || \
	  { rm -rf $(VENV); echo "This Python cannot make virtual environments; on Debian: apt-get install python3-venv" >&2; exit 1; }
	@touch $@

$(VENV)/.installed: requirements.lock pyproject.toml | $(VENV)/.made
	@echo "Installing packages (once; about a minute) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.installed-dev: requirements-dev.lock pyproject.toml | $(VENV)/.made
	@echo "Installing packages, with those for development (once; about a minute) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@ $(VENV)/.installed

# The tests use a private server and a browser of their own, started from the system's programs.
mariadb:
	@PATH="$$PATH:/usr/sbin:/usr/local/sbin"; command -v mariadbd >/dev/null && exit 0; \
	$(call install_for_tests,mariadb-server); \
	echo "Skipped: the tests against MariaDB. mariadbd is missing and may not be installed from here" \
	  "(Debian: apt-get install mariadb-server; macOS: brew install mariadb)."

unzips:
	@command -v unzip >/dev/null && for name in 7zz 7z 7za; do command -v $$name >/dev/null && exit 0; done; \
	$(call install_for_tests,unzip 7zip); \
	echo "Skipped: other programs read an archive. unzip or 7-Zip is missing and may not be installed from here" \
	  "(Debian: apt-get install unzip 7zip; macOS: brew install sevenzip)."

promtool:
	@command -v promtool >/dev/null && exit 0; \
	$(call install_for_tests,prometheus); \
	echo "Skipped: the tests of the alerts. promtool is missing and may not be installed from here" \
	  "(Debian: apt-get install prometheus; macOS: brew install prometheus)."

chromium:
	@for name in chromium chromium-browser google-chrome google-chrome-stable; do command -v $$name >/dev/null && exit 0; done; \
	$(call install_for_tests,chromium); \
	echo "Skipped: the tests of the page. Chromium is missing and may not be installed from here" \
	  "(Debian: apt-get install chromium)."

firefox:
	@for name in firefox-esr firefox; do command -v $$name >/dev/null && exit 0; done; \
	$(call install_for_tests,firefox-esr); \
	echo "Skipped: the tests of the page in Firefox. Firefox is missing and may not be installed from here" \
	  "(Debian: apt-get install firefox-esr)."

# $(1): a package of Debian; ends the recipe's shell if it is installed now
define install_for_tests
if [ "$$(id -u)" = 0 ]; then as=""; elif sudo -n true 2>/dev/null; then as="sudo -n"; else as=no; fi; \
	if command -v apt-get >/dev/null && [ "$$as" != no ]; then \
	  echo "Installing $(1) (for the tests only) ..."; \
	  $$as apt-get update -qq >/dev/null && \
	  $$as env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $(1) >/dev/null && exit 0; \
	fi
endef
