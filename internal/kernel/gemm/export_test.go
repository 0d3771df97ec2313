package gemm

import (
	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/kernel/tile"
)

// Twisted returns the built-in provider restricted to one type, with a kernel that the test has changed.
func Twisted(d dtype.DType, twist func(*tile.Kernel)) Provider { return twisted{Builtin(), d, twist} }

type twisted struct {
	Provider
	d     dtype.DType
	twist func(*tile.Kernel)
}

func (p twisted) Types() []dtype.DType { return []dtype.DType{p.d} }

func (p twisted) Open(threads int) (Engine, error) {
	opened, err := p.Provider.Open(threads)
	if err != nil {
		return nil, err
	}
	e := opened.(*engine)
	kern := *e.kernels[p.d]
	p.twist(&kern)
	e.kernels[p.d] = &kern
	return e, nil
}
