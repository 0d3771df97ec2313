//go:build race

package main

// Drawing a figure under the race detector takes many seconds. The packages that draw have their own
// race tests; the scripts here test processes that start, communicate and die.
var stories = []string{"failures", "hangs", "resume"}
