// Command tuning is a program to tune: it counts words in chunks, a goroutine for
// each chunk, and prints how long every pass took. How fast it is depends on the
// garbage collector (GOGC), the threads (GOMAXPROCS) and the size of a chunk.
package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	words = 200_000
	// Long against the tenths of a second for which a shared machine takes a core away:
	// of many passes the median is one that had both.
	least = 600 * time.Millisecond
)

func main() {
	chunk, err := strconv.Atoi(os.Args[1])
	if err != nil || chunk < 1 {
		fmt.Fprintln(os.Stderr, "usage: tuning CHUNK")
		os.Exit(2)
	}
	text := make([]string, words)
	for i := range text {
		text[i] = "word" + strconv.Itoa(i*i%997)
	}
	for begin := time.Now(); time.Since(begin) < least; {
		start := time.Now()
		if n := count(text, chunk); n != words {
			fmt.Fprintln(os.Stderr, "counted", n)
			os.Exit(1)
		}
		fmt.Printf("time=%.1fus\n", float64(time.Since(start).Nanoseconds())/1e3)
	}
}

// count counts every word, and returns how many there are in all.
func count(text []string, chunk int) (all int) {
	counts := map[string]int{}
	var mu sync.Mutex
	var group sync.WaitGroup
	for start := 0; start < len(text); start += chunk {
		part := text[start:min(start+chunk, len(text))]
		group.Go(func() {
			own := map[string]int{}
			for _, w := range part {
				own[strings.ToUpper(w)]++ // garbage for the collector
			}
			mu.Lock()
			defer mu.Unlock()
			for w, n := range own {
				counts[w] += n
			}
		})
	}
	group.Wait()
	for _, n := range counts {
		all += n
	}
	return all
}
