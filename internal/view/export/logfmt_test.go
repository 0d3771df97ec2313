package export

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"
)

func init() {
	Formats.Register(Format{Name: "logfmt", Help: "key=value pairs, one line per row", Write: writeLogfmt})
}

// writeLogfmt writes lines such as "size=4Ki dtype=f32 status=ok time_us=12.5".
func writeLogfmt(w io.Writer, in Input, _ Options) error {
	b := bufio.NewWriter(w)
	for _, r := range in.Rows {
		fmt.Fprintf(b, "%v status=%s", r.Point, r.Status)
		for _, name := range slices.Sorted(maps.Keys(r.Metrics)) {
			fmt.Fprintf(b, " %s=%g", name, r.Metrics[name])
		}
		fmt.Fprintln(b)
	}
	return b.Flush()
}
