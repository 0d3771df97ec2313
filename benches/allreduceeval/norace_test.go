//go:build !race

package allreduceeval

const raceEnabled = false
