//go:build race

package cpu

const raceEnabled = true // its runtime allocates
