// Package secure turns Kafka's settings of TLS and SASL into what every
// connection to a broker needs.
//
// The model: a setting is a name and a text, under the names of Kafka's Java
// clients, and some of librdkafka's. Each is checked for itself when it is
// read, and New holds them against each other. The runtime and every verb of
// the command read them here, so that a file that works for one works for all.
// Key stores are PEM (KIP-651). No error repeats a secret.
package secure
