package figure

// Gallery returns the figures of the gallery to tests of package figure_test.
func Gallery() []Figure { return gallery() }
