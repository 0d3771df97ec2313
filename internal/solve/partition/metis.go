package partition

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"unsafe"

	"github.com/kernbench/kernbench/internal/host/dynlib"
	"github.com/kernbench/kernbench/internal/solve/sparse"
)

func init() {
	// Parts may be empty if there are few rows per part.
	Partitioners.Register(Partitioner{Name: "metis",
		Help:  "METIS's k-way partition, for edge cut or volume; needs its library",
		Needs: Graph, Weighs: true, Objectives: []Objective{EdgeCut, Volume}, Library: metisName, Imbalance: 1.1, Slack: 2,
		Make: metis})
}

// metisLibrary holds the functions of METIS 5 that are used:
//
//	int METIS_SetDefaultOptions(idx_t *options);
//	int METIS_PartGraphKway(idx_t *nvtxs, idx_t *ncon, idx_t *xadj, idx_t *adjncy,
//	    idx_t *vwgt, idx_t *vsize, idx_t *adjwgt, idx_t *nparts, real_t *tpwgts,
//	    real_t *ubvec, idx_t *options, idx_t *edgecut, idx_t *part);
//
// idx_t has 32 or 64 bits, depending on how the library was built. The indices of most options differ between 5.1 and
// 5.2. Only the index of the objective is the same, so no other option is set.
type metisLibrary struct {
	defaults, kway dynlib.Func
	name           string // with the version, which only the name of the file tells
}

const (
	metisOptions   = 40 // METIS_NOPTIONS
	metisObjective = 1  // METIS_OPTION_OBJTYPE
	metisCut       = 0  // METIS_OBJTYPE_CUT
	metisVolume    = 1  // METIS_OBJTYPE_VOL
	metisOK        = 1  // METIS_OK
)

var metisSpec = dynlib.Register(dynlib.Spec{Name: "METIS", Sonames: []string{"libmetis.so.5", "libmetis.so"},
	Env: "KERNBENCH_METIS", Hint: "Debian: libmetis5"})

var openMetis = sync.OnceValues(func() (*metisLibrary, error) { return loadMetis(metisSpec) })

// loadMetis opens a METIS library with 32-bit indices. It rejects Scotch's replacement, which crashes, and libraries
// with 64-bit indices, which would read past the end of our arrays.
func loadMetis(spec dynlib.Spec) (*metisLibrary, error) {
	lib, err := dynlib.Open(spec)
	if err != nil {
		return nil, err
	}
	if _, err := lib.Symbol("SCOTCH_graphPart"); err == nil {
		return nil, fmt.Errorf("%v is Scotch's METIS-compatible library, which crashes when asked for default options", lib)
	}
	m := &metisLibrary{}
	if err := lib.Bind(map[string]*dynlib.Func{"METIS_SetDefaultOptions": &m.defaults,
		"METIS_PartGraphKway": &m.kway}); err != nil {
		return nil, err
	}
	// SetDefaultOptions sets all options to -1. The number of words that it writes shows the width of idx_t.
	options := make([]int32, 2*metisOptions)
	m.defaults.Call(uintptr(unsafe.Pointer(&options[0])))
	if options[metisOptions-1] != -1 || options[metisOptions] != 0 {
		return nil, fmt.Errorf("%v was not built with 32-bit indices", lib)
	}
	m.name = lib.String()
	if file := dynlib.FileOf(m.kway); file != "" {
		_, version, _ := strings.Cut(filepath.Base(file), ".so.")
		m.name = fmt.Sprintf("%s %s (%s)", spec.Name, cmp.Or(version, "of unknown version"), file)
	}
	return m, nil
}

// metisName returns the name, version and file of the METIS library.
func metisName() (string, error) {
	lib, err := openMetis()
	if err != nil {
		return "", err
	}
	return lib.name, nil
}

// metis partitions the graph with METIS_PartGraphKway, with METIS's own defaults except for the objective.
func metis(p sparse.Problem, o Options) (sparse.Layout, error) {
	lib, err := openMetis()
	if err != nil {
		return nil, err
	}
	t := newTable(p.Size(), o.Ranks)
	if t.trivial() { // METIS accepts no more parts than vertices
		return t, nil
	}
	g, err := newGraph(p, o.Weights)
	if err != nil {
		return nil, err
	}
	if len(g.adj) == 0 {
		return nil, errors.New("no row is coupled to another")
	}
	options := make([]int32, 2*metisOptions)
	lib.defaults.Call(uintptr(unsafe.Pointer(&options[0])))
	options[metisObjective] = metisCut
	if o.Objective == Volume {
		options[metisObjective] = metisVolume
	}
	vertices, constraints, parts, result := int32(p.Size()), int32(1), int32(o.Ranks), int32(0)
	status := int32(lib.kway.Call(
		uintptr(unsafe.Pointer(&vertices)), uintptr(unsafe.Pointer(&constraints)),
		uintptr(unsafe.Pointer(&g.ptr[0])), uintptr(unsafe.Pointer(&g.adj[0])),
		uintptr(unsafe.Pointer(unsafe.SliceData(g.vertex))), // NULL if all weights are 1
		0, 0, uintptr(unsafe.Pointer(&parts)), 0, 0,
		uintptr(unsafe.Pointer(&options[0])), uintptr(unsafe.Pointer(&result)), uintptr(unsafe.Pointer(&t.owners[0]))))
	if status != metisOK {
		return nil, fmt.Errorf("METIS_PartGraphKway returned %d for %d vertices in %d parts", status, vertices, parts)
	}
	if _, err := NewTable(t.owners, o.Ranks); err != nil {
		return nil, fmt.Errorf("METIS_PartGraphKway: %w", err)
	}
	return t, nil
}
