package gpufused

import "slices"

// OneKernel is a kernel that multiplies bf16 and adds up.
type OneKernel struct {
	Kernel
	Threads, SharedBytes int
	Cluster              int // blocks that multiply together
	// Rows and Cols are what a cluster makes of C at once, for one rank, in tiles of so many
	// rows; each is signalled or added up on its own.
	Rows, Cols, TileRows int
	// BoxRows is how many rows of an operand a bulk tensor copy fetches; 0: there are none.
	BoxRows               int
	leastCompute, compute int // compute, if not 0, is the only one
}

// OneKernels lists the fastest first. The last one runs wherever any does.
var OneKernels = []OneKernel{
	{Kernel: Kernel{"onekernel90a", "onekernel90a_bf16"}, Threads: 384, SharedBytes: 4*(128+256)*64*2 + (2*4+8+2*4)*8,
		Cluster: 2,
		Rows:    256, Cols: 256, TileRows: 64, BoxRows: 128, compute: 90},
	{Kernel: Kernel{"onekernel80", "onekernel80_bf16"}, Threads: 256, SharedBytes: 4 * (128 + 128) * 32 * 2, Cluster: 1,
		Rows: 128, Cols: 128, TileRows: 128, leastCompute: 80},
}

// RunsOn tells whether GPUs of a compute capability, ten times it, run the kernel.
func (k OneKernel) RunsOn(compute int) bool {
	return compute >= k.leastCompute && (k.compute == 0 || compute == k.compute)
}

// Tiles is how many tiles C has, also those of which a cluster leaves out all. A launch adds as
// many to [Params].Arrived.
func (k OneKernel) Tiles(m, n int) int {
	return (m + k.Rows - 1) / k.Rows * (k.Rows / k.TileRows) * ((n + k.Cols - 1) / k.Cols)
}

// FlagWords is how many words of flags a rank has, whichever kernel makes its C.
func FlagWords(m, n int) int {
	most := slices.MaxFunc(OneKernels, func(a, b OneKernel) int { return a.Tiles(m, n) - b.Tiles(m, n) })
	return 64 + most.Tiles(m, n)*MaxRanks
}

// Blocks is how many so many multiprocessors hold, fit each: whole clusters.
func (k OneKernel) Blocks(multiprocessors, fit int) int {
	return multiprocessors * fit / k.Cluster * k.Cluster
}
