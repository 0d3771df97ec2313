package export

import "testing"

// TestMeanings checks that the columns of every role are explained by their own name.
func TestMeanings(t *testing.T) {
	if len(meanings) != len(roles) {
		t.Fatalf("%d of %d roles are explained", len(meanings), len(roles))
	}
	for role, e := range meanings {
		if e.Name == "" || e.Meaning == "" || roles[role].name != "" && roles[role].name != e.Name {
			t.Errorf("the role %d (%q) has %+v", role, roles[role].name, e)
		}
	}
}
