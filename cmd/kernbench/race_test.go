//go:build race

package main

// Drawing one figure under the race detector takes many seconds. The packages
// that draw have race tests of their own; here the detector is for the stories
// in which processes start, talk and die.
var stories = []string{"failures", "hangs", "resume"}
