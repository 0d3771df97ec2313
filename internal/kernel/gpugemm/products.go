package gpugemm

import (
	"fmt"
	"slices"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/host/cuda"
	"github.com/kernbench/kernbench/internal/kernel/gemm"
)

// Products starts products in memory and on a stream of the caller's, by a provider.
type Products struct {
	device  *device
	builtin *kernels
	lib     *cublasLt
	space   cuda.Pointer // of cuBLASLt, whose products are in one stream
}

// ProductTypes are the operands that a provider multiplies so, all into f32; none of a provider
// that does not.
func ProductTypes(provider string) []dtype.DType {
	switch provider {
	case "builtin":
		return builtin{}.Types()
	case "cublaslt":
		return []dtype.DType{dtype.BF16, dtype.F16, dtype.TF32, dtype.F32}
	}
	return nil
}

// ProductProviders lists the providers that have products of their own memory.
func ProductProviders() []string { return []string{"builtin", "cublaslt"} }

// NewProducts opens a provider on a context, which is current. What the machine lacks is a
// [gemm.MissingError].
func NewProducts(c *cuda.Context, provider string) (*Products, error) {
	d, err := deviceOf(c)
	if err != nil {
		return nil, err
	}
	p := &Products{device: d}
	switch {
	case !slices.Contains(ProductProviders(), provider):
		return nil, fmt.Errorf("provider %q has no products in memory of the caller's", provider)
	case provider == "builtin":
		p.builtin, err = builtinOn(d)
		return p, err
	}
	if p.lib, err = openLibrary(); err != nil {
		return nil, &gemm.MissingError{Reason: err}
	}
	p.space, err = d.Alloc(spaceBytes)
	return p, err
}

// Close gives back what the provider has.
func (p *Products) Close() error {
	if p.space == 0 {
		return nil
	}
	return p.device.Free(p.space)
}

// StepK is what the K of a product is rounded up to, with zeros, and StepC what rows of C
// are apart a multiple of, in elements.
const (
	StepK = stepK
	StepC = 4
)

// Shape is a product: A is M rows of K elements, B N rows of them, and C M rows of f32 that
// are StrideC apart.
type Shape struct {
	DType            dtype.DType
	M, N, K, StrideC int
	// Multiprocessors is how many of them it may use, as far as that can be chosen; 0: all.
	Multiprocessors int
}

// Product is one that can be started any number of times.
type Product struct{ by multiplier }

// Prepare makes a product ready.
func (p *Products) Prepare(s Shape, a, b, c cuda.Pointer) (*Product, error) {
	here := []place{{a, b, c}}
	q := problem{operand: s.DType, m: s.M, n: s.N, k: s.K, ldc: s.StrideC, multiprocessors: s.Multiprocessors}
	var by multiplier
	if p.builtin != nil {
		k := *p.builtin
		k.launches = nil
		by = &k
	} else {
		by = &chosen{device: p.device, lib: p.lib, space: p.space}
	}
	return &Product{by}, by.prepare(q, here, nil, false)
}

// Start starts it on a stream.
func (p *Product) Start(s *cuda.Stream) error { return p.by.start(0, s) }

// Details say which kernel or algorithm it is.
func (p *Product) Details() map[string]string { return p.by.details() }
