// Package multicast makes memory of the ranks of a host, each on a GPU of its own, that one
// address reaches too: a load from there is the sum over all ranks' memory, which the switch
// between the GPUs adds up, and a store goes to all. Only special instructions may use that
// address; each rank's memory also has one of its own.
//
// What is computed with it is other packages' matter.
package multicast

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"github.com/kernbench/kernbench/internal/comm/shm"
	"github.com/kernbench/kernbench/internal/host/cuda"
)

// Memory is as many bytes of every rank, in the order of ranks.
type Memory struct {
	Addresses []cuda.Pointer // of each rank, as this process reaches it
	Multicast cuda.Pointer   // for multicast instructions

	context *cuda.Context
	group   *shm.CallChecker
	blocks  []*cuda.Block // by rank
	object  *cuda.Block
	bound   bool
}

// New makes memory of at least so many bytes, with any content. All ranks do it together,
// and all have it or none: what one of them lacks is the error of all, and the group goes on.
// Where the group itself has failed, that is the error.
func New(c *cuda.Context, group *shm.CallChecker, bytes int) (*Memory, error) {
	m := &Memory{context: c, group: group, Addresses: make([]cuda.Pointer, group.Size()),
		blocks: make([]*cuda.Block, group.Size())}
	err := c.Do(func() error { return m.make(bytes) })
	if err != nil {
		m.Close() // the first error says why
		return nil, err
	}
	return m, nil
}

func (m *Memory) make(bytes int) error {
	fine, err := m.context.MulticastGranularity(m.group.Size(), bytes)
	all, err := m.agree("the size of multicast memory", err, fine)
	if err != nil {
		return err
	}
	for _, n := range all {
		fine = max(fine, n)
	}
	bytes = (bytes + fine - 1) / fine * fine
	mine, err := m.create(bytes)
	defer closeFiles(mine)
	if _, err := m.agree("making multicast memory", err, 0); err != nil {
		return err
	}
	files, err := m.group.ExchangeFiles("passing multicast memory", mine...)
	if err != nil {
		return err
	}
	// nobody binds before all have joined
	if _, err := m.agree("joining multicast memory", m.open(files, bytes), 0); err != nil {
		return err
	}
	_, err = m.agree("binding multicast memory", m.bind(fine), 0)
	return err
}

// agree tells the others how this rank's part went, with a number, and learns theirs. The
// first rank that could not do its part is the error of all.
func (m *Memory) agree(what string, mine error, number int) (numbers []int, err error) {
	card := binary.LittleEndian.AppendUint64(nil, uint64(number))
	if mine != nil {
		card = append(card, mine.Error()...)
	}
	all, err := m.group.AllGather(what, card)
	if err != nil {
		return nil, err
	}
	for rank, card := range all {
		if len(card) > 8 {
			return nil, fmt.Errorf("%s: rank %d: %s", what, rank, card[8:])
		}
		numbers = append(numbers, int(binary.LittleEndian.Uint64(card)))
	}
	return numbers, nil
}

func closeFiles(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// create makes this rank's memory and, on rank 0, the object that all bind theirs to, and
// gives the files that name them.
func (m *Memory) create(bytes int) (files []*os.File, err error) {
	rank := m.group.Rank()
	if m.blocks[rank], err = m.context.NewBlock(bytes); err == nil && rank == 0 {
		m.object, err = m.context.NewMulticast(m.group.Size(), bytes)
	}
	for _, b := range []*cuda.Block{m.blocks[rank], m.object} {
		if err != nil || b == nil {
			break
		}
		var f *os.File
		if f, err = b.File(); err == nil {
			files = append(files, f)
		}
	}
	return files, err
}

// open takes the memory of the others and the object, and makes this rank's GPU one of its.
func (m *Memory) open(files [][]*os.File, bytes int) (err error) {
	for rank, theirs := range files {
		if rank == m.group.Rank() {
			continue
		}
		if err == nil {
			m.blocks[rank], err = m.context.OpenBlock(theirs[0], bytes)
		}
		if err == nil && rank == 0 {
			m.object, err = m.context.OpenBlock(theirs[1], bytes)
		}
		closeFiles(theirs)
	}
	if err != nil {
		return err
	}
	return m.object.Join()
}

// bind makes this rank's memory its part of the object, and gives everything its address.
func (m *Memory) bind(align int) error {
	if err := m.object.Bind(m.blocks[m.group.Rank()]); err != nil {
		return err
	}
	m.bound = true
	for rank, b := range m.blocks {
		if err := b.Map(align); err != nil {
			return fmt.Errorf("memory of rank %d: %w", rank, err)
		}
		m.Addresses[rank] = b.Address
	}
	err := m.object.Map(align)
	m.Multicast = m.object.Address
	return err
}

// Close gives up this rank's part, when no kernel of any rank uses it any more. It waits
// for nobody: what the others have of it stays theirs.
func (m *Memory) Close() error {
	return m.context.Do(func() error {
		var faults []error
		if m.bound {
			faults = append(faults, m.object.Unbind())
			m.bound = false
		}
		for _, b := range append(m.blocks, m.object) {
			if b != nil {
				faults = append(faults, b.Release())
			}
		}
		m.blocks, m.object = nil, nil
		return errors.Join(faults...)
	})
}
