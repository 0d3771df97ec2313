//go:build race

package cpu

const raceEnabled = true // the race detector's runtime allocates
