package python

import (
	"encoding/json"
	"testing"
)

// Any answer of a program to the greeting is accepted or refused. An accepted bench has a name and a limit of time that
// is not negative.
func FuzzDeclaration(f *testing.F) {
	f.Add([]byte(`{"benches":[{"name":"b","axes":[{"name":"n","type":"int","values":["1","2"]}],"envs":[{"name":"E",` +
		`"values":["1",null]}],"options":[{"name":"o","type":"float","default":"1.5"}],"timeout":3,"trials":2,` +
		`"sampling":{"seconds":1,"repeat":3}}]}`))
	f.Add([]byte(`{"benches":[{"name":"b","axes":[{"name":"n","type":"size","spec":"1K..1G*2"}],"zips":[["n","n"]]}]}`))
	f.Fuzz(func(t *testing.T, answer []byte) {
		var r reply
		if json.Unmarshal(answer, &r) != nil {
			return
		}
		for _, d := range r.Benches {
			d.Wheres = 0 // they would ask the program
			b, err := d.bench(t.Context(), nil)
			if err == nil && (b.Name == "" || b.Parts[0].Timeout < 0 || b.Parts[0].Trials < 0) {
				t.Errorf("%s: bench %q with the limit %v and %d trials", answer, b.Name, b.Parts[0].Timeout, b.Parts[0].Trials)
			}
		}
	})
}
