package journal

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/kernbench/kernbench/internal/base/dtype"
	"github.com/kernbench/kernbench/internal/base/must"
	"github.com/kernbench/kernbench/internal/base/point"
)

// Tests that need another process start this binary with childMode set. It then runs one of
// the functions below instead of the tests.
const childMode = "KERNBENCH_JOURNAL_TEST_CHILD"

var children = map[string]func(args []string) error{
	"append":   childAppend,
	"fsize":    childFileLimit,
	"readonly": childReadOnly,
}

func TestMain(m *testing.M) {
	mode := os.Getenv(childMode)
	if mode == "" {
		os.Exit(m.Run())
	}
	if err := children[mode](os.Args[1:]); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(0)
}

func child(t *testing.T, mode string, args ...string) *exec.Cmd {
	t.Helper()
	self := must.Get(os.Executable())(t)
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), childMode+"="+mode)
	return cmd
}

// childAppend DIR RUN N appends the rows 0 to N-1.
func childAppend(args []string) error {
	w, err := Open(args[0])
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	for i := range n {
		if err := w.Append(testRow(args[1], i)); err != nil {
			return err
		}
	}
	return w.Close()
}

// childFileLimit DIR BYTES appends rows until the file reaches its size limit, which looks like
// a full disk to the program.
func childFileLimit(args []string) error {
	limit, err := strconv.ParseUint(args[1], 10, 64)
	if err != nil {
		return err
	}
	signal.Ignore(syscall.SIGXFSZ)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: limit, Max: limit}); err != nil {
		return err
	}
	return childAppend([]string{args[0], "full", "1000"})
}

// childReadOnly DIR opens a journal for writing as a user other than root.
func childReadOnly(args []string) error {
	if os.Getuid() == 0 {
		if err := errors.Join(syscall.Setgid(65534), syscall.Setuid(65534)); err != nil {
			return err
		}
	}
	_, err := Open(args[0])
	return err
}

var testTime = time.Date(2026, 11, 15, 1, 42, 33, 123456789, time.UTC)

// testRow returns row i of a run. Different i are different work.
func testRow(run string, i int) Row {
	ranks, us := 2, 12.5+float64(i)
	ci := us + 0.25
	return Row{
		Run: run, Bench: "all_reduce", Part: "latency", NumRanks: &ranks, Backend: "cpu", Trial: i % 3,
		Point: point.Point{{Name: "size", Value: point.BytesValue(int64(1024 * (i + 1)))},
			{Name: "dtype", Value: point.StringValue("f32")}},
		Env:    point.Env{{Name: "NCCL_ALGO", Value: "Ring", Set: true}, {Name: "NCCL_PROTO"}},
		Status: OK, Kind: Measured, Clock: "monotonic", Samples: 100,
		Metrics: map[string]float64{"time_us": us, "busbw": 5.25},
		Units:   map[string]string{"time_us": "us", "busbw": "GB/s"},
		Stats: NewObject(map[string]Stat{"time_us": {Min: us - 0.5, P50: us, P90: us + 0.5, P99: us + 1.5,
			Max: us + 2.5, Mean: us + 0.1, CIHigh: &ci}}),
		Host: "node1", Time: testTime, Key: fmt.Sprintf("%016x", i),
	}
}

func mustOpen(t testing.TB, dir string) *Writer {
	t.Helper()
	w := must.Get(Open(dir))(t)
	t.Cleanup(func() { w.Close() })
	return w
}

func mustAppend(t testing.TB, w *Writer, recs ...any) {
	t.Helper()
	for _, rec := range recs {
		must.Do(t, w.Append(rec))
	}
}

func mustRead(t testing.TB, path string) *Journal {
	t.Helper()
	return must.Get(Read(path))(t)
}

type fataler interface {
	Helper()
	Fatal(args ...any)
}

// encodeAll returns the records as the bytes of a journal.
func encodeAll(t fataler, recs ...any) []byte {
	t.Helper()
	var lines []string
	for _, rec := range recs {
		e := must.Get(encode(rec))(t)
		lines = append(lines, string(e.line))
	}
	return []byte(sealAll(lines...))
}

// sealAll adds chains and checksums to lines that end in a brace, and returns them as one text.
func sealAll(lines ...string) string {
	var b strings.Builder
	chains := chainer{}
	for _, line := range lines {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasSuffix(line, "}") {
			chain := ""
			m := runMember.FindStringSubmatch(line)
			if m != nil && (strings.HasPrefix(line, string(rowStart)) || strings.HasPrefix(line, `{"type":"end"`)) {
				chain = chains[m[1]]
			}
			line = strings.TrimSuffix(string(seal([]byte(line+"\n"), chain)), "\n")
			chains.addLine([]byte(line))
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}

func parseBytes(t fataler, data []byte) *Journal {
	t.Helper()
	return must.Get(parse(bytes.NewReader(data), int64(len(data))))(t)
}

func parseText(t fataler, lines ...string) *Journal {
	t.Helper()
	return parseBytes(t, []byte(sealAll(lines...)))
}

// Generators of random records.

var genFinite = rapid.Custom(func(t *rapid.T) float64 {
	return rapid.Float64().Filter(func(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }).Draw(t, "f")
})

func genValue(kind point.Kind) *rapid.Generator[point.Value] {
	return rapid.Custom(func(t *rapid.T) point.Value {
		switch kind {
		case point.Int:
			return point.IntValue(rapid.Int64().Draw(t, "int"))
		case point.Bytes:
			return point.BytesValue(rapid.Int64Min(0).Draw(t, "bytes"))
		case point.Float:
			return point.FloatValue(genFinite.Draw(t, "float"))
		case point.Bool:
			return point.BoolValue(rapid.Bool().Draw(t, "bool"))
		case point.DType:
			return point.DTypeValue(rapid.SampledFrom(dtype.All()).Draw(t, "dtype"))
		case point.Tuple:
			label := rapid.SampledFrom([]string{"", "qkv", "a=b"}).Draw(t, "label")
			return point.TupleValue(label, rapid.SliceOfN(rapid.Int64Min(0), 1, 3).Draw(t, "dims")...)
		}
		return point.StringValue(rapid.String().Draw(t, "string"))
	})
}

var (
	genKind = rapid.SampledFrom([]point.Kind{point.Int, point.Bytes, point.Float, point.String, point.Bool, point.DType,
		point.Tuple})
	genNames = rapid.SliceOfNDistinct(rapid.String(), 0, 5, rapid.ID[string])
	genMap   = rapid.MapOfN(rapid.String(), genFinite, 0, 4)
)

// genAxes generates the axes of one part.
func genAxes(part string) *rapid.Generator[[]AxisInfo] {
	return rapid.Custom(func(t *rapid.T) (axes []AxisInfo) {
		for _, name := range genNames.Draw(t, "axes") {
			axes = append(axes, AxisInfo{part, name, genKind.Draw(t, "kind"), rapid.Bool().Draw(t, "default")})
		}
		return axes
	})
}

// drawPoint is a function and no generator, since rapid needs generators to draw something.
func drawPoint(t *rapid.T, axes []AxisInfo) (p point.Point) {
	for _, a := range axes {
		p = append(p, point.Coord{Name: a.Name, Value: genValue(a.Kind).Draw(t, "value")})
	}
	return p
}

var genEnv = rapid.Custom(func(t *rapid.T) (e point.Env) {
	for _, name := range genNames.Draw(t, "env") {
		v := point.EnvVar{Name: name, Set: rapid.Bool().Draw(t, "set")}
		if v.Set {
			v.Value = rapid.String().Draw(t, "value")
		}
		e = append(e, v)
	}
	return e
})

var genTime = rapid.Custom(func(t *rapid.T) time.Time {
	return time.Unix(rapid.Int64Range(0, 1<<35).Draw(t, "s"), rapid.Int64Range(0, 1e9-1).Draw(t, "ns")).UTC()
})

var anyCondition = rapid.Custom(func(t *rapid.T) Condition {
	return NewCondition(rapid.SampledFrom(Codes()).Draw(t, "code"), rapid.MapOfN(rapid.String(), genFinite, 0, 3).Draw(t,
		"values"), rapid.String().Draw(t, "text"))
})

func genRow(run string, axes []AxisInfo) *rapid.Generator[Row] {
	return rapid.Custom(func(t *rapid.T) Row {
		r := Row{
			Schema: Schema, Run: run, Bench: rapid.String().Draw(t, "bench"), Backend: rapid.String().Draw(t, "backend"),
			Point: drawPoint(t, axes), Env: genEnv.Draw(t, "env"), Trial: rapid.IntRange(0, 9).Draw(t, "trial"),
			NumRanks: rapid.Ptr(rapid.IntRange(1, 9), true).Draw(t, "ranks"),
			Status:   rapid.SampledFrom([]Status{OK, Failed, Timeout, Skipped, NotExecuted}).Draw(t, "status"),
			Reason:   Text(rapid.String().Draw(t, "reason")), Output: rapid.String().Draw(t, "output"),
			Rank:    rapid.Ptr(rapid.IntRange(0, 9), true).Draw(t, "rank"),
			Kind:    rapid.SampledFrom([]Kind{Measured, Simulated, Modelled}).Draw(t, "kind"),
			Samples: rapid.Int().Draw(t, "samples"), Metrics: genMap.Draw(t, "metrics"), Limits: genMap.Draw(t, "limits"),
			Units:      rapid.MapOfN(rapid.String(), rapid.String(), 0, 3).Draw(t, "units"),
			Skew:       rapid.Ptr(genFinite, true).Draw(t, "skew"),
			Conditions: rapid.SliceOfN(anyCondition, 0, 3).Draw(t, "conditions"), Host: rapid.String().Draw(t, "host"),
			Time: genTime.Draw(t, "time"), Key: rapid.StringN(1, -1, -1).Draw(t, "key"),
			Attempt: rapid.IntRange(0, 3).Draw(t, "attempt"),
		}
		if len(axes) > 0 {
			r.Part = axes[0].Part
		}
		if rapid.Bool().Draw(t, "has load") {
			r.Load = &Load{Before: genFinite.Draw(t, "before"), After: genFinite.Draw(t, "after"), Busy: 0.5}
		}
		for _, name := range genNames.Draw(t, "stats") {
			r.Stats = r.Stats.With(name, Stat{Min: genFinite.Draw(t, "min"), P50: genFinite.Draw(t, "p50"),
				CILow: rapid.Ptr(genFinite, true).Draw(t, "ci")})
		}
		return r
	})
}
