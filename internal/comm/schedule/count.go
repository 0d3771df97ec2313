package schedule

// Messages estimates how many messages a schedule sends over a network that has no shared memory: messages, flags,
// and requests and answers of reads. It counts them for some ranks, evenly spread, and extrapolates; for up to
// countedRanks ranks it is exact. It returns early with a lower bound above limit.
func Messages(s Schedule, limit int64) int64 {
	n := s.Ranks()
	counted := min(n, countedRanks)
	var sum int64
	for i := range counted {
		rank := i * n / counted
		for step := range s.Steps(rank) {
			switch {
			case step.Op.Sends(), step.Op == Put:
				sum++
			case step.Op == Signal:
				sum += int64(others(step.To, rank))
			case step.Op == Get, step.Op == GetReduce:
				sum += 2 * int64(others(step.From, rank))
			}
			if scaled := sum * int64(n) / int64(counted); scaled > 64*limit {
				return scaled
			}
		}
	}
	return sum * int64(n) / int64(counted)
}

// countedRanks is the number of ranks whose steps Messages counts.
const countedRanks = 64
