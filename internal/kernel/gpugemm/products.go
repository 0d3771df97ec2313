package gpugemm

import (
	"fmt"
	"slices"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/host/cuda"
	"github.com/kernbench/kernbench/internal/kernel/gemm"
)

// Products runs a provider's products in memory and on a stream of the caller.
type Products struct {
	device  *device
	builtin *kernels
	lib     *cublasLt
	space   cuda.Pointer // workspace of cuBLASLt; products share it, so they must be in one stream
}

// ProductTypes lists the operand types that a provider multiplies in the caller's memory, with f32
// results. The list is empty if the provider does not support that.
func ProductTypes(provider string) []dtype.DType {
	switch provider {
	case "builtin":
		return []dtype.DType{dtype.BF16}
	case "cublaslt":
		return []dtype.DType{dtype.BF16, dtype.F16, dtype.TF32, dtype.F32}
	}
	return nil
}

// ProductProviders lists the providers that can multiply in the caller's memory.
func ProductProviders() []string { return []string{"builtin", "cublaslt"} }

// NewProducts opens a provider in the current context c. If the machine lacks something, the error is a
// [gemm.MissingError].
func NewProducts(c *cuda.Context, provider string) (*Products, error) {
	d, err := deviceOf(c)
	if err != nil {
		return nil, err
	}
	p := &Products{device: d}
	switch {
	case !slices.Contains(ProductProviders(), provider):
		return nil, fmt.Errorf("provider %q cannot multiply in the caller's memory: want one of %q", provider,
			ProductProviders())
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

// Close releases the provider's memory.
func (p *Products) Close() error {
	if p.space == 0 {
		return nil
	}
	return p.device.Free(p.space)
}

// K is padded with zeros to a multiple of StepK, and the distance of C's rows is a multiple of StepC
// elements.
const (
	StepK = stepK
	StepC = 4
)

// Shape describes a product: A has M rows of K elements, B has N rows of K elements, and C has M rows
// of f32 that are StrideC elements apart.
type Shape struct {
	DType            dtype.DType
	M, N, K, StrideC int
	// Multiprocessors limits how many of them the product uses, if the provider supports that; 0 means
	// all.
	Multiprocessors int
}

// Product is a prepared product that can be started any number of times.
type Product struct{ by multiplier }

// Prepare prepares a product.
func (p *Products) Prepare(s Shape, a, b, c cuda.Pointer) (*Product, error) {
	here := []place{{a, b, c}}
	q := problem{operand: s.DType, m: s.M, n: s.N, k: s.K, ldc: s.StrideC, multiprocessors: s.Multiprocessors, scale: 1}
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

// Start starts the product on a stream.
func (p *Product) Start(s *cuda.Stream) error { return p.by.start(0, s) }

// Details names the kernel or algorithm.
func (p *Product) Details() map[string]string { return p.by.details() }
