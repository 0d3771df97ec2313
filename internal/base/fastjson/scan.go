package fastjson

import (
	"encoding/json"
	"unicode/utf8"
)

// maxDepth bounds the recursion: a line of a million brackets must not take the stack.
const maxDepth = 64

// scanner walks over a text. Every method reports false where the text is not the JSON it
// looks for; nothing can be read from it after that.
type scanner struct {
	text  []byte
	at    int
	depth int
}

func (s *scanner) space() {
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case ' ', '\t', '\n', '\r':
			s.at++
		default:
			return
		}
	}
}

// peek is the first byte of what comes next, 0 at the end.
func (s *scanner) peek() byte {
	s.space()
	if s.at == len(s.text) {
		return 0
	}
	return s.text[s.at]
}

func (s *scanner) take(c byte) bool {
	if s.peek() != c {
		return false
	}
	s.at++
	return true
}

func (s *scanner) word(w string) bool {
	if len(s.text)-s.at < len(w) || string(s.text[s.at:s.at+len(w)]) != w {
		return false
	}
	s.at += len(w)
	return true
}

// null takes the word if it comes next.
func (s *scanner) null() bool { return s.peek() == 'n' && s.word("null") }

// str takes a string. What has escapes or is not ASCII is left to encoding/json.
func (s *scanner) str() ([]byte, bool) {
	if !s.take('"') {
		return nil, false
	}
	start, plain := s.at, true
	for ; s.at < len(s.text); s.at++ {
		switch c := s.text[s.at]; {
		case c == '"':
			s.at++
			if plain {
				return s.text[start : s.at-1], true
			}
			var text string
			err := json.Unmarshal(s.text[start-1:s.at], &text)
			return []byte(text), err == nil
		case c == '\\':
			plain = false
			s.at++
		case c < ' ':
			return nil, false
		case c >= utf8.RuneSelf:
			plain = false
		}
	}
	return nil, false
}

// number takes a number by JSON's grammar, which is narrower than strconv's.
func (s *scanner) number() ([]byte, bool) {
	s.space()
	start := s.at
	s.word("-")
	if !s.word("0") && !s.digits() {
		return nil, false
	}
	if s.word(".") && !s.digits() {
		return nil, false
	}
	if s.word("e") || s.word("E") {
		if !s.word("+") {
			s.word("-")
		}
		if !s.digits() {
			return nil, false
		}
	}
	return s.text[start:s.at], true
}

func (s *scanner) digits() bool {
	start := s.at
	for s.at < len(s.text) && s.text[s.at] >= '0' && s.text[s.at] <= '9' {
		s.at++
	}
	return s.at > start
}

// object takes an object; member takes the value of the named one.
func (s *scanner) object(member func(name []byte) bool) bool {
	return s.list('{', '}', func() bool {
		name, ok := s.str()
		return ok && s.take(':') && member(name)
	})
}

// list takes the items between two brackets.
func (s *scanner) list(first, last byte, item func() bool) bool {
	if !s.take(first) {
		return false
	}
	if s.depth++; s.depth > maxDepth {
		return false
	}
	defer func() { s.depth-- }()
	if s.take(last) {
		return true
	}
	for item() {
		if s.take(last) {
			return true
		}
		if !s.take(',') {
			return false
		}
	}
	return false
}

// raw takes any value as it is written.
func (s *scanner) raw() ([]byte, bool) {
	s.space()
	start := s.at
	ok := s.skip()
	return s.text[start:s.at], ok
}

func (s *scanner) skip() bool {
	var ok bool
	switch s.peek() {
	case '{':
		return s.object(func([]byte) bool { return s.skip() })
	case '[':
		return s.list('[', ']', s.skip)
	case '"':
		_, ok = s.str()
	case 't':
		ok = s.word("true")
	case 'f':
		ok = s.word("false")
	case 'n':
		ok = s.word("null")
	default:
		_, ok = s.number()
	}
	return ok
}

// Members calls member for each member of the object that data is, in order, and reports
// whether data is one. Names become strings by intern.
func Members(data []byte, intern func([]byte) string, member func(name string, value []byte) error) (bool, error) {
	s := scanner{text: data}
	var err error
	ok := s.object(func(name []byte) bool {
		key := intern(name)
		value, ok := s.raw()
		if ok {
			err = member(key, value)
		}
		return ok && err == nil
	})
	return ok && s.peek() == 0 && s.at == len(data), err
}
