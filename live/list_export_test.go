package live

// Exported for tests that compare them with the stores.
var (
	Selects   = selects
	Displayed = displayOrder
)
