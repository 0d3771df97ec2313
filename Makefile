# The README explains build, run and test; CONTRIBUTING.md explains the other targets.

GO      ?= go
BIN     := bin/kernbench
VERSION ?= $(shell scripts/version.sh)
LDFLAGS := -s -w -X github.com/kernbench/kernbench/internal/host/hostinfo.Version=$(VERSION)

export CGO_ENABLED := 0

# Every command uses the same flags, so that all share Go's build cache. -dwarf=false leaves out
# debug information, which takes an eighth of the compile time. -c=1 compiles each package
# with one thread: packages are already compiled in parallel, and more threads would compete
# for the same cores.
export GOFLAGS += -trimpath '-gcflags=all=-dwarf=false -c=1'

# RARE_GC makes compilers and linters collect garbage less often. That costs memory and saves
# another eighth of their time. The tests themselves run with GOGC=400, except under the race
# detector, where they run with Go's default.
RARE_GC := GOGC=800

# Property tests try the same random cases every time; `make fuzz` tries new ones.
export RAPID_SEED ?= 1

.PHONY: run picture build test vet test-serial test-parallel test-raced test-times release-test deps lint unit race \
	other-architecture faults slurm fuzz mutate \
	bench bench-collectives bench-limits bench-tcp bench-mpi bench-tune bench-gemm bench-fused \
	bench-solve bench-petsc bench-multigrid ptx gpu-test gemm-test dist gallery clean

# run regenerates every result and figure of the all-reduce evaluation on the simulated
# accelerator. They are written to benches/1H_milestone_output/ccl.
run: build
	$(BIN) run --bench milestone-1h-ccl

# picture copies a figure of `make run` into the README.
picture:
	cp benches/1H_milestone_output/ccl/figures/comparison_fsim.png docs/milestone_ccl.png

# build compiles the program to bin/kernbench.
build:
	$(GO) build -ldflags "$(LDFLAGS)" -o $(BIN) ./cmd/kernbench

# test installs the packages that the tests need (as root; for other users it prints what to install), then runs every
# check once: all tests with -short, a job under Slurm, and the linters. release-test runs what takes longer. vet runs
# first and alone: commands that start together with an empty build cache would each compile the same packages.
test: deps vet
	@$(MAKE) --no-print-directory -k -j3 test-serial slurm test-parallel test-raced lint

# vet also compiles all packages.
vet:
	$(RARE_GC) $(GO) vet ./...

# release-test runs everything that is too long for each change: all tests in full, the packages with goroutines under
# the race detector, 300 faults, every fuzz target, and all sources for the other architecture.
release-test: deps vet
	@$(MAKE) --no-print-directory -k -j1 unit race other-architecture faults fuzz

# test-times runs `make test` without the cache of test results, and prints a table of the packages and tests by time.
test-times:
	@scripts/test-times.sh

# deps installs the Debian packages that the tests need.
deps:
	@scripts/deps.sh

# lint checks formatting, runs staticcheck, and compiles what differs on the other architecture. staticcheck is started with
# `go run`, because `go tool` would compile the standard library again, with other flags.
lint:
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { echo "gofmt would change:"; gofmt -l $$(git ls-files '*.go'); exit 1; }
	$(RARE_GC) nice -n 10 $(GO) run -ldflags=-s honnef.co/go/tools/cmd/staticcheck ./...
	$(RARE_GC) GOARCH=$(OTHER) nice -n 10 $(GO) build $$(git ls-files '*_amd64*' '*_arm64*' '*_other.go' | xargs -n1 dirname | sort -u | sed 's|^|./|')

# other-architecture vets all packages for the architecture that this machine does not have.
OTHER = $(if $(filter arm64,$(shell $(GO) env GOHOSTARCH)),amd64,arm64)
other-architecture:
	$(RARE_GC) GOARCH=$(OTHER) $(GO) vet ./...

# TEST runs `go test`. The timeout is long because the machine may be shared; it only ends tests that hang.
# vet is off because the target vet runs it. -ldflags=-s leaves out the symbol table and debug information: linking takes
# a fifth less time. test-times sets JSON and TIMED.
#
# RANKED matches the packages whose tests run ranks. Ranks poll for messages of other ranks, so they are
# slow when they have to share cores. These packages run one after the other (SERIAL), while
# the next test binary is being linked. All other packages, whose tests mostly wait for processes, run in
# parallel with them (PARALLEL). The argument of both macros is the environment of the tests.
#
# The lock that serialises the test binaries is on the Makefile. It cannot be on go.mod, because every go
# command waits for a lock on that file. The name is RANKED, not RANKS, because make would pass
# RANKS on to the scripts, which use a variable of that name.
TEST     := $(RARE_GC) $(GO) test $(JSON) -vet=off -ldflags=-s -timeout=40m -parallel=$$(($$(nproc) * 2))
PARALLEL = -p=$$(nproc) -exec="env $(1) $(TIMED)"
SERIAL   = -p=2 -exec="flock --close $(CURDIR)/Makefile env $(1) $(TIMED)"
RANKED   := ^\./(benches/(allreduceeval|collectives|gemmallreduce|solvescaling)|dist/(cpu|mpi)|solve)(/|$$)
PACKAGES := $(GO) list -f '.{{slice .ImportPath (len .Module.Path)}}' ./...

# RACED matches the packages that run in `make test` with the race detector, and only with it: what starts, connects and
# watches processes, or moves data between ranks, except for tests that start the whole program, for which everything
# would be compiled twice. RACY lists all packages whose own code starts
# goroutines, takes locks or uses atomics; `make race` runs them all. Goroutines in tests alone do not count: they stand
# for ranks or callers, and the data that they share belongs to a listed package. A sync.Once or a sync.Map alone does
# not count either, because it is safe by itself.
RACED := ^\./(dist|internal/(base/(infile|registry)|bench/(python|run|worker)|comm/(netns|shm|syncgroup|tcp)|dist/devicegroup|host/(collector|hostinfo|mps|proctest)|process/(connection|launch|rankhost)|result/journal))$$
RACY  := git grep -lE '^[[:space:]]*go (func|[a-z][a-zA-Z.]*\()|\.Go\(|sync\.(Mutex|RWMutex|WaitGroup|Cond|Pool)|atomic\.' -- '*.go' ':!*_test.go' | xargs -n1 dirname | sort -u | sed 's|^|./|'

test-serial:
	$(TEST) -short $(call SERIAL,GOGC=400) $$($(PACKAGES) | grep -E '$(RANKED)')

test-parallel:
	nice -n 5 env $(TEST) -short $(call PARALLEL,GOGC=400) $$($(PACKAGES) | grep -vE '$(RANKED)' | grep -vE '$(RACED)')

test-raced:
	nice -n 5 env $(TEST) -short $(call PARALLEL,-u GOGC) -race $$($(PACKAGES) | grep -E '$(RACED)')

# unit runs all tests in full, without the race detector. With TESTED=PACKAGES it runs the tests of these.
unit:
	$(TEST) $(call PARALLEL,GOGC=400) $(or $(TESTED),$$($(PACKAGES) | grep -vE '$(RANKED)'))
	$(if $(TESTED),,$(TEST) $(call SERIAL,GOGC=400) $$($(PACKAGES) | grep -E '$(RANKED)'))

# race runs the tests of all packages with goroutines with the race detector, one package at a time. It needs cgo, which
# the released binary does not use, so tests without cgo are needed too.
race:
	$(TEST) -short -race $(call SERIAL,-u GOGC) $$($(RACY))

# PIXELS are packages compiled without the race detector: they rasterise and encode figures. With the
# detector, they would take most of the test time. They keep no state between figures.
PIXELS := compress/flate github.com/kernbench/kernbench/internal/result/draw github.com/golang/freetype/raster

# INLINED are the packages that the race build compiles with inlining: our own, and the few others in which
# the tests spend time. Inlining takes a third of the compile time.
INLINED := github.com/kernbench/kernbench/... runtime/... internal/... sync/... slices strconv pgregory.net/rapid

race test-raced: export CGO_ENABLED = 1
race test-raced: export GOFLAGS += '-gcflags=all=-dwarf=false -c=1 -l' $(INLINED:%='-gcflags=%=-dwarf=false -c=1') \
	$(PIXELS:%='-gcflags=%=-dwarf=false -c=1 -race=false')

# slurm tests kernbench under a real Slurm with two virtual nodes on this machine.
slurm: build
	@scripts/slurm.sh $(BIN)

# faults injects 300 random faults into running jobs, some of them under Slurm. FAULTS sets another number and
# FAULTS_SEED repeats an earlier choice of faults. Runs mostly wait, so eight go side by side. `make test` injects fewer.
faults:
	FAULTS=$${FAULTS:-300} scripts/slurm.sh -- $(GO) test -count=1 -timeout 90m -parallel 8 -v ./internal/process/faults

# mutate plants errors in the code of the folder PKG, one at a time, and prints those that no test of the package finds
# (LIVED) and those in code that no test runs (NOT COVERED). It runs the package's tests once for each error.
MUTATE := github.com/go-gremlins/gremlins/cmd/gremlins@v0.6.0
mutate:
	$(GO) run $(MUTATE) unleash ./$(or $(PKG),internal/result/journal) --timeout-coefficient 20 -S lct

# fuzz runs every fuzz target for a minute, and the property tests with 1000 new cases each.
fuzz:
	@scripts/fuzz.sh 60s
	RAPID_SEED=0 RAPID_CHECKS=1000 $(GO) test ./...

# bench measures the overhead of kernbench itself; see docs/performance.md.
bench: build
	@scripts/bench.sh $(BIN)

# bench-collectives compares kernbench's all-reduce with the ones of Open MPI, MPICH and gloo, if they are installed.
# This and the following targets use an existing binary if it is named with BIN=path; then they do not need Go.
bench-collectives: $(if $(filter file,$(origin BIN)),build)
	@scripts/bench-collectives.sh $(BIN)

# bench-limits measures which share of this host's memory bandwidth the all-reduce reaches.
bench-limits: $(if $(filter file,$(origin BIN)),build)
	@scripts/bench-limits.sh $(BIN)

# bench-tcp compares the TCP all-reduce with gloo and with Open MPI over TCP. It treats this machine as two
# hosts, connected by the loopback interface.
bench-tcp: $(if $(filter file,$(origin BIN)),build)
	@scripts/bench-tcp.sh $(BIN)

# bench-mpi measures how much longer an MPI call takes from kernbench than from C.
bench-mpi: $(if $(filter file,$(origin BIN)),build)
	@scripts/bench-mpi.sh $(BIN)

# bench-tune repeats the two tuning studies of docs/tune.md.
bench-tune: $(if $(filter file,$(origin BIN)),build)
	@scripts/bench-tune.sh $(BIN)

# bench-gemm compares kernbench's matrix products with OpenBLAS and oneDNN, called from C.
bench-gemm: $(if $(filter file,$(origin BIN)),build)
	@scripts/bench-gemm.sh $(BIN)

# bench-fused measures how well a matrix product and its all-reduce overlap.
bench-fused: $(if $(filter file,$(origin BIN)),build)
	@scripts/bench-fused.sh $(BIN)

# bench-solve compares the solvers with PETSc's and checks weak scaling, partitioners and memory use.
bench-solve: $(if $(filter file,$(origin BIN)),build)
	@scripts/bench-solve.sh $(BIN)

# bench-petsc compares the time to solution with PETSc's, in about 40 minutes.
bench-petsc: $(if $(filter file,$(origin BIN)),build)
	@scripts/bench-petsc.sh $(BIN)

# bench-multigrid counts the iterations of multigrid from 1e5 to 1e7 unknowns.
bench-multigrid: $(if $(filter file,$(origin BIN)),build)
	@scripts/bench-multigrid.sh $(BIN)

# ptx compiles the CUDA sources of the GPU kernels to PTX. It needs nvcc.
ptx:
	@scripts/ptx.sh

# dist builds the release files in bin/dist: archives, Debian packages, wheels, container images and checksums.
dist:
	@scripts/dist.sh $(VERSION) amd64 arm64 static-amd64 static-arm64

# gpu-test builds test binaries in bin, to be copied to a machine with a GPU and run there, also by
# scripts/gpu-sanitizer.sh.
gpu-test:
	$(GO) test -tags gpu -c -o bin/gpu.test ./internal/kernel/gpu
	$(GO) test -c -o bin/gpugemm.test ./internal/kernel/gpugemm
	$(GO) test -c -o bin/device.test ./internal/solve/device
	$(GO) test -c -o bin/bandwidth.test ./benches/bandwidth

# gemm-test builds bin/gemm.test, to be copied to another machine. With -test.run TestPairs -pairs 10 it compares the
# providers of matrix products there.
gemm-test:
	$(GO) test -c -o bin/gemm.test ./internal/kernel/gemm

# gallery draws every kind of figure in both themes, in grey and as color-blind people see it: open out/gallery/index.html.
gallery:
	$(GO) test -p=1 -count=1 -run '^TestGallery$$' ./internal/view/floorplan ./internal/result/figure -gallery $(CURDIR)/out/gallery
	@echo "wrote out/gallery/index.html"

# clean removes everything that the other targets build or measure.
clean:
	rm -rf bin out peers/build
