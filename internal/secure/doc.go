// Package secure turns Kafka's settings of TLS and SASL into what every
// connection to a broker needs.
//
// The model: a setting is a name and a text, under the names of Kafka's Java
// clients, and some of librdkafka's. Each is checked for itself when it is
// read, and New holds them against each other. The runtime and every verb of
// the command read them here, so that a file that works for one works for all.
// What Kafka refuses, or reads in a way of its own, is refused or read that way
// here. No error repeats a secret.
//
//	transport.go   the table of settings, and what is made of them
//	jaas.go        sasl.jaas.config; javatokens.go the tokens of Java under it
//	stores.go      key and trust stores: PEM (KIP-651) and PKCS12
//	pkcs8.go       encrypted private keys
//	hint.go        what to do about a connection that did not come about
package secure
