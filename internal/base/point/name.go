package point

import "regexp"

var (
	validName    = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]*$`)
	validEnvName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// ValidName reports whether a bench, axis, option or metric may have this name.
func ValidName(s string) bool { return validName.MatchString(s) }

// ValidEnvName reports whether an environment variable of this name may be swept.
func ValidEnvName(s string) bool { return validEnvName.MatchString(s) }
