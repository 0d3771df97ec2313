package shm

import "testing"

// A model of falling asleep and waking up: one rank waits for a flag, another
// raises it. Every interleaving must end with the waiting rank awake, also
// without the bound on its sleep.

type sleepState struct {
	flag, asleep bool
	sleepers     int8
	waiter       uint8 // next move of each
	signaller    uint8
	sawSleepers  bool
}

const sleepDone = 9

// waiterMove is wait.pause and wait.sleep: look, count oneself, let the kernel
// compare and sleep, stop counting.
func (s sleepState) waiterMove() (sleepState, bool) {
	switch s.waiter {
	case 0:
		s.waiter = 1
		if s.flag {
			s.waiter = sleepDone
		}
	case 1:
		s.sleepers++
		s.waiter = 2
	case 2: // futex: compares and sleeps in one
		s.waiter = 3
		s.asleep = !s.flag
	case 3:
		if s.asleep {
			return s, false
		}
		s.sleepers--
		s.waiter = 0
	default:
		return s, false
	}
	return s, true
}

// signallerMove is Member.Signal: raise, look for sleepers, wake them.
func (s sleepState) signallerMove(order [3]string) (sleepState, bool) {
	if int(s.signaller) == len(order) {
		return s, false
	}
	switch order[s.signaller] {
	case "raise":
		s.flag = true
	case "look":
		s.sawSleepers = s.sleepers > 0
	case "wake":
		if s.sawSleepers {
			s.asleep = false
		}
	}
	s.signaller++
	return s, true
}

// sleepsOn looks for an end in which the waiting rank sleeps on.
func sleepsOn(s sleepState, order [3]string, seen map[sleepState]bool) bool {
	if seen[s] {
		return false
	}
	seen[s] = true
	a, moved := s.waiterMove()
	found := moved && sleepsOn(a, order, seen)
	b, raised := s.signallerMove(order)
	found = found || raised && sleepsOn(b, order, seen)
	return found || !moved && !raised && s.waiter != sleepDone
}

func TestNobodySleepsOn(t *testing.T) {
	if sleepsOn(sleepState{}, [3]string{"raise", "look", "wake"}, map[sleepState]bool{}) {
		t.Error("a wake-up can be lost")
	}
	if !sleepsOn(sleepState{}, [3]string{"look", "raise", "wake"}, map[sleepState]bool{}) {
		t.Error("the model does not find the wake-up that is lost by looking for sleepers too early")
	}
}
