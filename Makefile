.DEFAULT_GOAL := help
.PHONY: help demo docs test test-all chip adapters micropython lint types bench kills crashes claims fleet hostile cuts release clean

PYTHON ?= python3
export PYTHON
FOLDER ?=
ARGS ?=

help: ## Show these lines
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## See a client within five cents, and an agent read FOLDER=... on MicroPython and on CPython
	@python=$$(scripts/venv.sh demo) && MICROPYTHON=$$(scripts/micropython.sh) && export MICROPYTHON && "$$python" examples/folder_agent/demo.py $(if $(FOLDER),"$(FOLDER)") $(ARGS)

docs: ## Write the drawings, make the site of these pages in .local/site and open it: ARGS=--no-open
	@python=$$(scripts/venv.sh docs) && "$$python" scripts/drawings.py && "$$python" scripts/make_site.py $(ARGS)

test: ## Run all checks and tests but the slow ones, on CPython and MicroPython
	@python=$$(scripts/venv.sh) && MICROPYTHON=$$(scripts/micropython.sh) && export MICROPYTHON && "$$python" scripts/check.py $(ARGS)

test-all: ## Run all checks and tests: campaigns, clusters, series of boards and adapters as well
	@$(MAKE) --no-print-directory test ARGS="--all $(ARGS)"

chip: ## Run tests of the core and an agent on an emulated Cortex-M3: ARGS="FOLDER, MODULE or TEST..."
	@python=$$(scripts/venv.sh) && "$$python" -m tests.chip $(ARGS)

adapters: ## Try adapters with the lowest and the newest SDK, and write docs/adapters.md: ARGS="NAME... --newest"
	@python=$$(scripts/venv.sh) && "$$python" scripts/adapters.py $(ARGS)

micropython: ## Print the path of a MicroPython, installed below .local if there is none
	@scripts/micropython.sh

lint: ## Check style only
	@python=$$(scripts/venv.sh) && "$$python" scripts/check.py lint $(ARGS)

types: ## Check types only
	@python=$$(scripts/venv.sh) && "$$python" scripts/check.py types $(ARGS)

bench: ## Measure time and memory beside the nearest peers, and write docs/figures.md: ARGS="GROUP... --quick"
	@python=$$(scripts/venv.sh) && scripts/peers.sh "$$python" && MICROPYTHON=$$(scripts/micropython.sh) && export MICROPYTHON && "$$python" -m benchmarks $(ARGS)

kills: ## Kill the process in the midst of its writes, many times
	@python=$$(scripts/venv.sh) && MICROPYTHON=$$(scripts/micropython.sh) && export MICROPYTHON && "$$python" -m tests.file_store_kills $(ARGS)

crashes: ## Kill processes that share an SQLite ledger in the midst of their writes, many times
	@python=$$(scripts/venv.sh) && "$$python" -m tests.ledger.sqlite.kills $(ARGS)

claims: ## Let 32 processes claim one budget of a ledger: ARGS="--engine sqlite|redis|postgres"
	@python=$$(scripts/venv.sh) && "$$python" -m tests.ledger.claims $(ARGS)

fleet: ## Let 1,000 devices share one budget over outages and power cuts: ARGS="--devices N --plot FILE"
	@python=$$(scripts/venv.sh) && MICROPYTHON=$$(scripts/micropython.sh) && export MICROPYTHON && "$$python" -m tests.fleet.campaign $(ARGS)

hostile: ## Load a service with hostile clients beside good ones: ARGS="--seconds 600"
	@python=$$(scripts/venv.sh) && "$$python" -m tests.serve.hostile $(ARGS)

cuts: ## Cut a chip's power at every block operation, and again at every one after it
	@python=$$(scripts/venv.sh) && MICROPYTHON=$$(scripts/micropython.sh) && export MICROPYTHON && "$$python" -m tests.file_store_power_loss $(ARGS)

release: ## Set the version and its date, commit and tag them: VERSION=1.2.3 ARGS=--dry-run
	@$(PYTHON) scripts/release.py $(VERSION) $(ARGS)

clean: ## Remove .local (MicroPython and the tools installed there) and all caches
	@rm -rf .local dist .pytest_cache .hypothesis .mypy_cache .ruff_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
