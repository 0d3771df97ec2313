# make build, make run and make test are the commands of the README; CONTRIBUTING.md
# has the others.

GO      ?= go
BIN     := bin/kernbench
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
LDFLAGS := -s -w -X github.com/kernbench/kernbench/internal/host/hostinfo.Version=$(VERSION)

export CGO_ENABLED := 0

# The same for everything, so that what one command compiles the next one has. Nobody
# reads debug information, and writing it is an eighth of the compiler's time. Packages
# are compiled beside each other: threads within one only wait for each other.
export GOFLAGS += -trimpath '-gcflags=all=-dwarf=false -c=1'

# Compilers and checkers have memory enough to collect garbage less often, which saves
# another eighth. So have tests, but with the race detector they run as users run them.
FREELY := GOGC=800

# Property tests try the same cases every time; `make fuzz` tries fresh ones.
export RAPID_SEED ?= 1

.PHONY: run picture build test checks many alone deps lint unit rest-many rest-alone race raced race-many race-alone fuzz bench bench-collectives bench-limits bench-tcp bench-mpi bench-tune bench-gemm bench-fused bench-solve faults slurm ptx gpu-test dist clean

# run does the main job: it regenerates every result and figure of the all-reduce
# evaluation on the simulated accelerator, in benches/1H_milestone_output/ccl.
run: build
	$(BIN) run --bench milestone-1h-ccl

# picture renews the README's picture from what `make run` left.
picture:
	cp benches/1H_milestone_output/ccl/figures/comparison_fsim.png docs/milestone_ccl.png

build:
	$(GO) build -ldflags "$(LDFLAGS)" -o $(BIN) ./cmd/kernbench

# test installs what the tests need (as root; otherwise it says what to
# install and stops), then runs every check there is. Commands that start together on an
# empty cache would each compile the same packages, so vet goes first, alone.
test: deps
	$(FREELY) $(GO) vet ./...
	@$(MAKE) --no-print-directory -j3 checks many alone

# Tests of processes and ranks wait more than they work, Slurm's most of all: what is only
# reading and building goes on beside them. Ranks, one package after the other, take longest, so that the
# others step aside for them. Nothing waits for the linters.
checks:
	@$(MAKE) --no-print-directory slurm && $(MAKE) --no-print-directory raced && nice -n 19 $(MAKE) --no-print-directory lint

many:
	@nice -n 5 $(MAKE) --no-print-directory rest-many && nice -n 5 $(MAKE) --no-print-directory race-many

alone:
	@$(MAKE) --no-print-directory rest-alone && $(MAKE) --no-print-directory race-alone

deps:
	@scripts/deps.sh

# `go tool staticcheck` would compile the library once more, with other flags.
lint:
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { echo "gofmt would change:"; gofmt -l $$(git ls-files '*.go'); exit 1; }
	$(FREELY) $(GO) vet ./...
	$(FREELY) $(GO) run -ldflags=-w honnef.co/go/tools/cmd/staticcheck ./...

# A loaded machine is slow, not wrong: the time limit is only there to end what hangs.
# lint has vetted everything, and linking is faster without debug information. Ranks
# poll for each other, so packages whose tests are ranks run one after the other, while
# the next one is linked; packages whose tests wait for processes, or for a GPU that is not there, run
# beside them. Their lock is not on go.mod, for which every go command waits. The scripts have a RANKS of
# their own, which make would hand this one to.
TEST   := $(FREELY) GO=$(GO) scripts/gotest.sh -vet=off -ldflags=-w -timeout=40m -parallel=$$(($$(nproc) * 2))
MANY    = -p=$$(nproc) -exec="env $(1)"
ALONE   = -p=2 -exec="flock --close $(CURDIR)/Makefile env $(1)"
RANKED := ^(github.com/kernbench/kernbench|\.)/(benches/(allreduceeval|collectives|gemmallreduce|gpuallreduce|solvescaling)|dist/(cpu|mpi)|solve)(/|$$)

unit:
	$(TEST) $(call MANY,GOGC=400) $$($(GO) list ./... | grep -vE '$(RANKED)')
	$(TEST) $(call ALONE,GOGC=400) $$($(GO) list ./... | grep -E '$(RANKED)')

# rest is what the race detector does not run as a whole: with it, everything has run.
REST := $(GO) list ./... | grep -vxF "$$(scripts/raced.sh whole | sed 's|^\.|github.com/kernbench/kernbench|')"

rest-many:
	$(TEST) $(call MANY,GOGC=400) $$($(REST) | grep -vE '$(RANKED)')

rest-alone:
	$(TEST) $(call ALONE,GOGC=400) $$($(REST) | grep -E '$(RANKED)')

# The race detector needs cgo, the shipped binary must not: so both are tested.
race: race-many race-alone

# Where it sees them, the pixels of figures are most of what it sees: what rasterises and
# encodes them keeps nothing from one figure to the next.
PIXELS := image/png compress/flate github.com/golang/freetype/raster

# Inlining is a third of the compiler's time, and brings little where a package is somebody else's: few of
# them are where tests spend theirs.
INLINED := github.com/kernbench/kernbench/... runtime/... internal/... sync/... slices strconv pgregory.net/rapid

raced race-many race-alone: export CGO_ENABLED = 1
raced race-many race-alone: export GOFLAGS += '-gcflags=all=-dwarf=false -c=1 -l' $(INLINED:%='-gcflags=%=-dwarf=false -c=1') \
	$(PIXELS:%='-gcflags=%=-dwarf=false -c=1 -race=false')

# raced compiles for race-many and race-alone, which would both compile the same: who
# comes first does it for all.
raced:
	@flock scripts/raced.sh env $(FREELY) $(GO) list -race -export -deps -test $$(scripts/raced.sh) >/dev/null

race-many: raced
	$(TEST) $(call MANY,-u GOGC) -race -short $$(scripts/raced.sh | grep -vE '$(RANKED)')

race-alone: raced
	$(TEST) $(call ALONE,-u GOGC) -race -short $$(scripts/raced.sh | grep -E '$(RANKED)')

# slurm runs kernbench under a real Slurm of several virtual nodes on this machine.
slurm: build
	@scripts/slurm.sh $(BIN)

# faults injects 300 random faults into running jobs, some of them of a Slurm; FAULTS and
# FAULTS_SEED choose. The tests themselves have 30.
faults:
	FAULTS=$${FAULTS:-300} scripts/slurm.sh -- $(GO) test -count=1 -timeout 90m -v ./internal/process/faults

# fuzz gives every fuzz target a minute and the property tests fresh cases.
fuzz:
	@scripts/fuzz.sh 60s
	RAPID_SEED=0 RAPID_CHECKS=1000 $(GO) test ./...

# bench measures the harness itself: see docs/performance.md.
bench: build
	@scripts/bench.sh $(BIN)

# bench-collectives compares the all-reduce with Open MPI, MPICH and gloo, as far
# as installed. With BIN=path it takes a kernbench built elsewhere, without Go.
bench-collectives: $(if $(filter file,$(origin BIN)),build)
	@scripts/bench-collectives.sh $(BIN)

# bench-limits tells what share of this host's limit the all-reduce reaches.
bench-limits: $(if $(filter file,$(origin BIN)),build)
	@scripts/bench-limits.sh $(BIN)

# bench-tcp compares the all-reduce between two nominal hosts with gloo and Open
# MPI's TCP, over loopback.
bench-tcp: $(if $(filter file,$(origin BIN)),build)
	@scripts/bench-tcp.sh $(BIN)

# bench-mpi tells what calling MPI from kernbench costs over calling it from C.
bench-mpi: $(if $(filter file,$(origin BIN)),build)
	@scripts/bench-mpi.sh $(BIN)

# bench-tune makes the two real studies of docs/tune.md.
bench-tune: $(if $(filter file,$(origin BIN)),build)
	@scripts/bench-tune.sh $(BIN)

# bench-gemm compares the matrix products with OpenBLAS from C.
bench-gemm: $(if $(filter file,$(origin BIN)),build)
	@scripts/bench-gemm.sh $(BIN)

# bench-fused measures the matrix product fused with its all-reduce.
bench-fused: $(if $(filter file,$(origin BIN)),build)
	@scripts/bench-fused.sh $(BIN)

# bench-solve compares an iteration of CG + Jacobi with PETSc's, and checks weak
# scaling, partitioners and memory.
bench-solve: $(if $(filter file,$(origin BIN)),build)
	@scripts/bench-solve.sh $(BIN)

# ptx renews the PTX of the GPU kernels from their CUDA sources; it needs nvcc.
ptx:
	@scripts/ptx.sh

# dist builds what is given to others, in bin/dist: archives, Debian packages, checksums.
dist:
	@scripts/dist.sh $(VERSION) amd64 arm64 static-amd64 static-arm64

# gpu-test builds the tests that need a GPU, to be carried to a machine that has one.
gpu-test:
	$(GO) test -tags gpu -c -o bin/gpu.test ./internal/kernel/gpu

clean:
	rm -rf bin out peers/build
