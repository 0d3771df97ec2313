//go:build !race

package schedule

// The exhaustive tests run for all rank counts up to 64.
const stride = 1
