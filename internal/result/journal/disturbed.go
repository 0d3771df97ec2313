package journal

import "strings"

// disturbances are how warnings begin that say something else went on while the
// row was measured.
var disturbances = []string{"steal: ", "drift: ", "another kernbench "}

// Disturbed returns the warning that something disturbed the row while it was
// measured, or "" if nothing is known to have.
func (r *Row) Disturbed() string {
	for _, w := range r.Warnings {
		for _, d := range disturbances {
			if strings.HasPrefix(w, d) {
				return w
			}
		}
	}
	return ""
}
