package sweep

import (
	"strings"
	"testing"
)

// In a long line, only the words near a number count as its label, and half a word does not.
func TestLabelInLongLine(t *testing.T) {
	for shift := range 8 {
		if text := "tokens" + strings.Repeat(" a", (labelBytes+shift)/2-3); timeBefore([]byte(text)) {
			t.Errorf("%d bytes: a unit of time was found in %q", len(text), text)
		}
	}
	if text := strings.Repeat(" a", labelBytes) + " ns"; !timeBefore([]byte(text)) {
		t.Error("the unit before the number was not found")
	}
}
