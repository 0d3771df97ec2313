package golden

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/kernbench/kernbench/internal/base/must"
)

// Block is a block of code on a page of the documentation.
type Block struct {
	Page string // below the root of the module
	Line int    // where its text begins, from 1
	Kind string // first word behind its fence, such as "sh"; "" for a block that is only indented
	Of   string // the other words
	Text string // without the indentation of the block
}

// String says where the block is.
func (b Block) String() string { return fmt.Sprintf("%s:%d", b.Page, b.Line) }

var (
	fence    = regexp.MustCompile("^( *)```([^`]*)$")
	listItem = regexp.MustCompile(`^ *(?:[-*]|[0-9]+\.) `)
)

// Blocks returns the blocks of a page in Markdown, fenced and indented ones.
func Blocks(page, text string) (blocks []Block) {
	lines := strings.Split(text, "\n")
	list := false // inside a list, whose paragraphs are indented by up to three spaces
	for i := 0; i < len(lines); i++ {
		if m := fence.FindStringSubmatch(lines[i]); m != nil {
			kind, of, _ := strings.Cut(m[2], " ")
			b := Block{Page: page, Line: i + 2, Kind: kind, Of: of}
			for i++; i < len(lines) && strings.TrimSpace(lines[i]) != "```"; i++ {
				b.Text += strings.TrimPrefix(lines[i], m[1]) + "\n"
			}
			blocks = append(blocks, b)
			continue
		}
		indent := "    "
		if list {
			indent = "      "
		}
		if strings.HasPrefix(lines[i], indent) && i > 0 && strings.TrimSpace(lines[i-1]) == "" {
			b := Block{Page: page, Line: i + 1}
			for ; i < len(lines) && (strings.HasPrefix(lines[i], indent) || strings.TrimSpace(lines[i]) == ""); i++ {
				b.Text += strings.TrimPrefix(lines[i], indent) + "\n"
			}
			i--
			b.Text = strings.TrimRight(b.Text, "\n") + "\n"
			blocks = append(blocks, b)
			continue
		}
		list = listItem.MatchString(lines[i]) || list && (lines[i] == "" || strings.HasPrefix(lines[i], " "))
	}
	return blocks
}

// Pages returns the blocks of the README and of all pages below docs, by page.
func Pages(t must.T) map[string][]Block {
	t.Helper()
	root := moduleRoot(t)
	pages := map[string][]Block{}
	add := func(path string) {
		text := must.Get(os.ReadFile(path))(t)
		page := filepath.ToSlash(must.Get(filepath.Rel(root, path))(t))
		pages[page] = Blocks(page, string(text))
	}
	for _, path := range must.Get(filepath.Glob(filepath.Join(root, "*.md")))(t) {
		add(path)
	}
	must.Do(t, filepath.WalkDir(filepath.Join(root, "docs"), func(path string, _ fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".md" {
			add(path)
		}
		return err
	}))
	return pages
}

// moduleRoot returns the folder of go.mod, above the package that is tested.
func moduleRoot(t must.T) string {
	t.Helper()
	dir := must.Get(os.Getwd())(t)
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("no go.mod above the folder of the test")
		}
		dir = filepath.Dir(dir)
	}
}

// NamedBy is the first word after "output" of blocks that a test names in a call of Shown or ShownMasked.
const NamedBy = "by"

// Shown compares what a test has printed with the blocks "output by NAME" of the documentation. There must be at least
// one. With -update, Shown writes the text into them.
func Shown(t T, name, printed string) {
	t.Helper()
	shown(t, name, printed, Exact)
}

// ShownMasked is Shown for texts that change from run to run, see Masked. It does not update the pages.
func ShownMasked(t T, name, printed string) {
	t.Helper()
	shown(t, name, printed, Masked)
}

func shown(t T, name, printed string, normalise func(string) string) {
	t.Helper()
	found := false
	for _, blocks := range Pages(t) {
		for _, b := range blocks {
			if b.Kind != "output" || b.Of != NamedBy+" "+name {
				continue
			}
			found = true
			fault := b.Differs(printed, normalise)
			if fault != "" && *update && normalise("0") == "0" {
				b.rewrite(t, printed)
			} else if fault != "" {
				t.Errorf("%s: %s", b, fault)
			}
		}
	}
	if !found {
		t.Errorf("no page shows the output %q", name)
	}
}

// rewrite replaces the text of the block in its page.
func (b Block) rewrite(t T, text string) {
	t.Helper()
	path := filepath.Join(moduleRoot(t), b.Page)
	page := string(must.Get(os.ReadFile(path))(t))
	head := "```" + b.Kind + " " + b.Of + "\n"
	page = strings.Replace(page, head+b.Text, head+strings.Trim(text, "\n")+"\n", 1)
	must.Do(t, os.WriteFile(path, []byte(page), 0o644))
}

// omission is a line of an output block that stands for any number of lines.
const omission = "..."

// Differs returns how a block of output differs from what was printed, or "". The lines of the block must follow one
// another in the printed text, which may have more lines before and after. A line "..." stands for any number of lines.
func (b Block) Differs(printed string, normalise func(string) string) string {
	have := normalised(printed, normalise)
	rest := have
	parts := strings.Split("\n"+b.Text, "\n"+omission+"\n")
	for i, part := range parts {
		want := normalised(strings.TrimPrefix(part, "\n"), normalise)
		if len(parts) > 1 && strings.TrimSpace(part) == "" {
			continue
		}
		at, best := find(rest, want)
		if at < 0 {
			return fmt.Sprintf("the block shows (part %d)\n%s\nbut the program prints something else, first at line %d of "+
				"that part:\n%s", i+1, strings.Join(want, "\n"), best+1, strings.Join(have, "\n"))
		}
		rest = rest[at+len(want):]
	}
	return ""
}

// find returns where the lines want begin in the lines have, or -1 and the most lines that agree anywhere.
func find(have, want []string) (at, agree int) {
	for i := range max(1, len(have)) {
		n := 0
		for n < len(want) && i+n < len(have) && have[i+n] == want[n] {
			n++
		}
		if n == len(want) {
			return i, n
		}
		agree = max(agree, n)
	}
	return -1, agree
}

func normalised(text string, normalise func(string) string) (lines []string) {
	for _, line := range strings.Split(strings.Trim(text, "\n"), "\n") {
		lines = append(lines, normalise(strings.TrimRight(line, " ")))
	}
	return lines
}

// Exact compares every character of a line.
func Exact(line string) string { return line }

var masks = []struct {
	of *regexp.Regexp
	by string
}{
	{regexp.MustCompile(`[0-9]{8}-[0-9]{6}-[0-9a-f]{4}`), "RUN"},
	{regexp.MustCompile(`\bhost [^ ,)]+`), "host NAME"},
	{regexp.MustCompile(`\b[0-9]+(\.[0-9]+)?(e[-+][0-9]+)?`), "N"},
	{regexp.MustCompile(`\bN ?(ns|µs|ms|s)\b`), "N time"},
	{regexp.MustCompile(`\bN ?[KMG]i\b`), "N bytes"},
	{regexp.MustCompile(`\((ns|µs|ms|s)\)`), "(time)"},
	{regexp.MustCompile(` +`), " "},
}

// Masked replaces everything in a line that changes from run to run: numbers, units of times and sizes, runs of
// blanks, the ids of runs and the names of hosts.
func Masked(line string) string {
	for _, m := range masks {
		line = m.of.ReplaceAllString(line, m.by)
	}
	return line
}
