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
// does not fit the caches. A rank keeps the steps of its messages, up to manyMessages of them. Ranks with more messages
// cut their vector into as many intervals.
const (
	fixedBytes, rankBytes    = 40 << 20, 900
	stepBytes, intervalBytes = 70, 24 // of a message
	manyMessages             = 64
	messageNS, farMessageNS  = 600, 1400
	farRanks                 = 1 << 16 // from here on a message takes farMessageNS
	noteSeconds, noteBytes   = 10, 1 << 30
	smallRanks               = 512 // no algorithm is too large for so few ranks
)

// memory estimates how many bytes of memory a call needs.
func memory(ranks int, messages int64) int64 {
	perRank := messages / int64(ranks)
	bytes := fixedBytes + int64(ranks)*(rankBytes+stepBytes*min(perRank, manyMessages))
	if perRank > manyMessages {
		bytes += messages * intervalBytes
	}
	return bytes
}

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
	case info.Direct && ranks > maxDirectRanks:
		return "", fmt.Errorf("%s and reads the memory of peers, which is proved for at most %d ranks: take fewer ranks, or "+
			"an algorithm with messages, such as halving-doubling", what, maxDirectRanks)
	case messages > maxMessages:
		return "", fmt.Errorf("%s, and at most %s are simulated: take fewer ranks, or an algorithm with fewer messages, "+
			"such as halving-doubling", what, unit.FormatSI(maxMessages))
	}
	each := messageNS + (farMessageNS-messageNS)*min(ranks, farRanks)/farRanks
	seconds := float64(messages) * float64(each) / 1e9
	bytes := memory(ranks, messages)
	if seconds < noteSeconds && bytes < noteBytes {
		return "", nil
	}
	return fmt.Sprintf("%s: about %.0f CPU-seconds and %.1f GiB of memory", what, seconds, float64(bytes)/(1<<30)), nil
}
