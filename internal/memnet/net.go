package memnet

import (
	"context"
	"errors"
	"net"
	"time"
)

// Net is a network in memory. The zero value is not usable: call New.
type Net struct{}

// New makes a network whose links all have the given one-way latency.
func New(latency time.Duration) *Net { return &Net{} }

// Listen opens a listener on addr ("host:port"; port 0 picks a free one). It
// has the shape of net.Listen, so that a server takes it as its ListenFunc.
func (n *Net) Listen(network, addr string) (net.Listener, error) {
	return nil, errors.New("memnet: listen: not running")
}

// Dialer is a dial function for the client called from. Every client has a
// link of its own to every address, so that one of them can be cut.
func (n *Net) Dialer(from string) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("memnet: dial: not running")
	}
}

// Cut holds back everything between the client from and all listeners, in
// both directions, until Heal. New connections hang.
func (n *Net) Cut(from string) {}

// Heal ends a cut; what was held back is delivered.
func (n *Net) Heal(from string) {}

// Reset closes every connection of the client from with an error on both
// sides.
func (n *Net) Reset(from string) {}

// SetLatency changes the one-way latency of the client's links.
func (n *Net) SetLatency(from string, d time.Duration) {}
