package sparse

func init() {
	Kinds.Register(Kind{
		Name: "rod",
		Help: "-u'' on a line of points: 3 entries per row",
		New:  func(p Params) (Problem, error) { return rod(p.Rows), nil },
	})
}

// rod is the number of points.
type rod int

func (n rod) Size() int      { return int(n) }
func (n rod) Traits() Traits { return Traits{Symmetric: true, Definite: true} }

// Row computes row i from its number alone, so that no rank needs the whole matrix.
func (n rod) Row(i int, r *Row) {
	r.Reset()
	if i > 0 {
		r.Add(i-1, -1)
	}
	r.Add(i, 2)
	if i < int(n)-1 {
		r.Add(i+1, -1)
	}
}
