package flat

import (
	"fmt"

	"github.com/kernbench/kernbench/dist"
	"github.com/kernbench/kernbench/internal/base/unit"
	"github.com/kernbench/kernbench/internal/comm/schedule"
	"github.com/kernbench/kernbench/internal/dist/instrument"
)

var _ instrument.Estimator = backend{}

// maxMessages limits what is simulated, to about a minute and 2 GiB.
const maxMessages = 1 << 26

// The cost of a call, measured (docs/results). With many ranks a message takes longer, because the state of the ranks
// does not fit the caches, and a rank takes less memory, because garbage is collected earlier. Ranks with more than
// manyMessages messages cut their vector into as many intervals.
const (
	fixedBytes, messageBytes  = 40 << 20, 24
	rankBytes, manyRanksBytes = 5000, 1500
	manyMessages              = 64
	messageNS, farMessageNS   = 400, 1300
	farRanks                  = 1 << 16 // from here on a message takes farMessageNS
	noteSeconds, noteBytes    = 10, 1 << 30
	smallRanks                = 512 // no algorithm is too large for so few ranks
)

// Estimate implements instrument.Estimator.
func (backend) Estimate(op dist.Collective, algorithm string, ranks, count int) (note string, err error) {
	names := capabilities().Algorithms[op]
	if ranks <= smallRanks || len(names) == 0 {
		return "", nil
	}
	if algorithm == "" {
		algorithm = names[0]
	}
	info, _ := schedule.Lookup(string(op), algorithm)
	s, err := schedule.New(string(op), algorithm, schedule.Params{Ranks: ranks, Count: count})
	if err != nil {
		return "", nil // the call reports it
	}
	messages := schedule.Messages(s, maxMessages)
	what := fmt.Sprintf("%s %s with %d ranks sends about %s messages", op, info.Name, ranks,
		unit.FormatSI(float64(messages)))
	switch {
	case info.Direct && ranks > mostDirect:
		return "", fmt.Errorf("%s and reads the memory of peers, which is proved for at most %d ranks: take fewer ranks, or "+
			"an algorithm with messages, such as halving-doubling", what, mostDirect)
	case messages > maxMessages:
		return "", fmt.Errorf("%s, and at most %s are simulated: take fewer ranks, or an algorithm with fewer messages, "+
			"such as halving-doubling", what, unit.FormatSI(maxMessages))
	}
	each := messageNS + (farMessageNS-messageNS)*min(ranks, farRanks)/farRanks
	seconds := float64(messages) * float64(each) / 1e9
	bytes := int64(fixedBytes) + int64(ranks)*rankBytes
	if ranks > manyRanks {
		bytes = fixedBytes + int64(ranks)*manyRanksBytes
	}
	if messages > int64(ranks)*manyMessages {
		bytes += messages * messageBytes
	}
	if seconds < noteSeconds && bytes < noteBytes {
		return "", nil
	}
	return fmt.Sprintf("%s: about %.0f CPU-seconds and %.1f GiB of memory", what, seconds, float64(bytes)/(1<<30)), nil
}
