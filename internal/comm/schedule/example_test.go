package schedule_test

import (
	"fmt"

	"github.com/kernbench/kernbench/internal/comm/schedule"
)

func Example() {
	s, err := schedule.New(schedule.AllReduce, "ring", schedule.Params{Ranks: 2, Count: 10})
	if err != nil {
		fmt.Println(err)
		return
	}
	for step := range s.Steps(0) {
		fmt.Println(step)
	}
	fmt.Println("proved:", schedule.Check(s) == nil)
	// Output:
	// copy input[0,10) to output[0,10)
	// sendrecv-reduce output[5,10) to rank 1, output[0,5) from rank 1 (round 0)
	// sendrecv output[0,5) to rank 1, output[5,10) from rank 1 (round 1)
	// proved: true
}
