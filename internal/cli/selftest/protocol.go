package selftest

import (
	"context"
	"errors"

	"github.com/kernbench/kernbench/internal/bench/python"
)

// Protocol checks that a program speaks the protocol of docs/protocol.md.
func Protocol(ctx context.Context, path, interpreter string, report func(Result)) {
	s := session{Options: Options{Report: report}}
	for _, d := range python.Demands() {
		if ctx.Err() != nil {
			return
		}
		s.check("protocol", d.Name, func() (string, error) {
			saw, err := d.Check(ctx, path, interpreter)
			if errors.Is(err, python.ErrNotApplicable) {
				err = skip("%v", err)
			}
			return saw, err
		})
	}
}
