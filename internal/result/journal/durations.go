package journal

import "time"

// Durations returns how long the points of a bench took the last time, by Row.TaskKey. The duration is
// from the begin record to the first row.
func (j *Journal) Durations(bench string) map[string]time.Duration {
	took := map[string]time.Duration{}
	for _, r := range j.Runs {
		if r.Header.Bench != bench {
			continue
		}
		begun := map[pointTrial]time.Time{}
		for _, b := range r.Begun {
			begun[pointTrial{b.Key, b.Trial}] = b.Time
		}
		for i := range r.Rows {
			row := &r.Rows[i]
			id := pointTrial{row.TaskKey(), row.Trial}
			start, ok := begun[id]
			if d := row.Time.Sub(start); ok && d >= 0 && !row.Status.NotRun() {
				took[id.key] = d
				delete(begun, id)
			}
		}
	}
	return took
}
