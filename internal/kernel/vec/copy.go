package vec

import "github.com/kernbench/kernbench/internal/base/dtype"

// streamsItself is the length from which Go's copy uses streaming stores.
const streamsItself = 1 << 20

// Copy copies src to dst, of the same length, and leaves dst in the caches at
// any length, for a reader that comes soon. Go's own copy streams long arrays
// past them.
func Copy(dst, src []byte) { copyAt(best, dst, src, false) }

// CopyNT copies src to dst, of the same length, with streaming stores, for
// arrays far larger than the caches. The data is visible to other processors
// before anything stored after it returns.
func CopyNT(dst, src []byte) { copyAt(best, dst, src, true) }

// copyAt needs no kernel of its own: reducing one source of bytes is a copy.
func copyAt(level Level, dst, src []byte, stream bool) {
	k := lookup(level, dtype.U8, Sum)
	srcs := [1][]byte{src}
	k.check(dst, srcs[:])
	if level == Portable || (!stream && len(dst) < streamsItself) {
		copy(dst, src)
		return
	}
	k.run(dst, srcs[:], 1, stream)
}
