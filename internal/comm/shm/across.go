package shm

// What a group needs that has ranks on other hosts too: its board has room for
// all of them, but only those of this host are on it, and failures also come
// from outside.

// Failed tells whether the group has failed, at the cost of one load.
func (m *Member) Failed() bool { return m.board.header.failed.Load() != 0 }

// Fail makes f the failure of the group, unless there is one, and returns the
// one that counts. Any goroutine may call it.
func (m *Member) Fail(f Failure) error { return m.fail(f) }

// Reached tells whether a peer has signalled an epoch of this call, without
// waiting for it.
func (m *Member) Reached(peer int, epoch uint32) (bool, error) {
	switch Judge(m.lines[epoch&1][peer].flag.Load(), epoch, m.last, m.sig) {
	case Reached:
		return true, nil
	case Differs:
		return false, m.disagree(peer)
	}
	return false, nil
}

// Gone says why a rank of this host will not signal any more, "" while it may.
func (m *Member) Gone(peer int) (why string, dead bool) {
	why = m.gone(peer)
	return why, why == reasonDead
}

// Text is what the label says, and Signature what stands for it.
func (l *Label) Text() string { return l.text }

// Signature is equal for labels of equal text.
func (l *Label) Signature() uint64 { return l.sig }
