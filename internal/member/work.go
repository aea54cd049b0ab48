package member

// Ticket is the receipt of Begin. The zero Ticket is of no work.
type Ticket struct{}
