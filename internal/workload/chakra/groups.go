package chakra

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/kernbench/kernbench/internal/base/lists"
)

// Group is a process group.
type Group struct {
	Name  string `json:"pg_name"`
	Ranks []int  `json:"ranks"` // in the order of the group; empty means all ranks
}

// groupNode is the name of the metadata node in which PyTorch records the process groups of a rank.
const groupNode = "## process_group:init ##"

// GroupNode returns a metadata node with the process groups that a rank belongs to. PyTorch records the same node,
// and ASTRA-sim reads it.
func GroupNode(id uint64, groups []Group) (Node, error) {
	text, err := json.Marshal(groups)
	if err != nil {
		return Node{}, err
	}
	return Node{ID: id, Name: groupNode, Type: Metadata,
		Inputs: &IO{Values: "['" + string(text) + "']", Shapes: "[[]]", Types: "['String']"}}, nil
}

// Groups returns the process groups that the trace declares in its metadata node.
func (t *Trace) Groups(ranks int) ([]Group, error) {
	var all []Group
	for i := range t.Nodes {
		n := &t.Nodes[i]
		if n.Type != Metadata || n.Name != groupNode || n.Inputs == nil || n.Inputs.Values == "" {
			continue
		}
		// The value is a Python list of one string, which is the JSON text.
		text := strings.Trim(strings.TrimSpace(n.Inputs.Values), "[]\"'")
		var groups []Group
		text = strings.ReplaceAll(text, `\"`, `"`)
		if err := json.Unmarshal([]byte("["+text+"]"), &groups); err != nil {
			return nil, t.Fault(n, "its process groups cannot be read: %w", err)
		}
		for _, g := range groups {
			if err := g.check(ranks); err != nil {
				return nil, t.Fault(n, "%w", err)
			}
			if len(g.Ranks) == 0 {
				g.Ranks = lists.Range[int](ranks)
			}
			all = append(all, g)
		}
	}
	return all, nil
}

func (g Group) check(ranks int) error {
	seen := make([]bool, ranks)
	for _, r := range g.Ranks {
		if r < 0 || r >= ranks {
			return fmt.Errorf("process group %q has rank %d: want 0 to %d, because there are %d traces", g.Name, r,
				ranks-1, ranks)
		}
		if seen[r] {
			return fmt.Errorf("process group %q has rank %d twice", g.Name, r)
		}
		seen[r] = true
	}
	return nil
}
