package unit

import "strconv"

// Plural counts things: 1 rank, 2 ranks.
func Plural(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return strconv.Itoa(n) + " " + noun
}
