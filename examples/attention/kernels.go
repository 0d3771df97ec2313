package main

import (
	"math"

	"github.com/kernbench/kernbench/accel"
	"github.com/kernbench/kernbench/accel/tl"
)

// softmax replaces each row of x with its softmax. Every PE has a block of rows.
func softmax(x *accel.Tensor) tl.Kernel {
	return func(p *tl.PE) {
		block, _ := x.On(p.ID())
		rows := p.Load(block.Ptr, block.Rows*block.Cols).Reshape(block.Rows, block.Cols)
		rows = p.Cast(rows, tl.F32)
		maxima := p.Unary(tl.Max, rows)                            // one column, repeated over the columns of rows
		weights := p.Unary(tl.Exp, p.Binary(tl.Sub, rows, maxima)) // at most 1, so that exp does not overflow
		result := p.Binary(tl.Div, weights, p.Unary(tl.Sum, weights))
		p.Store(block.Ptr, p.Cast(result, tl.F16))
	}
}

// attention computes out = softmax(q x kT / sqrt(d)) x v for a block of m queries. The two PEs have the queries and
// half of the keys and values each. The second one sends its part to the first, which combines both.
func attention(q, kT, v, out *accel.Tensor) tl.Kernel {
	return func(p *tl.PE) {
		queries, _ := q.On(p.ID())
		keys, _ := kT.On(p.ID())
		values, _ := v.On(p.ID())
		m, d, n := queries.Rows, queries.Cols, keys.Cols

		scores := p.Dot(p.Load(queries.Ptr, m*d), p.Load(keys.Ptr, d*n), m, d, n, tl.F32)
		scores = p.Binary(tl.Mul, scores, p.Full(float32(1/math.Sqrt(float64(d))), 1, tl.F32))
		maxima := p.Unary(tl.Max, scores) // m x 1
		weights := p.Unary(tl.Exp, p.Binary(tl.Sub, scores, maxima))
		total := p.Unary(tl.Sum, weights)
		acc := p.Dot(p.Cast(weights, tl.F16), p.Load(values.Ptr, n*d), m, n, d, tl.F32)

		if p.ProgramID(0) == 1 {
			p.Send(tl.IntraW, maxima)
			p.Send(tl.IntraW, total)
			p.Send(tl.IntraW, acc)
			return
		}
		maxima2 := p.Recv(tl.IntraE, m, tl.F32).Reshape(m, 1)
		total2 := p.Recv(tl.IntraE, m, tl.F32).Reshape(m, 1)
		acc2 := p.Recv(tl.IntraE, m*d, tl.F32).Reshape(m, d)

		// Both parts are relative to their own maximum: scale them to the larger one before they are added.
		larger := p.Binary(tl.Maximum, maxima, maxima2)
		scale := p.Unary(tl.Exp, p.Binary(tl.Sub, maxima, larger))
		scale2 := p.Unary(tl.Exp, p.Binary(tl.Sub, maxima2, larger))
		total = p.FMA(total2, scale2, p.Binary(tl.Mul, total, scale))
		acc = p.FMA(acc2, scale2, p.Binary(tl.Mul, acc, scale))
		to, _ := out.On(p.ID())
		p.Store(to.Ptr, p.Cast(p.Binary(tl.Div, acc, total), tl.F16))
	}
}
