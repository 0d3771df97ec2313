package hostinfo

import (
	"os"
	"testing"
)

func TestTreeTicks(t *testing.T) {
	stat := func(times string) string { return "7 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 " + times + " 20 0 1 0\n" }
	root := tree(map[string]string{
		"proc/7/stat": stat("100 20 3 4"), "proc/7/task/7/children": "8 9 ", "proc/7/task/11/children": "",
		"proc/8/stat": stat("1000 0 0 0"), "proc/8/task/8/children": "10",
		"proc/10/stat": stat("1 1 1 1"), "proc/10/task/10/children": "",
		"proc/20/stat": stat("1 1 1 1"), "proc/20/task/20/other": "", // a kernel without the lists
	})
	// Process 9 has ended between the list and the look at it.
	if ticks, n, ok := TreeTicks(root, 7); ticks != 1131 || n != 3 || !ok {
		t.Errorf("TreeTicks = %d, %d processes, %v; want 1131 of 3", ticks, n, ok)
	}
	for _, pid := range []int{9, 20} {
		if _, _, ok := TreeTicks(root, pid); ok {
			t.Errorf("process %d: its time is known, though it cannot be", pid)
		}
	}
	if _, n, ok := TreeTicks(Root(), os.Getpid()); ok && n < 1 {
		t.Errorf("this process: %d processes", n)
	}
}
