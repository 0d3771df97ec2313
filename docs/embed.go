// Package docs holds the pages of the documentation, so that the program can show them.
package docs

import "embed"

// Files holds the pages and their pictures, by their paths below docs.
//
//go:embed *.md *.png guides/*.md guides/*.png results/*.md
var Files embed.FS
