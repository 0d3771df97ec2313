package dist_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/kernbench/kernbench/dist"
	_ "github.com/kernbench/kernbench/dist/cpu"
)

// together runs fn on two ranks that are goroutines. Programs use Spawn or a launcher.
func together(id string, fn func(g *dist.Group) error) {
	var ranks sync.WaitGroup
	for rank := range 2 {
		ranks.Go(func() {
			g, err := dist.Init(context.Background(), dist.Config{Backend: "cpu", Rank: rank, Size: 2,
				ID: fmt.Sprintf("%s-%d", id, os.Getpid()), Timeout: 10 * time.Second})
			if err == nil {
				err = errors.Join(fn(g), g.Close())
			}
			if err != nil {
				fmt.Printf("rank %d: %v\n", rank, err)
			}
		})
	}
	ranks.Wait()
}

// A loop prepares its call once, and Run then allocates nothing.
func Example() {
	together("example", func(g *dist.Group) error {
		in, out := []float32{1, 2, 3}, make([]float32, 3)
		op, err := g.Prepare(dist.Call{Op: dist.AllReduce, In: dist.Of(in), Out: dist.Of(out), Reduction: dist.Sum})
		if err != nil {
			return err
		}
		for range 3 {
			if err := op.Run(); err != nil {
				return err
			}
			copy(in, out)
		}
		if g.Rank() == 0 {
			fmt.Println(out, "by", op.Plan().Algorithm)
		}
		return nil
	})
	// Output: [8 16 24] by one-stage
}

// An all-reduce in symmetric memory needs no copy, because every rank reaches the memory of the
// others.
func ExampleGroup_Alloc() {
	together("alloc", func(g *dist.Group) error {
		b, err := g.Alloc(dist.F64, 4)
		if err != nil {
			return err
		}
		defer g.Free(b)
		x := dist.Slice[float64](b)
		x[g.Rank()] = 1
		if err := g.AllReduce(b, b, dist.Sum); err != nil { // in place
			return err
		}
		if g.Rank() == 1 {
			fmt.Println(x)
		}
		return nil
	})
	// Output: [1 1 0 0]
}

// The program continues while the call runs. It must not use the buffers before Wait returns.
func ExampleGroup_Start() {
	together("async", func(g *dist.Group) error {
		gradient := []float32{1, 2}
		b := dist.Of(gradient)
		running, err := g.Start(dist.Call{Op: dist.AllReduce, In: b, Out: b, Reduction: dist.Avg})
		if err != nil {
			return err
		}
		other := 6 * 7 // work that does not need the gradient
		if err := running.Wait(); err != nil {
			return err
		}
		if g.Rank() == 0 {
			fmt.Println(gradient, other)
		}
		return nil
	})
	// Output: [1 2] 42
}

// A select can wait for a call and for other events.
func ExampleOp_Done() {
	together("done", func(g *dist.Group) error {
		x := []int64{int64(g.Rank() + 1)}
		running, err := g.Start(dist.Call{Op: dist.AllReduce, In: dist.Of(x), Out: dist.Of(x)})
		if err != nil {
			return err
		}
		select {
		case <-running.Done():
		case <-time.After(time.Minute):
			return errors.New("something else would happen here")
		}
		if g.Rank() == 0 {
			fmt.Println(x)
		}
		return running.Wait()
	})
	// Output: [3]
}

// The context limits how long a rank waits for a message. When the context ends, the group fails on
// every rank.
func ExampleGroup_Watch() {
	ctx, cancel := context.WithCancel(context.Background())
	together("context", func(g *dist.Group) error {
		if g.Rank() == 1 {
			cancel() // instead of sending
			return nil
		}
		g.Watch(ctx)
		err := g.Recv(dist.Of(make([]float32, 4)), 1)
		fmt.Println(errors.Is(err, context.Canceled), err)
		return nil
	})
	// Output: true rank 0 cannot make its call: its context has ended: context canceled
}

// Go has no bfloat16 type. Convert makes slices of it from float32.
func ExampleConvert() {
	x := make([]dist.BFloat16, 2)
	if err := dist.Convert(dist.Of(x), dist.Of([]float32{1, 1.0 / 3})); err != nil {
		panic(err)
	}
	values := make([]float32, len(x))
	if err := dist.Convert(dist.Of(values), dist.Of(x)); err != nil {
		fmt.Println(err)
	}
	fmt.Println(values, x[1].Float32())
	// Output: [1 0.33398438] 0.33398438
}

// A codec can be used without a group: 64 elements of 4 bytes become two groups, each with 32 one-byte
// elements and a scale.
func ExampleParseCodec() {
	codec, err := dist.ParseCodec("int8")
	if err != nil {
		fmt.Println(err)
		return
	}
	x := dist.Make(dist.F32, 64)
	dist.Slice[float32](x)[3] = -127
	encoded := make([]byte, codec.Size(x.DType(), x.Count()))
	codec.Encode(encoded, x.Bytes(), x.DType())
	back := dist.Make(dist.F32, 64)
	codec.DecodeReduce(back.Bytes(), [][]byte{encoded}, back.DType(), dist.Sum)
	fmt.Println(len(encoded), dist.Slice[float32](back)[:4])
	// Output: 72 [0 0 0 -127]
}

// Blocks need not have equal lengths. A rank that holds only its block passes the length of the whole
// vector in Count.
func ExampleCall_count() {
	together("gather", func(g *dist.Group) error {
		whole, mine := make([]int32, 3), []int32{10, 11}
		if g.Rank() == 1 {
			whole, mine = nil, []int32{20}
		}
		err := g.Do(dist.Call{Op: dist.Gather, In: dist.Of(mine), Out: dist.Of(whole), Count: 3})
		if g.Rank() == 0 {
			fmt.Println(whole)
		}
		return err
	})
	// Output: [10 11 20]
}

// Blocks may have any lengths. Every rank passes the lengths of all blocks.
func ExampleCall_counts() {
	together("counts", func(g *dist.Group) error {
		mine, all := []int32{10, 11, 12}, make([]int32, 4)
		if g.Rank() == 1 {
			mine = []int32{20}
		}
		err := g.Do(dist.Call{Op: dist.AllGather, In: dist.Of(mine), Out: dist.Of(all), Counts: []int{3, 1}})
		if g.Rank() == 1 {
			fmt.Println(all)
		}
		return err
	})
	// Output: [10 11 12 20]
}

// An epilogue scales the sum and adds a bias and a residual while the result is stored.
func ExampleEpilogue() {
	together("epilogue", func(g *dist.Group) error {
		x, residual := []float32{1, 2, 3, 4}, []float32{100, 200, 300, 400}
		err := g.Do(dist.Call{Op: dist.AllReduce, In: dist.Of(x), Out: dist.Of(x),
			Epilogue: &dist.Epilogue{Scale: 0.5, Bias: dist.Of([]float32{10, 20}), Residual: dist.Of(residual)}})
		if g.Rank() == 0 {
			fmt.Println(x)
		}
		return err
	})
	// Output: [111 222 313 424]
}

// If ranks disagree, all of them get the same error, and the group cannot be used any more.
func ExampleMisuseError() {
	together("misuse", func(g *dist.Group) error {
		x := make([]float32, 4+g.Rank())
		err := g.Do(dist.Call{Op: dist.AllReduce, In: dist.Of(x), Out: dist.Of(x), Algorithm: "ring"})
		var misuse *dist.MisuseError
		if g.Rank() == 0 {
			fmt.Println(errors.As(err, &misuse))
			fmt.Println(strings.ReplaceAll(err.Error(), ", ", ",\n"))
		}
		return nil
	})
	// Output:
	// true
	// ranks disagree on call 1: rank 0 called allreduce of 4 f32 (sum) by ring in place,
	// rank 1 called allreduce of 5 f32 (sum) by ring in place
}

// Spawn starts the program again for every rank. Only the parent returns from the call.
func ExampleSpawn() {
	err := dist.Spawn(context.Background(), 4, dist.Config{Backend: "cpu"},
		func(ctx context.Context, g *dist.Group) error {
			x := []float64{float64(g.Rank())}
			if err := g.AllReduce(dist.Of(x), dist.Of(x), dist.Max); err != nil {
				return err
			}
			if g.Rank() == 0 {
				fmt.Println("the last rank is", x[0])
			}
			return nil
		})
	if err != nil {
		fmt.Println(err)
	}
}

// Block divides a vector whose length is not a multiple of the number of ranks.
func ExampleBlock() {
	for rank := range 3 {
		off, n := dist.Block(8, 3, rank)
		fmt.Printf("rank %d has %d from %d on\n", rank, n, off)
	}
	// Output:
	// rank 0 has 3 from 0 on
	// rank 1 has 3 from 3 on
	// rank 2 has 2 from 6 on
}
