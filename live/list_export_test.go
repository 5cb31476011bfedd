package live

// For tests that compare them with what stores say.
var (
	Selects   = selects
	Displayed = displayed
)
