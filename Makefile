# Everything here needs Go only; race needs a C compiler too.
SHELL := bash
.SHELLFLAGS = -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help build demo test thorough race lint models fuzz etcd bench-peers dist dist-twice image ci clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1	/p' $(MAKEFILE_LIST) | expand -t 13

build: ## build ./conq: stripped, without cgo
	CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o conq ./cmd/conq

demo: ## see it work: concurrent clients, checked
	go run ./cmd/conq demo

test: ## run all tests
	go test ./...

thorough: ## run all tests, with each fault and seed of those that try some by default
	CONQ_THOROUGH=1 go test -timeout 30m ./...

race: ## run all tests with the race detector
	go test -race ./...

lint: ## gofmt, vet, types as on other platforms, staticcheck, tidy
	.ci/run lint

models: ## property and model tests with CHECKS cases each
	.ci/run models

fuzz: ## each fuzz target for FUZZTIME, as 30s or 100000x
	.ci/run fuzz

etcd: ## all tests on real etcd clusters, with members killed and paused
	go test -C test/etcd -count=1 -timeout 30m ./...

bench-peers: ## conq beside what one would pick instead; flags in ARGS, as ARGS=-short
	go build -C bench/peers -o peers .
	bench/peers/peers $(ARGS)

dist: ## archives, packages, bills of materials, checksums in ./dist; flags in ARGS, as ARGS="-platforms linux/amd64"
	CGO_ENABLED=0 go run -C deploy/dist . $(ARGS)

dist-twice: ## whether two clones of the last commit give the same bytes, on all platforms
	CGO_ENABLED=0 go test -C deploy/dist -count=1 -timeout 60m . -args -platforms all

image: ## an image for containers, conq, with the command of make dist
	$(MAKE) dist ARGS="-platforms linux/$$(go env GOARCH)"
	docker build -f deploy/Dockerfile -t conq .

ci: ## everything that must pass
	.ci/run

clean: ## remove what was built
	rm -rf conq dist bench/peers/peers *.test *.prof
