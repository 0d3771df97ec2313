package schedule

// Messages estimates how many messages a schedule sends over a network without shared memory. It counts messages
// and flags once, and each read of a peer's memory twice, as a request and an answer. For more than countedRanks
// ranks it counts the messages of evenly spaced ranks and extrapolates. As soon as the count exceeds 64*limit,
// it returns this lower bound without counting the rest.
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
