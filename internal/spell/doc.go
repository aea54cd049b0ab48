// Package spell finds what was meant by a name that nobody knows: a setting, a
// property, a scenario. The library, the broker and the command refuse such a
// name alike, and say the nearest one.
package spell
