package shm

import "testing"

// This file models how a rank falls asleep and is woken: one rank waits for a flag that another sets.
// In every interleaving the waiting rank must end awake, even without the time limit of its sleep.

type sleepState struct {
	flag, asleep bool
	sleepers     int8
	waiter       uint8 // next move of the waiting rank
	signaller    uint8
	sawSleepers  bool
}

const sleepDone = 9

// waiterMove mirrors wait.pause and wait.sleep: check the flag, register as a sleeper, let the kernel
// compare and sleep, unregister.
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
	case 2: // futex: compares and sleeps atomically
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

// signallerMove mirrors Member.Signal: set the flag, check for sleepers, wake them. order permutes
// these, to show that other orders lose wake-ups.
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

// sleepsOn reports whether some interleaving ends with the waiting rank asleep.
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
