// Command rondo is the one binary of the project: the broker, the tools that
// feed and read it, and the demonstration.
//
// # Model
//
// A command line is a verb and its flags. Each verb is one file of this
// package and one struct whose tags are its flags; Run does the work on a
// [terminal] (standard input, output, error and the environment) and returns
// an error. main turns the error into words and an exit code, and nothing
// else ends the process.
//
//   - Data goes to standard output, talk goes to standard error.
//   - A value comes from the flag, else the environment (RONDO_...), else the
//     properties file, else the default.
//   - Kafka's configuration names are written as Kafka writes them; a name
//     that does not exist is an error that offers the nearest one.
//   - A failure says which operation failed, on which object, why, and what
//     to do about it. Exit codes: 0 ok, 1 failed, 2 usage or configuration,
//     3 findings, 4 not found, 5 unreachable (rondo help exit-codes).
//
// The verbs produce and consume keep the letters of kcat.
package main
