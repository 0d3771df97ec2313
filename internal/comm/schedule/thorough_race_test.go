//go:build race

package schedule

// The race detector makes the exhaustive tests ten times slower and finds little in a package without
// goroutines, so it runs them for every ninth rank count only.
const stride = 9
