package call

// Failure is what an attempt's outcome means for the next attempt.
type Failure int8

// The failures.
const (
	None    Failure = iota // it succeeded
	Service                // the service failed or refused: another attempt may help
	Late                   // the attempt's time-out ended it
	Fatal                  // the same request would fail again
	Crash                  // user code panicked
)
