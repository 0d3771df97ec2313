// Package sparse holds square sparse matrices spread over ranks: problems that
// give any row on demand, Matrix Market files, the form in which one rank
// multiplies its rows, the plan of what it exchanges with others, and the
// kernels that do the arithmetic.
//
// It moves no data between ranks, chooses no owner of rows and solves nothing:
// see packages partition and krylov. It reads no clock and starts no goroutine.
//
// # From a problem to a product
//
//  1. A Problem (New, or ReadMatrix for a file) knows its rows by number.
//  2. NewPlan, with a Layout that says who owns which rows, finds which values
//     a rank needs from others (its ghosts). The ranks tell each other, and
//     Plan.Serve notes what others need.
//  3. Plan.Matrix makes the rank's rows, in local numbers: owned values first,
//     then ghosts, those of one owner together.
//  4. Before a product the ghosts are exchanged: Plan.Pack gathers what a peer
//     needs; what arrives goes to the peer's range of ghosts as it is. Rows
//     that need no ghost, Plan.Interior, can be multiplied meanwhile.
//
// # Results do not depend on the machine or the form
//
// A row is summed in the order of its entries, products rounded before they are
// added. Every stored form, and every kernel, gives the same bits.
package sparse
