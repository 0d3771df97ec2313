package node

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/kernbench/kernbench/internal/base/infile"
)

// errorFileVar is the environment variable that names the file in which a rank stores the error that ended it. torch's
// @record decorator writes the file, and torchrun shows the error of the first rank that failed.
const errorFileVar = "TORCHELASTIC_ERROR_FILE"

// makeErrorFiles creates the folder for the error files of a round: next to the logs, or, without logs, a temporary
// folder that remove deletes.
func (n *node) makeErrorFiles(attempt int) (remove func(), err error) {
	if n.spec.Logs.Dir != "" {
		n.errorDir = filepath.Join(n.spec.Logs.Dir, fmt.Sprintf("attempt%d", attempt))
		return func() {}, os.MkdirAll(n.errorDir, 0o755)
	}
	n.errorDir, err = os.MkdirTemp("", "kernbench-errors-") // for this user only
	return func() { os.RemoveAll(n.errorDir) }, err
}

func (n *node) errorFile(rank int) string {
	return filepath.Join(n.errorDir, fmt.Sprintf("rank%d.error.json", rank))
}

// recordedError returns the error that a rank has stored, or "" if it has stored none.
func (n *node) recordedError(rank int) string {
	data, err := infile.ReadRegular(n.errorFile(rank), infile.Config)
	if err != nil {
		return ""
	}
	return parseErrorFile(data)
}

// parseErrorFile returns the message of torch's error file as a single line. The message is a text or an object that
// contains it.
func parseErrorFile(data []byte) string {
	var file struct {
		Message json.RawMessage `json:"message"`
	}
	if json.Unmarshal(data, &file) != nil {
		return ""
	}
	var text string
	if json.Unmarshal(file.Message, &text) != nil {
		var nested struct {
			Message string `json:"message"`
		}
		_ = json.Unmarshal(file.Message, &nested) // else it has no message
		text = nested.Message
	}
	text = strings.Join(strings.Fields(text), " ")
	if r := []rune(text); len(r) > maxQuotedWidth {
		text = string(r[:maxQuotedWidth]) + "…"
	}
	return text
}
