package journal

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/kernbench/kernbench/internal/base/lists"
)

// Limits of the tags and of the note that a user gives to a run. Lists show each run on one line.
const (
	maxTags = 16
	maxTag  = 40  // characters
	maxNote = 500 // characters
)

// tagSigns are the characters that a tag may contain besides letters and digits. Spaces and commas are not among
// them, because they separate tags in tables and in the search field of the web page.
const tagSigns = "._-+:/@="

// ParseTags returns the tags in their order, without duplicates. It returns an error if a tag is invalid or if there
// are too many.
func ParseTags(tags []string) ([]string, error) {
	tags = lists.Distinct(tags)
	for _, tag := range tags {
		if err := checkTag(tag); err != nil {
			return nil, err
		}
	}
	if len(tags) > maxTags {
		return nil, fmt.Errorf("%d tags: a run has at most %d", len(tags), maxTags)
	}
	return tags, nil
}

func checkTag(tag string) error {
	n := utf8.RuneCountInString(tag)
	switch {
	case n == 0:
		return fmt.Errorf("an empty tag: want a word such as nightly or h200")
	case n > maxTag:
		return fmt.Errorf("the tag %.40q... has %d characters: want at most %d", tag, n, maxTag)
	case tag[0] == '-':
		return fmt.Errorf("the tag %q begins with a hyphen: want a letter or a digit first", tag)
	}
	for _, r := range tag {
		if r == utf8.RuneError || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune(tagSigns, r) {
			return fmt.Errorf("the tag %q contains %q: want letters, digits and %s", tag, r, tagSigns)
		}
	}
	return nil
}

// CheckNote returns an error for a note that is too long or has more than one line.
func CheckNote(text string) error {
	if n := utf8.RuneCountInString(text); n > maxNote {
		return fmt.Errorf("a note of %d characters: want at most %d", n, maxNote)
	}
	if strings.ContainsFunc(text, unicode.IsControl) || !utf8.ValidString(text) {
		return errors.New("the note has a line end or another control character: want one line of text")
	}
	return nil
}

// mergeTags returns the tags of both lists, without duplicates. It leaves out tags that ParseTags would refuse,
// because the journal may come from somebody else.
func mergeTags(a, b []string) []string {
	good := lists.Filter(slices.Concat(a, b), func(tag string) bool { return checkTag(tag) == nil })
	good = lists.Distinct(good)
	return good[:min(len(good), maxTags)]
}

// TaggedRuns returns the runs that have the tag.
func (j *Journal) TaggedRuns(tag string) []*Run {
	return lists.Filter(j.Runs, func(r *Run) bool { return slices.Contains(r.Header.Tags, tag) })
}
