package web

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/kernbench/kernbench/internal/base/infile"
	"github.com/kernbench/kernbench/internal/result/journal"
)

// index caches answers about large journals on disk, so that unchanged journals need not be read again. The
// folder can be deleted at any time.
type index struct {
	dir   string // "" disables the index
	build string // the program that made an entry; other programs do not use it
}

const (
	leastIndexed = 4 << 20     // bytes of the smallest journal that is indexed
	leastAge     = time.Minute // since the journal last changed: a growing one must be read anyway
	maxIndex     = 256 << 20   // bytes of the whole index; the oldest entries are deleted first
)

// entry is a cached answer and the state of the journal that it was made from.
type entry struct {
	Of   string          `json:"of"`
	Made json.RawMessage `json:"made"`
}

// entryName returns the name of an entry about a journal and the journal's current state. ok
// is false if such an entry is not kept.
func (x index) entryName(b *cachedJournal, what string) (name string, now fileState, ok bool) {
	now, err := b.fileState()
	path, absErr := filepath.Abs(b.path)
	if x.dir == "" || err != nil || absErr != nil || now.size < leastIndexed || time.Since(now.time) < leastAge {
		return "", now, false
	}
	return fmt.Sprintf("%s\n%s\n%s", x.build, path, what), now, true
}

func (x index) file(name string) string {
	return filepath.Join(x.dir, fmt.Sprintf("%x.json", sha256.Sum256([]byte(name))))
}

func (s fileState) of(name string) string {
	return fmt.Sprintf("%s\n%d bytes of %d", name, s.size, s.time.UnixNano())
}

// get returns the entry with the name if it was made from this state of its journal.
func (x index) get(name string, now fileState) (json.RawMessage, bool) {
	text, err := infile.ReadRegular(x.file(name), infile.Table)
	var e entry
	if err != nil || json.Unmarshal(text, &e) != nil || e.Of != now.of(name) {
		return nil, false
	}
	return e.Made, true
}

// put stores an entry. Errors are ignored: without the entry, the answer is computed again next time.
func (x index) put(name string, now fileState, answer json.RawMessage) {
	text, err := json.Marshal(entry{now.of(name), answer})
	if err != nil || os.MkdirAll(x.dir, 0o700) != nil {
		return
	}
	if journal.WriteFileAtomic(x.file(name), text) == nil {
		x.trim()
	}
}

// trim deletes the oldest entries while the index is too large.
func (x index) trim() {
	files, err := os.ReadDir(x.dir)
	if err != nil {
		return
	}
	var infos []os.FileInfo
	total := int64(0)
	for _, f := range files {
		if info, err := f.Info(); err == nil && filepath.Ext(f.Name()) == ".json" {
			infos = append(infos, info)
			total += info.Size()
		}
	}
	slices.SortFunc(infos, func(a, b os.FileInfo) int {
		return cmp.Or(a.ModTime().Compare(b.ModTime()), cmp.Compare(a.Name(), b.Name()))
	})
	for _, info := range infos {
		if total <= maxIndex {
			return
		}
		if os.Remove(filepath.Join(x.dir, info.Name())) == nil {
			total -= info.Size()
		}
	}
}

// cached returns an answer about a journal from the index, or else makes it, and stores it if keep is true.
func (x index) cached(b *cachedJournal, what string,
	make func() (answer any, keep bool, err error)) (json.RawMessage, error) {
	name, now, kept := x.entryName(b, what)
	if text, ok := x.get(name, now); kept && ok {
		return text, nil
	}
	out, keep, err := make()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(out)
	if err == nil && kept && keep {
		x.put(name, now, text)
	}
	return text, err
}

// indexed wraps find: it answers from the index if possible, and else adds to it.
func (s *Server) indexed(find func(*http.Request) (any, error)) func(*http.Request) (any, error) {
	return func(r *http.Request) (any, error) {
		b, _, err := s.store.open(r.URL.Query().Get("run"))
		if err != nil {
			return nil, err
		}
		return s.store.index.cached(b, r.URL.Path+"?"+r.URL.Query().Encode(), func() (any, bool, error) {
			out, err := find(r)
			page, ok := out.(runPage)
			// Do not cache a run that has not ended: its outcome also depends on whether its process lives.
			return out, !ok || page.Info.Outcome != running && page.Info.Outcome != stopped, err
		})
	}
}
