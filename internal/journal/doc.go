// Package journal is the broker's durable log.
package journal
