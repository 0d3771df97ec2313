package unit

import "strconv"

// Plural counts things: 1 rank, 2 ranks.
func Plural(n int, noun string) string { return Counted(n, noun, noun+"s") }

// Counted is Plural for words that need more than an s: 1 launch, 2 launches; 1 row was, 2 rows were.
func Counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}
