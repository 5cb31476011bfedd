package run

// Gate is the set that keeps work of a run from starting (T185, T217). It is
// kept with the head of the log and changes only together with an append.
type Gate uint8

// Members of a Gate.
const (
	GatePaused  Gate = 1 << iota // between RunPaused and RunResumed
	GateFailing                  // from the StepFailed that armed fail-fast until a retry reopens it
	GateStopped                  // a stop intent exists
	// GateOverlaid is set once an overlay was accepted, for good: an attempt begins
	// only together with the overlays, so whoever does not know of them begins none
	// (T197).
	GateOverlaid
)
