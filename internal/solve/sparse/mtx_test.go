package sparse

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kernbench/kernbench/internal/base/must"
)

const banner = "%%MatrixMarket matrix coordinate real general\n"

func rowsIn(f *File) [][]float64 {
	out := make([][]float64, f.Size())
	var r Row
	for i := range out {
		out[i] = make([]float64, f.Size())
		f.Row(i, &r)
		for k, c := range r.Cols {
			out[i][c] = r.Vals[k]
		}
	}
	return out
}

// mirrored reports whether a matrix is symmetric.
func mirrored(m [][]float64) bool {
	for i, row := range m {
		for j, v := range row {
			if m[j][i] != v {
				return false
			}
		}
	}
	return true
}

func TestReadMatrix(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		want [][]float64
	}{
		"general":     {banner + "% a comment\n\n2 2 3\n2 1 -1.5e0\n1 1 4\n 2\t2 3 \n", [][]float64{{4, 0}, {-1.5, 3}}},
		"mirrored":    {banner + "2 2 4\n1 1 4\n2 1 -1\n2 2 3\n1 2 -1\n", [][]float64{{4, -1}, {-1, 3}}},
		"other signs": {banner + "2 2 4\n1 1 4\n2 1 -1\n2 2 3\n1 2 1\n", [][]float64{{4, 1}, {-1, 3}}},
		"other places": {banner + "3 3 5\n1 1 1\n2 2 1\n3 3 1\n2 1 5\n1 3 5\n",
			[][]float64{{1, 0, 5}, {5, 1, 0}, {0, 0, 1}}},
		"no last line": {banner + "1 1 1\n1 1 7", [][]float64{{7}}},
		"windows":      {strings.ReplaceAll(banner+"1 1 1\n1 1 7\n", "\n", "\r\n"), [][]float64{{7}}},
		"twice":        {banner + "1 1 2\n1 1 7\n1 1 -2\n", [][]float64{{5}}},
		"upper case":   {"%%MatrixMarket MATRIX Coordinate Real General\n1 1 1\n1 1 7\n", [][]float64{{7}}},
		"symmetric": {"%%MatrixMarket matrix coordinate integer symmetric\n2 2 3\n1 1 4\n2 1 -1\n2 2 5\n",
			[][]float64{{4, -1}, {-1, 5}}},
		"skew-symmetric": {"%%MatrixMarket matrix coordinate real skew-symmetric\n2 2 1\n2 1 3\n",
			[][]float64{{0, -3}, {3, 0}}},
		"pattern": {"%%MatrixMarket matrix coordinate pattern symmetric\n2 2 2\n2 1\n1 1\n", [][]float64{{1, 1}, {1, 0}}},
	} {
		var packed bytes.Buffer
		zip := gzip.NewWriter(&packed)
		_, _ = zip.Write([]byte(tc.text))
		_ = zip.Close()
		for _, text := range []string{tc.text, packed.String()} {
			f, err := ReadMatrix(strings.NewReader(text), nil)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if diff := cmp.Diff(tc.want, rowsIn(f)); diff != "" {
				t.Errorf("%s:\n%s", name, diff)
			}
			if f.Traits().Symmetric != mirrored(tc.want) {
				t.Errorf("%s: traits %+v", name, f.Traits())
			}
		}
	}
}

func TestReadMatrixErrors(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"", "line 1: reading the header"},
		{"hello\n", "line 1: the file starts with"},
		{"%%MatrixMarket matrix array real general\n", "line 1: format array"},
		{"%%MatrixMarket matrix coordinate complex general\n", "line 1: field complex"},
		{"%%MatrixMarket matrix coordinate real hermitian\n", "line 1: symmetry hermitian"},
		{banner, "reading the sizes"},
		{banner + "2 2\n", "line 2: "},
		{banner + "2 2 -1\n", "line 2: "},
		{banner + "2 3 9\n", "square"},
		{banner + "0 0 0\n", "0 rows"},
		{banner + "3 3 2\n1 1 1\n2 2 1\n", "singular"},
		{banner + "1 1 1\n", "line 2: the file ends after 0 of 1"},
		{banner + "2 2 2\n1 1 1\n", "the file ends after 1 of 2"},
		{banner + "% c\n1 1 1\n2 1 1\n", `line 4: row "2": want a number from 1 to 1`},
		{banner + "1 1 1\n1 0 1\n", `line 3: column "0"`},
		{banner + "1 1 1\n1 x 1\n", `line 3: column "x"`},
		{banner + "1 1 1\n1\n", `line 3: column ""`},
		{banner + "1 1 1\n1 1\n", `line 3: value ""`},
		{banner + "1 1 1\n1 1 inf\n", "finite"},
		{banner + "1 1 1\n1 1 -inf\n", "finite"},
		{banner + "1 1 1\n1 1 nan\n", "finite"},
		{banner + "1 1 1\n1 1 1 1\n", "after the entry"},
		{banner + "1 1 1\n99999999999999999999 1 1\n", "line 3: row"},
		{banner + "1 1 1\n1 1 1\n1 1 1\n", "line 4: "},
		{banner + "1 1 1\n1 1 " + strings.Repeat("9", 1<<17) + "\n", "line 3: the line is too long"},
		{"%%MatrixMarket matrix coordinate real symmetric\n2 2 2\n1 2 1\n1 1 1\n", "line 3: entry (1, 2) lies above"},
		{"%%MatrixMarket matrix coordinate real skew-symmetric\n2 2 1\n1 1 1\n", "line 3: entry (1, 1) lies on the diagonal"},
		{"\x1f\x8bnonsense", "decompressing"},
		{banner + "1 1 1\n1 1 1e400\n", "line 3: value \"1e400\": want a finite number"},
		{banner + "1 1 1\n1 1 0x10\n", "line 3: value \"0x10\""},
		{banner + "1 1 1\n1 1 1,5\n", "line 3: value \"1,5\""},
		{banner + "1 1 1\n1 1 1.5D+3\n", "line 3: value \"1.5D+3\""},
		{banner + "1 1 1\n1 0x1 1\n", "line 3: column \"0x1\""},
		{banner + "1 1 2\n1 1 1e308\n1 1 1e308\n", "line 4: entries of the same row and column add up to no finite"},
	} {
		_, err := ReadMatrix(strings.NewReader(tc.text), nil)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%.60q: error %v, want one with %q", tc.text, err, tc.want)
		}
	}
}

// A rank that keeps some rows has all entries of these rows, and no other rows.
func TestReadMatrixKeepsRows(t *testing.T) {
	text := "%%MatrixMarket matrix coordinate real symmetric\n3 3 5\n1 1 1\n2 2 2\n3 3 3\n3 1 4\n2 1 5\n"
	all := must.Get(ReadMatrix(strings.NewReader(text), nil))(t)
	some := must.Get(ReadMatrix(strings.NewReader(text), func(row int) bool { return row != 1 }))(t)
	var a, b Row
	for _, i := range []int{0, 2} {
		all.Row(i, &a)
		some.Row(i, &b)
		if diff := cmp.Diff(a, b); diff != "" {
			t.Errorf("row %d:\n%s", i, diff)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("a row that was not kept was given")
		}
	}()
	some.Row(1, &b)
}

// TestDamagedFile checks that no part of a compressed file is believed if its checksum is wrong or missing, also if the
// damage lies in another member of the archive.
func TestDamagedFile(t *testing.T) {
	const matrix = "%%MatrixMarket matrix coordinate real general\n1 1 1\n1 1 4\n"
	const vector = "%%MatrixMarket matrix array real general\n1 1\n1.5\n"
	compressed := func(text string) string {
		var packed bytes.Buffer
		zip := gzip.NewWriter(&packed)
		must.Get(zip.Write([]byte(text)))(t)
		must.Do(t, zip.Close())
		return packed.String()
	}
	archive := packed(t, [2]string{"m/m_b.mtx", vector}, [2]string{"m/m.mtx", matrix}).String()
	for name, c := range map[string]struct{ matrix, vector string }{
		"plain":   {compressed(matrix), compressed(vector)},
		"archive": {archive, archive},
	} {
		// The last 8 bytes are the checksum and the length.
		for _, damage := range []func(text string) string{
			func(text string) string { return text[:len(text)-8] },
			func(text string) string { return text[:len(text)-8] + "wrongsum" },
		} {
			if _, err := ReadMatrix(strings.NewReader(c.matrix), nil); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if _, err := ReadMatrix(strings.NewReader(damage(c.matrix)), nil); err == nil {
				t.Errorf("%s: a damaged matrix was read", name)
			}
			if _, err := ReadArray(strings.NewReader(damage(c.vector))); err == nil {
				t.Errorf("%s: a damaged vector was read", name)
			}
		}
	}
}

func FuzzReadArray(f *testing.F) {
	const head = "%%MatrixMarket matrix array real general\n"
	f.Add(head + "% a right-hand side\n2 1\n1.5\n-2\n")
	f.Add(head + "1 2\r\n\r\n1e-3\r\n0x1p3\r\n")
	f.Fuzz(func(t *testing.T, text string) {
		a, err := ReadArray(strings.NewReader(text))
		switch {
		case err != nil && !strings.Contains(err.Error(), "line ") && !strings.Contains(err.Error(), "decompressing") &&
			!strings.Contains(err.Error(), "archive"):
			t.Errorf("error %q names no line", err)
		case err == nil && (len(a.Values) != a.Rows*a.Columns || len(a.Values) > len(text)):
			t.Errorf("%d values of %d x %d from %d bytes", len(a.Values), a.Rows, a.Columns, len(text))
		}
		for _, v := range a.Values {
			if v-v != 0 {
				t.Errorf("%q has the value %v", text, v)
			}
		}
	})
}

func FuzzReadMatrix(f *testing.F) {
	f.Add(banner + "2 2 3\n2 1 -1.5e0\n1 1 4\n2 2 3\n")
	f.Add("%%MatrixMarket matrix coordinate pattern symmetric\n2 2 2\n2 1\n1 1\n")
	f.Add("%%MatrixMarket matrix coordinate real skew-symmetric\n2 2 1\n1 2 x\n")
	f.Fuzz(func(t *testing.T, text string) {
		m, err := ReadMatrix(strings.NewReader(text), nil)
		// A matrix may be symmetric without a header that says so.
		if h, headErr := ReadHeader(strings.NewReader(text)); err == nil &&
			(headErr != nil || h.Size() != m.Size() || h.Traits().Symmetric && !m.Traits().Symmetric) {
			t.Errorf("the header alone: %v", headErr)
		}
		if err != nil {
			if !strings.Contains(err.Error(), "line ") && !strings.Contains(err.Error(), "decompressing") &&
				!strings.Contains(err.Error(), "archive") {
				t.Errorf("error %q names no line", err)
			}
			return
		}
		var r, back Row
		for i := range m.Size() {
			m.Row(i, &r)
			for k, c := range r.Cols {
				if r.Vals[k]-r.Vals[k] != 0 {
					t.Fatalf("entry (%d, %d) is %v", i, c, r.Vals[k])
				}
				if c < 0 || c >= m.Size() || k > 0 && r.Cols[k-1] >= c {
					t.Fatalf("row %d has columns %v of %d", i, r.Cols, m.Size())
				}
				if m.Traits().Symmetric {
					m.Row(c, &back)
					found := false
					for n, j := range back.Cols {
						found = found || j == i && back.Vals[n] == r.Vals[k]
					}
					if !found {
						t.Fatalf("entry (%d, %d) has no mirror image", i, c)
					}
				}
			}
		}
	})
}

// packed returns a compressed archive of files.
func packed(t *testing.T, files ...[2]string) *bytes.Buffer {
	t.Helper()
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	archive := tar.NewWriter(zip)
	for _, f := range files {
		must.Do(t, archive.WriteHeader(&tar.Header{Name: f[0], Size: int64(len(f[1])), Mode: 0o644, Typeflag: tar.TypeReg}))
		must.Get(archive.Write([]byte(f[1])))(t)
	}
	must.Do(t, errors.Join(archive.Close(), zip.Close()))
	return &out
}

// In an archive of the SuiteSparse collection, the matrix is distinguished from the vectors.
func TestArchive(t *testing.T) {
	const matrix = "%%MatrixMarket matrix coordinate real symmetric\n2 2 2\n1 1 4\n2 2 5\n"
	const vector = "%%MatrixMarket matrix array real general\n% a right-hand side\n2 1\n1.5\n-2\n"
	files := [][2]string{{"m/m_b.mtx", vector}, {"m/m.mtx", matrix}}
	f, err := ReadMatrix(packed(t, files...), nil)
	if err != nil || f.Size() != 2 {
		t.Fatal(f, err)
	}
	b, err := ReadArray(packed(t, files...))
	if err != nil || b.Rows != 2 || b.Columns != 1 || b.At(0, 0) != 1.5 || b.At(1, 0) != -2 {
		t.Fatal(b, err)
	}
	two := strings.Replace(vector, "2 1\n", "1 2\n", 1)
	if b, err := ReadArray(strings.NewReader(two)); err != nil || b.Columns != 2 || b.At(0, 1) != -2 {
		t.Fatal(b, err)
	}
	if _, err := ReadMatrix(packed(t, [2]string{"m/readme", "x"}), nil); err == nil ||
		!strings.Contains(err.Error(), "no matching file: it has m/readme") {
		t.Error(err)
	}
	for text, want := range map[string]string{
		matrix: "line 1: the banner is",
		"%%MatrixMarket matrix array real general\n2 2\n1\n2\n3\n": "line 5: reading value 4 of 4",
		"%%MatrixMarket matrix array real general\n1 1\n1\n2\n":    "unexpected \"2\" after the last of 1 values",
		"%%MatrixMarket matrix array real general\n2\n":            "line 2: the sizes are \"2\"",
		"%%MatrixMarket matrix array real general\n1 1 1\n1\n":     "line 2: the sizes are \"1 1 1\"",
		"%%MatrixMarket matrix array real general\n0x1 1\n1\n":     "line 2: the sizes are \"0x1 1\"",
		"%%MatrixMarket vector array real general\n1 1\n1\n":       "line 1: the banner is",
		"%%MatrixMarket matrix array real general\n2 1\n1\n":       "line 3: reading value 2 of 2",
		"%%MatrixMarket matrix array real general\n1 1\nNaN\n":     "line 3: value \"NaN\": want a finite number",
		"%%MatrixMarket matrix array real general\n1 1\n-Inf\n":    "line 3: value \"-Inf\": want a finite number",
		"%%MatrixMarket matrix array real general\n1 1\ninf\n":     "line 3: value \"inf\": want a finite number",
	} {
		if _, err := ReadArray(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
