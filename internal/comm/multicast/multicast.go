// Package multicast allocates multicast memory for the ranks of a host, each of which has its own GPU. Such memory is
// allocated on every GPU, and a multicast address refers to all of it. The switch between the GPUs (NVSwitch) answers a
// load from the multicast address with the sum over all ranks' memory, and sends a store to the memory of all ranks.
// Only the multimem instructions of PTX may use the multicast address. The memory of each rank also has an ordinary
// address.
package multicast

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/kernbench/kernbench/internal/comm/shm"
	"github.com/kernbench/kernbench/internal/host/cuda"
)

// Memory is multicast memory, with the same number of bytes on every rank's GPU.
type Memory struct {
	Addresses []cuda.Pointer // by rank: the ordinary address in this process
	Multicast cuda.Pointer   // the address for multimem instructions

	context *cuda.Context
	group   *shm.CallChecker
	blocks  []*cuda.Block // each rank's memory
	object  *cuda.Block   // the multicast object, to which the memory of all ranks is bound
	bound   bool          // this rank's memory is bound to object
}

// New allocates at least the given number of bytes on every rank. The contents are undefined. New is a collective call.
// If it fails on one rank, all ranks get that error, and the group can still be used. If the group itself has failed,
// the error is the group's failure.
func New(c *cuda.Context, group *shm.CallChecker, bytes int) (*Memory, error) {
	m := &Memory{context: c, group: group, Addresses: make([]cuda.Pointer, group.Size()),
		blocks: make([]*cuda.Block, group.Size())}
	err := c.Do(func() error { return m.allocate(bytes) })
	if err != nil {
		m.Close() // its error would only follow from err
		return nil, err
	}
	return m, nil
}

// allocate performs the steps of New. After each step the ranks exchange their errors, because the next
// one needs every rank's part: handles must exist before they are passed, and all GPUs must have joined
// the multicast object before memory is bound to it.
func (m *Memory) allocate(bytes int) error {
	granularity, err := m.context.MulticastGranularity(m.group.Size(), bytes)
	all, err := m.exchange("the size of multicast memory", err, granularity)
	if err != nil {
		return err
	}
	granularity = slices.Max(all)
	bytes = (bytes + granularity - 1) / granularity * granularity
	mine, err := m.create(bytes)
	defer closeFiles(mine)
	if _, err := m.exchange("making multicast memory", err, 0); err != nil {
		return err
	}
	files, err := m.group.ExchangeFiles("passing multicast memory", mine...)
	if err != nil {
		return err
	}
	if _, err := m.exchange("joining multicast memory", m.open(files, bytes), 0); err != nil {
		return err
	}
	_, err = m.exchange("binding multicast memory", m.bind(granularity), 0)
	return err
}

// exchange returns the number of each rank. If ranks pass an error, it returns the error of the lowest rank.
func (m *Memory) exchange(what string, mine error, number int) (numbers []int, err error) {
	record := binary.LittleEndian.AppendUint64(nil, uint64(number))
	if mine != nil {
		record = append(record, mine.Error()...)
	}
	all, err := m.group.AllGather(what, record)
	if err != nil {
		return nil, err
	}
	for rank, record := range all {
		if len(record) > 8 {
			return nil, fmt.Errorf("%s: rank %d: %s", what, rank, record[8:])
		}
		numbers = append(numbers, int(binary.LittleEndian.Uint64(record)))
	}
	return numbers, nil
}

func closeFiles(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// create allocates this rank's memory and, on rank 0, the multicast object. It returns files that refer to
// them, to be passed to the other ranks.
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

// open opens the memory of the other ranks and the multicast object, and adds this rank's GPU to the
// object. It closes the files.
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

// bind binds this rank's memory to the multicast object, and maps the object and the memory of all ranks.
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

// Close releases this rank's references. No kernel of any rank may use the memory any more. Close does not
// wait for other ranks; the driver frees the memory when all have released it.
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
