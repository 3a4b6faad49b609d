# Every target sets up what it needs by itself; a second call reuses it. Messages of the set-up go to stderr.
SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help setup build demo test test-v2 test-compatibility check fuzz bench bundle docs fmt lock clean

# The pinned Node.js, npm and tools come before whatever the machine has.
export PATH := $(CURDIR)/tools/node/node_modules/.bin:$(CURDIR)/node_modules/.bin:$(PATH)

help: ## what can be made
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | while IFS='|' read -r name text; do \
	  printf '%-27s%s\n' "$$name" "$$text"; done

setup: ## the pinned Node.js and the packages of the lockfiles
	@tools/node/setup

build: setup ## the two native programs, statically linked, and the weakened twin for tests
	@tools/native/build

demo: build ## the 164 HumanEval programs in sandboxes of their own, and three offenders; FILE=mine.jsonl runs yours
	@node tools/demo/main.ts $(if $(FILE),'$(subst ','\'',$(FILE))')

test: build ## every test: as root the root lane and two fresh users' lanes, as a user that user's lane
	@tools/lanes/test

test-v2: build ## the sandbox tests with control groups of version 2, in Debian's kernel in a virtual machine; ONLY='FILE...' some files
	@tools/v2/test $(ONLY)

test-compatibility: build ## the published Python client and its command line, unmodified, against `boxkite sidecar`
	@tools/lanes/compatibility

check: setup ## types, lint, format, imports, budgets, docs against code, clippy, rustfmt, licences
	@node tools/checks/main.ts

fuzz: setup ## random input for the decisions of policy, FUZZ_SECONDS in all (20); FUZZ_SEED repeats a run
	@node tests/fuzz/main.ts

bench: build bundle ## the promised numbers, each beside its baseline; ROW=exec runs one, JSON=FILE writes them
	@node tests/performance/main.ts $(addprefix --row ,$(ROW)) $(if $(ROUNDS),--rounds $(ROUNDS)) \
	  $(if $(JSON),--json '$(subst ','\'',$(JSON))')

bundle: build ## dist/: boxkite.mjs, daemon.mjs and sidecar.mjs, with the native programs beside them
	@node tools/bundle/main.ts

docs: setup ## writes the reference pages that are made from code
	@node tools/docs/main.ts

fmt: setup ## formats TypeScript, JSON and Rust in place
	@biome check --write --error-on-warnings .
	@cd runner && cargo fmt --all

lock: setup ## writes package-lock.json anew after a manifest has changed
	@tools/node/relock

clean: ## removes everything that was built or installed
	rm -rf dist build coverage runner/target node_modules tools/node/node_modules packages/*/dist
