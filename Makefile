# The verbs of the house. Bare make lists them.
export GOTOOLCHAIN ?= go1.27.3
GO ?= go
GOFMT = $$($(GO) env GOROOT)/bin/gofmt
FUZZTIME ?= 20s

.PHONY: help build test race fuzz lint demo lab peers bench

help: ## list the verbs
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

build: ## build bin/rondo
	@mkdir -p bin
	$(GO) build -trimpath -ldflags '-s -w' -o bin/rondo ./cmd/rondo

test: ## vet, formatting, house rules and all tests (under two minutes on two cores)
	@out=$$($(GOFMT) -l $$(git ls-files '*.go' 2>/dev/null || find . -name '*.go')); [ -z "$$out" ] || { echo "not formatted: $$out"; exit 1; }
	$(GO) vet -tags synctests ./...
	$(GO) test -tags synctests -timeout 300s ./...

race: ## all tests under the race detector
	$(GO) test -race -tags synctests -timeout 900s ./...

fuzz: ## fuzz everything that parses, FUZZTIME each (default 20s)
	@./bench/fuzz.sh $(FUZZTIME)

lint: ## vet and staticcheck
	$(GO) vet -tags synctests ./...
	$(GO) run honnef.co/go/tools/cmd/staticcheck@v0.8.2 ./...

demo: build ## the main job: records through a service that slows down (BOOTSTRAP=host:port for any Kafka)
	./bin/rondo demo $(if $(BOOTSTRAP),--bootstrap-server $(BOOTSTRAP))

lab: build ## every experiment, predicted and measured at full length (an hour; scaled: rondo lab run --set all)
	./bin/rondo lab run --set all --full --report docs/lab/report.html

peers: build ## other people's clients against Rondo's broker, and Rondo against Apache Kafka 4.2.0
	./peers/run.sh

bench: ## print the ratios of docs/performance.md
	./bench/run.sh
