package gpufused

import "slices"

// OneKernel is a kernel that multiplies bf16 matrices and adds the result over the ranks.
type OneKernel struct {
	Kernel
	Threads, SharedBytes int
	Cluster              int // blocks per cluster
	// Rows and Cols are the size of the part of C that a cluster computes at a time, for one owner. It
	// consists of tiles of TileRows rows, which are signalled and added one by one.
	Rows, Cols, TileRows int
	// BoxRows is the number of rows that one bulk tensor copy fetches, or 0 without such copies.
	BoxRows             int
	minCompute, compute int // if compute is not 0, only that capability is supported
}

// OneKernels lists the fused kernels, the fastest first. The last one runs on every supported GPU.
var OneKernels = []OneKernel{
	{Kernel: Kernel{"onekernel90a", "onekernel90a_bf16"}, Threads: 384, SharedBytes: 4*(128+256)*64*2 + (2*4+8+2*4)*8,
		Cluster: 2,
		Rows:    256, Cols: 256, TileRows: 64, BoxRows: 128, compute: 90},
	{Kernel: Kernel{"onekernel80", "onekernel80_bf16"}, Threads: 256, SharedBytes: 4 * (128 + 128) * 32 * 2, Cluster: 1,
		Rows: 128, Cols: 128, TileRows: 128, minCompute: 80},
}

// RunsOn reports whether GPUs of a compute capability run the kernel; 90 means 9.0.
func (k OneKernel) RunsOn(compute int) bool {
	return compute >= k.minCompute && (k.compute == 0 || compute == k.compute)
}

// Tiles returns the number of tiles of C, including tiles of a cluster that lie completely outside of
// C. A launch adds as many to [Params].Arrived.
func (k OneKernel) Tiles(m, n int) int {
	return (m + k.Rows - 1) / k.Rows * (k.Rows / k.TileRows) * ((n + k.Cols - 1) / k.Cols)
}

// FlagWords returns the number of flag words of a rank; it suffices for every kernel.
func FlagWords(m, n int) int {
	most := slices.MaxFunc(OneKernels, func(a, b OneKernel) int { return a.Tiles(m, n) - b.Tiles(m, n) })
	return 64 + most.Tiles(m, n)*MaxRanks
}

// Blocks returns how many blocks run on that many multiprocessors with fit blocks each, rounded down
// to whole clusters.
func (k OneKernel) Blocks(multiprocessors, fit int) int {
	return multiprocessors * fit / k.Cluster * k.Cluster
}
