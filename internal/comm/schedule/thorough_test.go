//go:build !race

package schedule

// Rank counts in the exhaustive tests: all up to 64.
const stride = 1
