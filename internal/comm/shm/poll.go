package shm

import (
	"time"
)

// Poll paces a wait for something that has to be asked again and again, such as a request of a library: it spins, then
// yields the core between polls, then sleeps between them.
type Poll struct {
	Spins  int           // polls before the first pause
	Yields int           // polls that yield the core, before the first sleep
	Sleep  time.Duration // between later polls
	Every  int           // polls between two checks
}

// Until polls done until it returns true or an error. From time to time it calls check with the time waited so far,
// whose error ends the wait.
func (p Poll) Until(done func() (bool, error), check func(waited time.Duration) error) error {
	var started time.Time
	for polls := 1; ; polls++ {
		if ok, err := done(); ok || err != nil {
			return err
		}
		switch {
		case polls < p.Spins:
		case polls < p.Spins+p.Yields:
			Yield()
		default:
			time.Sleep(p.Sleep)
		}
		if polls%p.Every != 0 {
			continue
		}
		if started.IsZero() {
			started = time.Now()
		}
		if err := check(time.Since(started)); err != nil {
			return err
		}
	}
}
