// Command tuning is a program for `kernbench tune`. It counts words in chunks, with a goroutine for
// each chunk, and prints the time of every pass. The speed depends on the garbage collector (GOGC),
// the number of threads (GOMAXPROCS) and the chunk size.
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
	// A shared machine may take a core away for tenths of a second. With this total time, the median
	// pass is not affected.
	minDuration = 600 * time.Millisecond
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
	for begin := time.Now(); time.Since(begin) < minDuration; {
		start := time.Now()
		if n := count(text, chunk); n != words {
			fmt.Fprintln(os.Stderr, "counted", n)
			os.Exit(1)
		}
		fmt.Printf("time=%.1fus\n", float64(time.Since(start).Nanoseconds())/1e3)
	}
}

// count counts each word and returns the total number of words.
func count(text []string, chunk int) (all int) {
	counts := map[string]int{}
	var mu sync.Mutex
	var group sync.WaitGroup
	for start := 0; start < len(text); start += chunk {
		part := text[start:min(start+chunk, len(text))]
		group.Go(func() {
			own := map[string]int{}
			for _, w := range part {
				own[strings.ToUpper(w)]++ // produces garbage on purpose
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
