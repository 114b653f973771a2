// Package simnet is the one simulated network of this repository: a true time, clocks with known
// errors, paths with known delays, and nodes that send datagrams over them. See README.md for how
// to write a world.
//
// True time is a time.Duration since the start of a world. A Clock turns true time into readings,
// uint64 microseconds that may wrap modulo 2^64. A Link turns the true time of sending into the
// true times of arrival. A World lets things happen in the order of true time. Everything is
// deterministic: the same seed gives the same datagrams to the byte, and no test has to sleep.
//
// The package imports only the standard library, so a test of any package can use it.
package simnet
