//go:build !race

package main

import (
	"strings"
	"testing"

	"github.com/kernbench/kernbench/internal/base/golden"
)

// The PATH has no kernbench and no virtual environment: everything is found from the interpreter.
const bare = "cp -r testdata/wheel $DIR/$NAME-work && cd $DIR/$NAME-work && unset KERNBENCH KERNBENCH_PYTHON " +
	"PYTHONPATH && export PATH=/usr/bin:/bin PYTHONDONTWRITEBYTECODE=1 && "

// pip installs the wheel in $DIST without a network. It runs from the wheel that Debian's venv would unpack, which
// takes less time than unpacking it.
const pip = "PYTHONPATH=$(ls /usr/share/python-wheels/pip-*.whl) /usr/bin/python3 -m pip " +
	"--python $DIR/$NAME/bin/python install -q --no-index $DIST/*.whl"

const pytest = "$DIR/site/bin/python -m pytest -p no:cacheprovider --kernbench-max-time 0.05 "

// TestWheel installs a wheel with this program. TestDist checks everything that a wheel of a release offers.
func TestWheel(t *testing.T) {
	t.Parallel()
	shell := shellIn(t)
	shell("kernbench wheel $DIST; /usr/bin/python3 -m venv --system-site-packages --without-pip $DIR/site")
	shell("NAME=site; " + pip)
	expect(t, shell("NAME=site && "+bare+"$DIR/site/bin/kernbench version; $DIR/site/bin/python bench_sum.py -q"),
		"kernbench ", "2 points: 2 ok")
	table := shell("cd $DIR/site-work && PYTHONDONTWRITEBYTECODE=1 " + pytest + "-k sorted 2>&1")
	golden.ShownMasked(t, "pytest-table", leftColumns(table, "±trials"))
}

// expect checks that a text contains others.
func expect(t *testing.T, text string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// checkWheel installs the wheel in $DIST into a clean virtual environment, where the command, a bench, a notebook and
// `import iris.bench` need nothing else, and into one with Debian's pytest and pandas. shell runs a script in which $DIR
// is a folder for the test.
func checkWheel(t *testing.T, shell func(script string) string) {
	t.Helper()
	shell("/usr/bin/python3 -m venv --without-pip $DIR/clean && NAME=clean && " + pip)
	expect(t, shell("NAME=clean && "+bare+
		"$DIR/clean/bin/kernbench version; $DIR/clean/bin/kernbench run -q -f bench_sum.py --format csv; "+
		"$DIR/clean/bin/python bench_sum.py -q --out handed; $DIR/clean/bin/python uses_iris.py; "+
		"ls $DIR/clean/lib/python3*/site-packages/kernbench/py.typed"),
		"kernbench v9.8.7", "bench_sum,,1,cpu,10,", "bench_sum,,1,cpu,1000,", "2 points: 2 ok", "<function", "py.typed")
	expect(t, shell("NAME=alone && "+bare+"$DIR/clean/bin/python notebook.py 2>&1"),
		"[4/4] n=1000 how=list", "a list of rows", "the exception of the function", "sum-performance:",
		"all as in triton.testing")

	shell("/usr/bin/python3 -m venv --system-site-packages --without-pip $DIR/site && NAME=site && " + pip)
	expect(t, shell("NAME=site && "+bare+"$DIR/site/bin/python notebook.py 2>&1"), "a frame of pandas",
		"all as in triton.testing")
	expect(t, shell("NAME=tests && "+bare+pytest+"2>&1"), "6 passed in", "kernbench: out/pytest",
		"test_times.py::test_sorted[100]",
		"test_times.py::test_pedantic", "5 points: 4 ok, 1 failed")
	expect(t, shell("cd $DIR/tests-work && PYTHONDONTWRITEBYTECODE=1 && "+pytest+
		"-k test_sum --kernbench-compare out/pytest@-1 --fail-slower 10000% 2>&1"),
		"compared with out/pytest@-1")
	expect(t, shell("cd $DIR/tests-work && ! SLOW=200 "+pytest+
		"-k test_sum --kernbench-compare out/pytest@-1 --fail-slower 5% 2>&1"),
		"slower: test_times.py::test_sum", "1 passed")
	expect(t, shell("cd $DIR/tests-work && ! "+pytest+"-k test_sum --kernbench-compare nowhere --fail-slower 5% 2>&1"),
		"nowhere")
	expect(t, shell("cd $DIR/tests-work && ! "+pytest+"--fail-slower 5% 2>&1"),
		"--fail-slower needs --kernbench-compare RUN")
}

// leftColumns returns the columns of a table up to the last of the given headings. A busy machine adds others.
func leftColumns(text, last string) string {
	lines, width := strings.Split(text, "\n"), 0
	for i, line := range lines {
		if before, _, found := strings.Cut(line, last); found {
			width = len([]rune(before + last))
		}
		if runes := []rune(line); width > 0 && len(runes) > width {
			lines[i] = string(runes[:width])
		}
	}
	return strings.Join(lines, "\n")
}
