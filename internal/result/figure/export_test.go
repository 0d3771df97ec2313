package figure

// Gallery returns the figures of the gallery to tests of package figure_test.
func Gallery() []Figure { return gallery() }

// KindOf returns the name of the content's kind.
func KindOf(c Content) string {
	name, _ := kindOf(c)
	return name
}
