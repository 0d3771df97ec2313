//go:build race

package schedule

// The race detector makes the exhaustive tests ten times slower and has little
// to find in a package without goroutines, so it sees every ninth rank count.
const stride = 9
